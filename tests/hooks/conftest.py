"""Fixtures of the crawl tests that these tests share."""

from tests.crawl.conftest import serve

__all__ = ["serve"]
