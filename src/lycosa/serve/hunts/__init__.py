"""Focused crawls: pages and JSON API."""
