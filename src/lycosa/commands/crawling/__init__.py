"""Use cases that add pages: crawl, import, reparse, submit."""
