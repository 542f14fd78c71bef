"""Watches and their matches: pages and JSON API."""
