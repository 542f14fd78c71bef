"""What sitemaps consist of: their kinds, entries and faults, and the bounds they are read within."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from lycosa.core.records import Alternate

MAX_URLS = 50_000
"""Addresses of one file, as the protocol says."""

MAX_BYTES = 50 * 2**20
"""Bytes of one file after decompression, as the protocol says (52,428,800)."""

MAX_ALTERNATES = 200  # of one address
MAX_ALL_ALTERNATES = 200_000  # of one file: 50 translations of every page name 2.5 million
FAULT_NO_SITEMAP = "not_a_sitemap"
FAULT_TOO_LARGE = "too_large"
FAULT_TOO_MANY = "too_many_urls"
FAULT_GZIP = "gzip_broken"
FAULT_ALTERNATES_CUT = "alternates_cut"
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
    """One address. `url` is normalised; times are milliseconds since 1970 UTC, None where nothing believable is said."""

    url: str
    last_modified_at: int | None = None
    alternates: tuple[Alternate, ...] = ()  # hreflang, the page's own language included where the file says it
    news: bool = False  # has the news extension, or stands in a feed
    published_at: int | None = None
    title: str = ""  # of news
    change_frequency: str = ""  # always hourly daily weekly monthly yearly never
    priority: float | None = None  # 0 to 1


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
