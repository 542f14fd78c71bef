"""Fixtures of the crawl tests that these tests share."""

from tests.crawl.conftest import run, serve

__all__ = ["run", "serve"]
