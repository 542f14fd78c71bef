"""Sitemaps and feeds as lists of URLs with dates, for discovery.

Read are `urlset` and `sitemapindex` (https://www.sitemaps.org/protocol.html), one URL per line,
RSS 0.9x, 1.0 and 2.0, Atom (RFC 4287) and JSON Feed 1.1, gzip or plain. The root element decides,
not the name or type that the server gives. `lycosa.page.feeds.feed` reads feeds as pages.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import field
from enum import StrEnum
from io import BytesIO
from typing import Final, NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Refusal, UrlError
from lycosa.http.codings import gunzip
from lycosa.page.dates import parse_date
from lycosa.page.encoding import decode
from lycosa.page.feeds.feed import load_json_feed, string_of
from lycosa.page.feeds.xml_events import (
    FAULT_ENTITIES,
    MAX_TEXT,
    StopReading,
    local_name,
    prefix_of,
    read_events,
    without_preamble,
)
from lycosa.page.media import HEADER_LENGTH, is_binary
from lycosa.url.normalise import MAX_URL_LENGTH, LinkResolver
from lycosa.url.schemes import WEB
from lycosa.url.scope import hostname

MAX_URLS = 50_000
"""Maximum URLs of one file, as in the protocol."""

MAX_BYTES = 50 * 2**20
"""Maximum bytes of one file after decompression, as in the protocol (52,428,800)."""

FAULT_NO_SITEMAP = "not_a_sitemap"
FAULT_TOO_LARGE = "too_large"
FAULT_TOO_MANY = "too_many_urls"
FAULT_GZIP = "gzip_broken"
FAULT_BAD_URL = "url_unusable"
FAULT_BAD_DATE = "date_unusable"

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_LAYERS: Final = 2  # sitemap.xml.gz that its server compressed once more
_MONTH_ONLY: Final = re.compile(r"\s*(\d{4})(?:-(\d\d))?\s*")
_PUBLISHED: Final = frozenset({"pubDate", "published", "issued", "created", "date"})
_UPDATED: Final = frozenset({"updated", "modified"})
_DATES: Final = _PUBLISHED | _UPDATED
_FIELDS: Final = frozenset({"loc", "lastmod", "link", "guid", "id"}) | _DATES
_DATE_PREFIXES: Final = frozenset({"dc:", "dcterms:", "atom:", "a10:"})
_LINK_PREFIXES: Final = frozenset({"", "atom:", "a10:"})


class SitemapKind(StrEnum):
    """The form of a sitemap; `none`: the document is no sitemap."""

    URLS = "urls"
    INDEX = "index"
    TEXT = "text"
    FEED = "feed"
    NONE = "none"


_KINDS: Final = {
    "urlset": SitemapKind.URLS,
    "sitemapindex": SitemapKind.INDEX,
    "rss": SitemapKind.FEED,
    "RDF": SitemapKind.FEED,
    "feed": SitemapKind.FEED,
}
_ITEMS: Final = {
    SitemapKind.URLS: frozenset({"url", "sitemap"}),
    SitemapKind.INDEX: frozenset({"url", "sitemap"}),
    SitemapKind.FEED: frozenset({"item", "entry"}),
}


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


class _Entries:
    """Collects entries within the limit of one file; every format uses it."""

    def __init__(self, limit: int) -> None:
        self.entries: list[SitemapEntry] = []
        self.sitemaps: list[SitemapEntry] = []
        self.faults: list[str] = []
        self._limit = limit
        self._urls: set[str] = set()

    def add(self, url: str, modified_at: int | None, *, is_sitemap: bool = False) -> None:
        """Add an entry, unless there is one with the same URL.

        Raises:
            StopReading: the limit is reached.
        """
        if url in self._urls:
            return
        if len(self._urls) >= self._limit:
            self.faults.append(FAULT_TOO_MANY)
            raise StopReading
        self._urls.add(url)
        entries = self.sitemaps if is_sitemap else self.entries
        entries.append(SitemapEntry(url, modified_at))

    def sitemap(self, kind: SitemapKind, faults: list[str]) -> Sitemap:
        """Return the sitemap. `faults` precede those of the entries."""
        unique_faults = list(dict.fromkeys([*faults, *self.faults]))
        return Sitemap(kind, self.entries, self.sitemaps, unique_faults)


def read_sitemap(
    payload: bytes,
    base_url: str,
    *,
    limit: int = MAX_URLS,
    max_bytes: int = MAX_BYTES,
    content_type: str = "",
) -> Sitemap:
    """Read a sitemap or feed of any kind; never raises on any bytes.

    Args:
        payload: the body, gzip or plain. Of broken XML the part before the fault is read.
        base_url: the URL of the file, normalised.
        limit: URLs read (entries and sitemaps together).
        max_bytes: bytes read, after decompression.

    Raises:
        UrlError: the base is not an absolute http(s) URL.
    """
    resolver = LinkResolver(base_url)
    faults: list[str] = []
    data = _decompressed(payload, max_bytes, faults)
    if is_binary(data[:HEADER_LENGTH]):
        return _Entries(limit).sitemap(SitemapKind.NONE, [*faults, FAULT_NO_SITEMAP])
    decoded = decode(data, content_type)
    faults += decoded.faults
    entries = _Entries(limit)
    data = without_preamble(decoded.data).lstrip()
    if data[:1] == b"{":
        kind = _read_json(data, resolver, entries)
    elif data[:1] != b"<":
        kind = _read_text(data, resolver, entries)
    else:
        reader, xml_faults = read_events(data, lambda: _Reader(resolver, limit))
        kind, entries = reader.kind, reader.entries
        if kind is SitemapKind.NONE:
            xml_faults = [name for name in xml_faults if name == FAULT_ENTITIES]
            return Sitemap(faults=[FAULT_NO_SITEMAP, *xml_faults])
        entries.faults.extend(xml_faults)
    if kind is SitemapKind.NONE:
        return entries.sitemap(kind, [*faults, FAULT_NO_SITEMAP])
    return entries.sitemap(kind, faults)


def may_list(sitemap_url: str, url: str, named_by: Collection[str] = ()) -> bool:
    """Return whether a sitemap may list a URL.

    The URL must be an http(s) URL of the sitemap's host, or of a host with a robots.txt that names
    the sitemap.

    Args:
        named_by: hostnames (as `lycosa.url.scope.hostname` writes them) with a Sitemap line for
            this sitemap, or for the index that led to it, in their robots.txt.
    """
    if not url.startswith(WEB):
        return False
    try:
        host = hostname(url)
        return host == hostname(sitemap_url) or host in named_by
    except UrlError:
        return False


def _decompressed(payload: bytes, limit: int, faults: list[str]) -> bytes:
    data = payload
    for _ in range(_GZIP_LAYERS):
        if not data.startswith(_GZIP_MAGIC):
            break
        plain = gunzip(data, limit)
        data = plain.data
        if plain.more:
            faults.append(FAULT_TOO_LARGE)
        if plain.short or plain.broken:
            faults.append(FAULT_GZIP)
    if len(data) > limit:
        faults.append(FAULT_TOO_LARGE)
        data = data[:limit]
    return data


def _read_text(data: bytes, resolver: LinkResolver, entries: _Entries) -> SitemapKind:
    """Read one URL per line."""
    for line in BytesIO(data.replace(b"\r", b"\n")):
        address = line.strip()
        if not address:
            continue
        is_web = address[:8].lower().startswith((b"http://", b"https://"))
        url: str | Refusal = Refusal.UNPARSABLE
        if is_web and len(address) <= MAX_URL_LENGTH:
            url = resolver.resolve(address.decode("utf-8", "replace"))
        if type(url) is Refusal:
            entries.faults.append(FAULT_BAD_URL)
            continue
        try:
            entries.add(url, None)
        except StopReading:
            break
    if entries.entries:
        return SitemapKind.TEXT
    entries.faults.clear()
    return SitemapKind.NONE


def _read_json(data: bytes, resolver: LinkResolver, entries: _Entries) -> SitemapKind:
    """Read a JSON Feed (https://www.jsonfeed.org/version/1.1/)."""
    document = load_json_feed(data)
    if document is None or "jsonfeed.org" not in string_of(document, "version"):
        return SitemapKind.NONE
    for item in document["items"]:
        if not isinstance(item, dict):
            continue
        name = string_of(item, "id")
        url = _resolve(resolver, string_of(item, "url") or (name if name.startswith(WEB) else ""))
        modified = parse_date(string_of(item, "date_modified"))
        if url:
            try:
                entries.add(url, modified or parse_date(string_of(item, "date_published")))
            except StopReading:
                break
    return SitemapKind.FEED


def _resolve(resolver: LinkResolver, href: str) -> str:
    """Return the normalised URL; "" for an invalid one."""
    href = href.strip()
    if not href:
        return ""
    resolved = resolver.resolve(href)
    return "" if type(resolved) is Refusal else resolved


class _Item:
    """The fields of one item: of each name the first value counts."""

    __slots__ = ("about", "link", "link_is_page", "name", "permanent", "prefix", "values")

    def __init__(self, name: str, prefix: str, about: str) -> None:
        self.name = name
        self.prefix = prefix
        self.about = about
        self.values: dict[str, str] = {}
        self.link = ""
        self.link_is_page = False
        self.permanent = True

    def add(self, name: str, text: str, attributes: dict[str, str]) -> None:
        """Add a child element."""
        if name == "guid":
            self.permanent = attributes.get("isPermaLink", "true").strip().lower() != "false"
            name = "id"
        if text:
            self.values.setdefault(name, text)

    def add_link(self, url: str, *, is_page: bool) -> None:
        """Add a link; one to a page is preferred."""
        if not self.link or (is_page and not self.link_is_page):
            self.link, self.link_is_page = url, is_page

    @property
    def identifier(self) -> str:
        """The URL that replaces a missing link."""
        identifier = self.values.get("id", "")
        if self.permanent and identifier.startswith(WEB):
            return identifier
        return self.about if self.about.startswith(WEB) else ""

    def date(self, names: Collection[str]) -> int | None:
        """Return the first date among elements of these names."""
        for name, text in self.values.items():
            if name in names and (date := parse_date(text)):
                return date
        return None


class _Reader:
    """Reads items and their direct children; deeper elements belong to extensions.

    The prefix of elements counts: `image:loc` is not the URL of the page.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.kind = SitemapKind.NONE
        self.entries = _Entries(limit)
        self._resolvers = [(0, resolver)]  # depth from which an xml:base is in force
        host = resolver.base.split("/")[2].removeprefix("www.")
        self._hosts = (f"{host}/", f"www.{host}/")  # as addresses without a scheme begin
        self._items: frozenset[str] = frozenset()
        self._depth = 0
        self._item: _Item | None = None
        self._item_depth = 0
        self._attributes: dict[str, str] | None = None  # of the child that is being read
        self._text: list[str] = []
        self._length = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        name = local_name(tag)
        if self._depth == 1:
            self.kind = _KINDS.get(name, SitemapKind.NONE)
            if self.kind is SitemapKind.NONE:
                raise StopReading
            self._items = _ITEMS[self.kind]
        if "xml:base" in attributes:
            base = self._resolvers[-1][1].resolve(attributes["xml:base"])
            if type(base) is not Refusal:
                self._resolvers.append((self._depth, LinkResolver(base)))
        if self._item is None:
            if name in self._items:
                self._item = _Item(name, prefix_of(tag), attributes.get("rdf:about", ""))
                self._item_depth = self._depth
        elif (
            name in _FIELDS
            and self._depth == self._item_depth + 1
            and _belongs(self._item, tag, name, attributes)
        ):
            self._attributes, self._text, self._length = attributes, [], 0

    def end(self, tag: str) -> None:
        depth, item = self._depth, self._item
        self._depth -= 1
        if item is not None and depth <= self._item_depth + 1:
            if depth == self._item_depth:
                self._item = None
                if self.kind is SitemapKind.FEED:
                    self._add_feed_entry(item)
                else:
                    self._add_sitemap_entry(item)
            elif self._attributes is not None:
                self._add_child(item, local_name(tag), self._attributes)
                self._attributes = None
        if self._resolvers[-1][0] == depth:
            self._resolvers.pop()

    def text(self, text: str) -> None:
        if self._attributes is not None and self._length < MAX_TEXT:
            self._text.append(text)
            self._length += len(text)

    def _add_child(self, item: _Item, name: str, attributes: dict[str, str]) -> None:
        text = "".join(self._text).strip()
        if name != "link":
            item.add(name, text, attributes)
        elif attributes.get("href"):
            if attributes.get("rel", "alternate").strip().lower() == "alternate":
                media_type = attributes.get("type", "text/html").strip().lower()
                is_page = media_type in ("text/html", "application/xhtml+xml")
                item.add_link(self._resolve(attributes["href"]), is_page=is_page)
        elif text:
            item.add_link(self._resolve(text), is_page=False)

    def _add_feed_entry(self, item: _Item) -> None:
        url = item.link or self._resolve(item.identifier)
        if url:
            self.entries.add(url, item.date(_UPDATED) or item.date(_PUBLISHED))

    def _add_sitemap_entry(self, item: _Item) -> None:
        address = item.values.get("loc", "")
        url = self._resolve(f"//{address}" if address.startswith(self._hosts) else address)
        if not url:
            self.entries.faults.append(FAULT_BAD_URL)
            return
        text = item.values.get("lastmod")
        modified_at = parse_w3c_date(text) if text else None
        if text and modified_at is None:
            self.entries.faults.append(FAULT_BAD_DATE)
        self.entries.add(url, modified_at, is_sitemap=item.name == "sitemap")

    def _resolve(self, href: str) -> str:
        return _resolve(self._resolvers[-1][1], href)


def _belongs(item: _Item, tag: str, name: str, attributes: dict[str, str]) -> bool:
    """Return whether a field belongs to the item, by the prefix of its tag."""
    prefix = prefix_of(tag)
    if prefix == item.prefix:
        return True
    if name in _DATES:
        return prefix in _DATE_PREFIXES
    return name == "link" and "href" in attributes and prefix in _LINK_PREFIXES


def parse_w3c_date(text: str) -> int | None:
    """Return the milliseconds since 1970 UTC of a W3C date, or of any that pages write; else None.

    A year, or a year and a month, mean their first day
    (https://www.w3.org/TR/NOTE-datetime).
    """
    short = _MONTH_ONLY.fullmatch(text[:80])
    return parse_date(f"{short[1]}-{short[2] or '01'}-01") if short else parse_date(text)
