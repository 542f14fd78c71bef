"""Crawl and index a small bundled web on loopback."""
