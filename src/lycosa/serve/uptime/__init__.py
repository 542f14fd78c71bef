"""Monitors: pages and JSON API."""
