"""Commands that fetch: crawl, run, hunt, add, import."""
