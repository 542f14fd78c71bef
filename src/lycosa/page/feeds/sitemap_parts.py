"""What sitemaps consist of: their kinds, entries and faults, and the bounds they are read
within.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

MAX_URLS = 50_000
"""Addresses of one file, as the protocol says."""

MAX_BYTES = 50 * 2**20
"""Bytes of one file after decompression, as the protocol says (52,428,800)."""

FAULT_NO_SITEMAP = "not_a_sitemap"
FAULT_TOO_LARGE = "too_large"
FAULT_TOO_MANY = "too_many_urls"
FAULT_GZIP = "gzip_broken"
FAULT_BAD_URL = "url_unusable"
FAULT_BAD_DATE = "date_unusable"


class SitemapKind(StrEnum):
    """What a sitemap was; `none` is none."""

    URLS = "urls"
    INDEX = "index"
    TEXT = "text"
    FEED = "feed"
    NONE = "none"


class SitemapEntry(NamedTuple):
    """One URL of a sitemap, normalised. `last_modified_at`: ms since 1970 UTC, None if absent or
    not credible.
    """

    url: str
    last_modified_at: int | None = None


class SitemapReference(NamedTuple):
    """A sitemap that an index names."""

    url: str
    last_modified_at: int | None = None


@dataclass(slots=True)
class Sitemap:
    """What a sitemap says, in its order, each URL once (the first). Faults are named once each."""

    kind: SitemapKind = SitemapKind.NONE
    entries: list[SitemapEntry] = field(default_factory=list)
    sitemaps: list[SitemapReference] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fault(self, name: str) -> None:
        if name not in self.faults:
            self.faults.append(name)
