"""Crawls of small sites on loopback."""

from tests.crawl.conftest import run, serve

__all__ = ["run", "serve"]
