"""Commands that explain: status, explain, fetch, site, links, versions."""
