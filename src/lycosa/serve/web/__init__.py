"""Shared parts of the web server: access, limits, errors, translation, page templates."""
