"""The entries of a feed as addresses with dates, for discovery: RSS 0.9x and 2.0, RSS 1.0 (RDF),
Atom (RFC 4287), JSON Feed 1.1.

`lycosa.page.feeds.feed` reads the same documents as pages, for their text and links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lycosa.core.errors import Refusal, UrlError
from lycosa.page.dates import parse_date
from lycosa.page.feeds.feed import load_json_feed, string_of
from lycosa.page.feeds.sitemap_xml import (
    FAULT_NO_SITEMAP,
    FAULT_TOO_MANY,
    Sitemap,
    SitemapEntry,
    SitemapKind,
)
from lycosa.page.feeds.xml_events import MAX_TEXT, Enough, local_name, prefix_of, read_events
from lycosa.url.normalise import LinkResolver

ROOTS: Final = frozenset({"rss", "RDF", "feed"})
"""Local names of the root elements of feeds."""

_PUBLISHED: Final = frozenset({"pubDate", "published", "issued", "created", "date"})
_UPDATED: Final = frozenset({"updated", "modified"})
_DATE_PREFIXES: Final = frozenset({"dc:", "dcterms:", "atom:", "a10:"})
_LINK_PREFIXES: Final = frozenset({"", "atom:", "a10:"})
_WEB: Final = ("http://", "https://")


def read_feed(data: bytes, resolver: LinkResolver, limit: int) -> Sitemap:
    """Read the entries of a feed in UTF-8, in its order, each URL once (the first). Never raises;
    other documents have the kind `none`, broken XML returns what precedes the fault.
    """
    if data.lstrip()[:1] == b"{":
        return _read_json(data, resolver, limit)
    reader, faults = read_events(data, lambda: _Reader(resolver, limit))
    if reader.root not in ROOTS:
        return Sitemap(faults=[FAULT_NO_SITEMAP])
    return reader.entries.sitemap(faults)


class _Entries:
    """Collects entries up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[str, int | None] = {}
        self._cut = False

    def add(self, url: str, modified_at: int | None) -> bool:
        """Return False, without adding the entry, once there are too many."""
        if url and url not in self._entries:
            self._cut = len(self._entries) >= self._limit
            if not self._cut:
                self._entries[url] = modified_at
        return not self._cut

    def sitemap(self, faults: list[str]) -> Sitemap:
        entries = [SitemapEntry(*entry) for entry in self._entries.items()]
        return Sitemap(SitemapKind.FEED, entries, faults=faults + [FAULT_TOO_MANY] * self._cut)


@dataclass(slots=True)
class _Draft:
    """An entry that is being read. Of each value the first counts."""

    about: str = ""
    link: str = ""
    is_page: bool = False
    name: str = ""  # guid or id as written
    permanent: bool = True
    published_at: int | None = None
    updated_at: int | None = None

    def add_link(self, url: str, *, is_page: bool) -> None:
        """Take a link; one to a page is preferred."""
        if not self.link or (is_page and not self.is_page):
            self.link, self.is_page = url, is_page

    def add_guid(self, permanent: str) -> None:
        """A guid begins, with its attribute `isPermaLink`."""
        self.permanent = permanent.strip().lower() != "false"

    def add_text(self, name: str, text: str) -> None:
        if name in ("guid", "id"):
            self.name = self.name or text
        elif name in _UPDATED:
            self.updated_at = self.updated_at or parse_date(text)
        else:
            self.published_at = self.published_at or parse_date(text)

    @property
    def identifier(self) -> str:
        """The address that serves as the entry's link if it has none."""
        if self.permanent and self.name.startswith(_WEB):
            return self.name
        return self.about if self.about.startswith(_WEB) else ""


