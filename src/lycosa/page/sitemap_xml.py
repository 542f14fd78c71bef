"""The XML of sitemaps: urlset and sitemapindex with the extensions for news and translations (hreflang), read as events."""

from __future__ import annotations

import re
from typing import Final

from lycosa.core.errors import Refusal
from lycosa.core.records import Alternate
from lycosa.page.dates import parse_date
from lycosa.page.feed_entries import plain_title
from lycosa.page.sitemap_parts import (
    FAULT_ALTERNATES_CUT,
    FAULT_BAD_DATE,
    FAULT_BAD_URL,
    FAULT_TOO_MANY,
    MAX_ALL_ALTERNATES,
    MAX_ALTERNATES,
    Sitemap,
    SitemapEntry,
    SitemapKind,
    SitemapReference,
)
from lycosa.page.xml_events import MAX_TEXT, Enough, local_name, prefix_of
from lycosa.url.normalise import LinkResolver

_MONTH_ONLY: Final = re.compile(r"\s*(\d{4})(?:-(\d\d))?\s*")
_FREQUENCIES: Final = frozenset({"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"})
_WANTED: Final = frozenset({"loc", "lastmod", "changefreq", "priority", "publication_date", "title"})
_MAX_LANGUAGE: Final = 35  # characters, RFC 5646 section 4.4.1


class SitemapReader:
    """Takes the events of one sitemap. Elements count by their prefix: `image:loc` and `video:title` are not the page's.

    `root` is the document's first tag without prefix; what is neither urlset nor sitemapindex is not read on.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.sitemap = Sitemap()
        self.root = ""
        self._resolver = resolver
        self._left = limit
        self._alternates_left = MAX_ALL_ALTERNATES
        self._known: dict[str, str] = {}  # hrefs of alternates come again with every translation
        self._seen: set[str] = set()
        self._item = ""  # "url" or "sitemap" while in one
        self._prefix = ""
        self._news_prefix: str | None = None
        self._wanted = ""
        self._pieces: list[str] = []
        self._said: dict[str, str] = {}
        self._alternates: list[Alternate] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if not self.root:
            self.root = name
            if name not in ("urlset", "sitemapindex"):
                raise Enough
            self.sitemap.kind = SitemapKind.URLS if name == "urlset" else SitemapKind.INDEX
        elif not self._item:
            if name in ("url", "sitemap"):
                self._item, self._prefix, self._news_prefix = name, prefix_of(tag), None
                self._said, self._alternates = {}, []
        elif name in _WANTED:
            prefix = prefix_of(tag)
            if prefix == self._news_prefix or (prefix == self._prefix and name != "title"):
                self._wanted, self._pieces = name, []
        elif name == "news":
            self._news_prefix = prefix_of(tag)
        elif name == "link" and attributes.get("hreflang") and attributes.get("href"):
            self._alternate(attributes["hreflang"], attributes["href"])

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._wanted:
            if name == self._wanted:
                self._said.setdefault(name, "".join(self._pieces).strip()[:MAX_TEXT])
                self._wanted = ""
        elif name == self._item and prefix_of(tag) == self._prefix:
            item, self._item = self._item, ""
            self._close(item)

    def text(self, text: str) -> None:
        if self._wanted and len(self._pieces) < 1_000:
            self._pieces.append(text)

    def _alternate(self, language: str, href: str) -> None:
        if not self._alternates_left or len(self._alternates) >= MAX_ALTERNATES:
            self.sitemap.fault(FAULT_ALTERNATES_CUT)
            return
        url = self._known.get(href)
        if url is None:
            resolved = self._resolver.resolve(href.strip())
            url = self._known[href] = "" if type(resolved) is Refusal else resolved
        if url:
            self._alternates_left -= 1
            self._alternates.append(Alternate(language.strip()[:_MAX_LANGUAGE].lower(), url))

    def _close(self, item: str) -> None:
        said = self._said
        url = self._resolver.resolve(said["loc"]) if said.get("loc") else Refusal.UNPARSABLE
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
        frequency = said.get("changefreq", "").lower()
        self.sitemap.entries.append(
            SitemapEntry(
                url,
                changed,
                tuple(self._alternates),
                self._news_prefix is not None,
                self._date("publication_date"),
                plain_title(said.get("title", "")),
                frequency if frequency in _FREQUENCIES else "",
                _priority(said.get("priority", "")),
            )
        )

    def _date(self, name: str) -> int | None:
        text = self._said.get(name)
        if not text:
            return None
        moment = parse_w3c_date(text)
        if moment is None:
            self.sitemap.fault(FAULT_BAD_DATE)
        return moment


def parse_w3c_date(text: str) -> int | None:
    """Milliseconds since 1970 UTC of a W3C date (https://www.w3.org/TR/NOTE-datetime), or of any that pages write; else None.

    A year, or a year and a month, stand for their first day.
    """
    short = _MONTH_ONLY.fullmatch(text[:80])
    return parse_date(f"{short[1]}-{short[2] or '01'}-01") if short else parse_date(text)


def _priority(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
