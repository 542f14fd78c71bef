"""Export captures as WARC or WACZ, and collections as workspaces."""