class _Reader:
    """Reads the direct children of each entry. Deeper elements (media groups, an Atom source) do
    not belong to the entry.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.root = ""
        self.entries = _Entries(limit)
        self._resolvers = [(0, resolver)]  # depth from which an xml:base is in force
        self._depth = 0
        self._entry_depth = 0  # 0: not in an entry
        self._prefix = ""  # of the entry's tag
        self._text: list[str] | None = None  # of the element that is being collected
        self._text_depth = 0
        self._length = 0
        self._entry = _Draft()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        name = local_name(tag)
        if self._depth == 1:
            self.root = name
            if name not in ROOTS:
                raise Enough
        if "xml:base" in attributes:
            base = self._resolvers[-1][1].resolve(attributes["xml:base"])
            if type(base) is not Refusal:
                self._resolvers.append((self._depth, LinkResolver(base)))
        if not self._entry_depth:
            if name in ("item", "entry"):
                self._entry_depth, self._prefix = self._depth, prefix_of(tag)
                self._entry = _Draft(about=attributes.get("rdf:about", ""))
        elif name == "link" and attributes.get("href"):
            self._atom_link(tag, attributes)
        elif self._text is None and self._belongs(tag, name):
            self._text, self._text_depth, self._length = [], self._depth, 0
            if name == "guid":
                self._entry.add_guid(attributes.get("isPermaLink", "true"))

    def _belongs(self, tag: str, name: str) -> bool:
        if self._depth != self._entry_depth + 1:
            return False
        prefix = prefix_of(tag)
        if name in _PUBLISHED or name in _UPDATED:
            return prefix == self._prefix or prefix in _DATE_PREFIXES
        return name in ("link", "guid", "id") and prefix == self._prefix

    def _atom_link(self, tag: str, attributes: dict[str, str]) -> None:
        relation = attributes.get("rel", "alternate").strip().lower()
        prefix = prefix_of(tag)
        if (
            relation != "alternate"
            or (prefix != self._prefix and prefix not in _LINK_PREFIXES)
            or self._depth != self._entry_depth + 1
        ):
            return
        media_type = attributes.get("type", "text/html").strip().lower()
        is_page = media_type in ("text/html", "application/xhtml+xml")
        self._entry.add_link(self._resolve(attributes["href"]), is_page=is_page)

    def end(self, tag: str) -> None:
        if self._text is not None and self._depth == self._text_depth:
            name, text = local_name(tag), "".join(self._text).strip()
            self._text = None
            if text and name == "link":
                self._entry.add_link(self._resolve(text), is_page=False)
            elif text:
                self._entry.add_text(name, text)
        if self._depth == self._entry_depth:
            self._entry_depth, self._prefix = 0, ""
            entry = self._entry
            url = entry.link or (entry.identifier and self._resolve(entry.identifier))
            if not self.entries.add(url, entry.updated_at or entry.published_at):
                raise Enough
        if self._resolvers[-1][0] == self._depth:
            self._resolvers.pop()
        self._depth -= 1

    def text(self, text: str) -> None:
        if self._text is not None and self._length < MAX_TEXT:
            self._text.append(text)
            self._length += len(text)

    def _resolve(self, href: str) -> str:
        resolved = self._resolvers[-1][1].resolve(href.strip())
        return "" if type(resolved) is Refusal else resolved


def _read_json(data: bytes, resolver: LinkResolver, limit: int) -> Sitemap:
    """Read a JSON Feed (https://www.jsonfeed.org/version/1.1/)."""
    document = load_json_feed(data)
    if document is None or "jsonfeed.org" not in string_of(document, "version"):
        return Sitemap(faults=[FAULT_NO_SITEMAP])
    entries = _Entries(limit)
    for item in document["items"]:
        if isinstance(item, dict):
            name = string_of(item, "id")
            url = string_of(item, "url") or (name if name.startswith(_WEB) else "")
            modified = parse_date(string_of(item, "date_modified"))
            published = parse_date(string_of(item, "date_published"))
            if not entries.add(_resolved(resolver, url), modified or published):
                break
    return entries.sitemap([])


def _resolved(resolver: LinkResolver, href: str) -> str:
    if not href.strip():
        return ""
    try:
        resolved = resolver.resolve(href.strip())
    except UrlError:
        return ""
    return "" if type(resolved) is Refusal else resolved
