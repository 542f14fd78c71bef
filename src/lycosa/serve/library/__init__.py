"""The library: pages and JSON API."""
