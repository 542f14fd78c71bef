"""Site audits: pages and JSON API."""
