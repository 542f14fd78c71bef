"""Read the XML of sitemaps: `urlset` and `sitemapindex`, as parser events."""

from __future__ import annotations

import re
from typing import Final

from lycosa.core.errors import Refusal
from lycosa.page.dates import parse_date
from lycosa.page.feeds.sitemap_parts import (
    FAULT_BAD_DATE,
    FAULT_BAD_URL,
    FAULT_TOO_MANY,
    Sitemap,
    SitemapEntry,
    SitemapKind,
    SitemapReference,
)
from lycosa.page.feeds.xml_events import MAX_TEXT, Enough, local_name, prefix_of
from lycosa.url.normalise import LinkResolver

_MONTH_ONLY: Final = re.compile(r"\s*(\d{4})(?:-(\d\d))?\s*")
_WANTED: Final = frozenset({"loc", "lastmod"})


class SitemapReader:
    """Takes the events of one sitemap. Elements count by their prefix: `image:loc` is not the URL
    of the page.

    `root` is the document's first tag without prefix; what is neither urlset nor sitemapindex is
    not read on.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.sitemap = Sitemap()
        self.root = ""
        self._resolver = resolver
        self._left = limit
        self._seen: set[str] = set()
        self._item = ""  # "url" or "sitemap" while in one
        self._prefix = ""
        self._element = ""
        self._pieces: list[str] = []
        self._values: dict[str, str] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if not self.root:
            self.root = name
            if name not in ("urlset", "sitemapindex"):
                raise Enough
            self.sitemap.kind = SitemapKind.URLS if name == "urlset" else SitemapKind.INDEX
        elif not self._item:
            if name in ("url", "sitemap"):
                self._item, self._prefix = name, prefix_of(tag)
                self._values = {}
        elif name in _WANTED and prefix_of(tag) == self._prefix:
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
        location = self._values
        url = self._resolver.resolve(location["loc"]) if location.get("loc") else Refusal.UNPARSABLE
        if type(url) is Refusal:
            self.sitemap.fault(FAULT_BAD_URL)
            return
        if url in self._seen:
            return
        if not self._left:
            self.sitemap.fault(FAULT_TOO_MANY)
            raise Enough
        self._left -= 1
        self._seen.add(url)
        changed = self._date("lastmod")
        if item == "sitemap":
            self.sitemap.sitemaps.append(SitemapReference(url, changed))
            return
        self.sitemap.entries.append(SitemapEntry(url, changed))

    def _date(self, name: str) -> int | None:
        text = self._values.get(name)
        if not text:
            return None
        moment = parse_w3c_date(text)
        if moment is None:
            self.sitemap.fault(FAULT_BAD_DATE)
        return moment


def parse_w3c_date(text: str) -> int | None:
    """Milliseconds since 1970 UTC of a W3C date (https://www.w3.org/TR/NOTE-datetime), or of any
    that pages write; else None.

    A year, or a year and a month, stand for their first day.
    """
    short = _MONTH_ONLY.fullmatch(text[:80])
    return parse_date(f"{short[1]}-{short[2] or '01'}-01") if short else parse_date(text)
