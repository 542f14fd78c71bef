"""Chromium for pages with scripts, without network access of its own.

Resources that a page needs are requested from the crawl, which fetches them under its rules.
"""
