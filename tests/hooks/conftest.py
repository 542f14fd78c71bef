"""Small sites on loopback, as for crawls."""

from tests.crawl.conftest import serve

__all__ = ["serve"]
