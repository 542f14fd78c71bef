"""Sitemaps: their entries, the limits within which they are read, and their XML form (`urlset`
and `sitemapindex`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lycosa.core.errors import Refusal
from lycosa.page.dates import parse_date
from lycosa.page.feeds.xml_events import MAX_TEXT, Enough, local_name, prefix_of
from lycosa.url.normalise import LinkResolver

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

_MONTH_ONLY: Final = re.compile(r"\s*(\d{4})(?:-(\d\d))?\s*")
_FIELDS: Final = frozenset({"loc", "lastmod"})


class SitemapKind(StrEnum):
    """The form of a sitemap; `none`: the document is no sitemap."""

    URLS = "urls"
    INDEX = "index"
    TEXT = "text"
    FEED = "feed"
    NONE = "none"


class SitemapEntry(NamedTuple):
    """One URL of a sitemap or index, normalised. `last_modified_at`: ms since 1970 UTC, None if
    absent or not credible.
    """

    url: str
    last_modified_at: int | None = None


@dataclass(slots=True)
class Sitemap:
    """The entries in their order, each URL once (the first). Each fault is listed once."""

    kind: SitemapKind = SitemapKind.NONE
    entries: list[SitemapEntry] = field(default_factory=list)
    sitemaps: list[SitemapEntry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class SitemapReader:
    """Reads the events of one sitemap. The prefix of elements counts: `image:loc` is not the URL
    of the page.

    `root`: the local name of the root element. Other documents than urlset and sitemapindex are
    not read further.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.faults: list[str] = []
        self._kind = SitemapKind.NONE
        self._entries: list[SitemapEntry] = []
        self._sitemaps: list[SitemapEntry] = []
        self.root = ""
        self._resolver = resolver
        self._left = limit
        self._seen: set[str] = set()
        self._item = ""  # "url" or "sitemap" while in one
        self._prefix = ""
        self._element = ""
        self._pieces: list[str] = []
        self._values: dict[str, str] = {}

    def sitemap(self) -> Sitemap:
        """Return what was read."""
        return Sitemap(self._kind, self._entries, self._sitemaps, self.faults)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if not self.root:
            self.root = name
            if name not in ("urlset", "sitemapindex"):
                raise Enough
            self._kind = SitemapKind.URLS if name == "urlset" else SitemapKind.INDEX
        elif not self._item:
            if name in ("url", "sitemap"):
                self._item, self._prefix = name, prefix_of(tag)
                self._values = {}
        elif name in _FIELDS and prefix_of(tag) == self._prefix:
            self._element, self._pieces = name, []

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._element:
            if name == self._element:
                self._values.setdefault(name, "".join(self._pieces).strip()[:MAX_TEXT])
                self._element = ""
        elif name == self._item and prefix_of(tag) == self._prefix:
            item, self._item = self._item, ""
            self._close(item)

    def text(self, text: str) -> None:
        if self._element and len(self._pieces) < 1_000:
            self._pieces.append(text)

    def _close(self, item: str) -> None:
        location = self._values.get("loc")
        url = self._resolver.resolve(location) if location else Refusal.UNPARSABLE
        if type(url) is Refusal:
            self.faults.append(FAULT_BAD_URL)
            return
        if url in self._seen:
            return
        if not self._left:
            self.faults.append(FAULT_TOO_MANY)
            raise Enough
        self._left -= 1
        self._seen.add(url)
        entries = self._sitemaps if item == "sitemap" else self._entries
        entries.append(SitemapEntry(url, self._date("lastmod")))

    def _date(self, name: str) -> int | None:
        text = self._values.get(name)
        if not text:
            return None
        moment = parse_w3c_date(text)
        if moment is None:
            self.faults.append(FAULT_BAD_DATE)
        return moment


def parse_w3c_date(text: str) -> int | None:
    """Milliseconds since 1970 UTC of a W3C date (https://www.w3.org/TR/NOTE-datetime), or of any
    that pages write; else None.

    A year, or a year and a month, stand for their first day.
    """
    short = _MONTH_ONLY.fullmatch(text[:80])
    return parse_date(f"{short[1]}-{short[2] or '01'}-01") if short else parse_date(text)
