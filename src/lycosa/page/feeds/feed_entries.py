"""The entries of a feed, for discovery and for the time at which pages appear.

RSS 0.9x and 2.0, RSS 1.0 (RDF), Atom (RFC 4287), JSON Feed 1.1.

`lycosa.page.feeds.feed` reads the same documents as pages, for their text and links. Here an entry
is one address with its dates and title.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from lycosa.core.errors import Refusal, UrlError
from lycosa.page.dates import parse_date
from lycosa.page.encoding import decode
from lycosa.page.feeds.xml_events import MAX_TEXT, Enough, local_name, prefix_of, read_events
from lycosa.page.html.tree import text_of_markup
from lycosa.page.page_parts import fold
from lycosa.url.normalise import LinkResolver

MAX_ENTRIES = 10_000
MAX_TITLE = 1_000  # characters
FAULT_NO_FEED = "not_a_feed"
FAULT_ENTRIES_CUT = "entries_cut"

_ROOTS: Final = {"rss": "rss", "RDF": "rdf", "feed": "atom"}
_PUBLISHED: Final = frozenset({"pubDate", "published", "issued", "created", "date"})
_UPDATED: Final = frozenset({"updated", "modified"})
_DATE_PREFIXES: Final = frozenset({"dc:", "dcterms:", "atom:", "a10:"})
_LINK_PREFIXES: Final = frozenset({"atom:", "a10:"})


class FeedKind(StrEnum):
    """The format of a feed; `none` is no feed."""

    RSS = "rss"
    RDF = "rdf"  # RSS 0.90 and 1.0
    ATOM = "atom"
    JSON = "json"
    NONE = "none"


class FeedEntry(NamedTuple):
    """One entry. `url` is normalised; times are milliseconds since 1970 UTC, None where nothing
    believable is said.
    """

    url: str
    title: str = ""
    published_at: int | None = None
    updated_at: int | None = None


@dataclass(slots=True)
class Feed:
    """What a feed says, entries in its order, each URL once (the first)."""

    kind: FeedKind = FeedKind.NONE
    title: str = ""
    home: str = ""  # the page that the feed is about, normalised; "" unknown
    entries: list[FeedEntry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read_feed(
    payload: bytes, base_url: str, *, content_type: str = "", limit: int = MAX_ENTRIES
) -> Feed:
    """Read a feed. Never raises on any bytes; what is no feed has kind `none`, broken XML gives
    what stands before the break.

    Args:
        payload: the decoded body, in the encoding that the header or the file says.
        base_url: where it came from, normalised; links are resolved against it and against
            `xml:base`.
        limit: entries read; `entries_cut` among the faults says that there were more.

    Raises:
        UrlError: the base is not an absolute http(s) URL.
    """
    resolver = LinkResolver(base_url)
    decoded = decode(payload, content_type)
    if decoded.data.lstrip()[:1] == b"{":
        return _read_json(decoded.data, resolver, limit)
    reader, faults = read_events(decoded.data, lambda: _Reader(resolver, limit))
    feed = reader.feed
    feed.faults += [*decoded.faults, *faults]
    if feed.kind is FeedKind.NONE:
        feed.faults = [FAULT_NO_FEED]
    return feed


class _Reader:
    """Collects the direct children of each entry; what lies deeper (media groups, an Atom source)
    is not the entry's own.
    """

    def __init__(self, resolver: LinkResolver, limit: int) -> None:
        self.feed = Feed()
        self._limit = limit
        self._resolvers = [(0, resolver)]  # depth at which an xml:base came into force
        self._seen: set[str] = set()
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
            self.feed.kind = FeedKind(_ROOTS.get(name, "none"))
            if self.feed.kind is FeedKind.NONE:
                raise Enough
        if "xml:base" in attributes:
            self._rebase(attributes["xml:base"])
        if not self._entry_depth and name in ("item", "entry"):
            self._entry_depth, self._prefix = self._depth, prefix_of(tag)
            self._entry = _Draft(about=attributes.get("rdf:about", ""))
        elif name == "link" and attributes.get("href"):
            self._atom_link(tag, attributes)
        elif self._wants(tag, name):
            self._text, self._text_depth, self._length = [], self._depth, 0
            if name == "guid":
                self._entry.permanent = (
                    attributes.get("isPermaLink", "true").strip().lower() != "false"
                )

    def _wants(self, tag: str, name: str) -> bool:
        if self._text is not None:
            return False
        if not self._entry_depth:
            return (
                name in ("title", "link")
                and self._depth <= 3
                and prefix_of(tag) in ("", "atom:", "rss:")
                and "image" not in tag
            )
        if self._depth != self._entry_depth + 1:
            return False
        prefix = prefix_of(tag)
        if name in _PUBLISHED or name in _UPDATED:
            return prefix == self._prefix or prefix in _DATE_PREFIXES
        return name in ("title", "link", "guid", "id") and prefix == self._prefix

    def _atom_link(self, tag: str, attributes: dict[str, str]) -> None:
        relation = attributes.get("rel", "alternate").strip().lower()
        if relation != "alternate" or prefix_of(tag) not in (self._prefix, "", *_LINK_PREFIXES):
            return
        if self._entry_depth and self._depth == self._entry_depth + 1:
            is_page = attributes.get("type", "text/html").strip().lower() in (
                "text/html",
                "application/xhtml+xml",
            )
            if not self._entry.link or (is_page and not self._entry.is_page):
                self._entry.link, self._entry.is_page = self._resolve(attributes["href"]), is_page
        elif not self._entry_depth and self._depth == 2 and not self.feed.home:
            self.feed.home = self._resolve(attributes["href"])

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._text is not None and self._depth == self._text_depth:
            text = "".join(self._text).strip()
            self._text = None
            if text:
                self._take(name, text)
        if self._depth == self._entry_depth:
            self._close_entry()
        if self._resolvers[-1][0] == self._depth:
            self._resolvers.pop()
        self._depth -= 1

    def text(self, text: str) -> None:
        if self._text is not None and self._length < MAX_TEXT:
            self._text.append(text)
            self._length += len(text)

    def _take(self, name: str, text: str) -> None:
        entry = self._entry
        if not self._entry_depth:
            if name == "title":
                self.feed.title = self.feed.title or plain_title(text)
            else:
                self.feed.home = self.feed.home or self._resolve(text)
        elif name == "title":
            entry.title = entry.title or plain_title(text)
        elif name == "link":
            entry.link = entry.link or self._resolve(text)
        elif name in ("guid", "id"):
            entry.name = entry.name or text
        elif name in _UPDATED:
            entry.updated_at = entry.updated_at or parse_date(text)
        else:
            entry.published_at = entry.published_at or parse_date(text)

    def _close_entry(self) -> None:
        entry, self._entry_depth, self._prefix = self._entry, 0, ""
        url = entry.link
        if not url and entry.permanent and entry.name.startswith(("http://", "https://")):
            url = self._resolve(entry.name)
        if not url and entry.about.startswith(("http://", "https://")):
            url = self._resolve(entry.about)
        if not url or url in self._seen:
            return
        if len(self.feed.entries) >= self._limit:
            self.feed.faults.append(FAULT_ENTRIES_CUT)
            raise Enough
        self._seen.add(url)
        self.feed.entries.append(FeedEntry(url, entry.title, entry.published_at, entry.updated_at))

    def _rebase(self, base: str) -> None:
        resolved = self._resolvers[-1][1].resolve(base)
        if type(resolved) is not Refusal:
            self._resolvers.append((self._depth, LinkResolver(resolved)))

    def _resolve(self, href: str) -> str:
        resolved = self._resolvers[-1][1].resolve(href.strip())
        return "" if type(resolved) is Refusal else resolved


@dataclass(slots=True)
class _Draft:
    about: str = ""
    link: str = ""
    is_page: bool = False
    name: str = ""  # guid or id as written
    permanent: bool = True
    title: str = ""
    published_at: int | None = None
    updated_at: int | None = None


def plain_title(text: str) -> str:
    """A title without markup, folded and cut: feeds write `<b>` and `&amp;` in it as text."""
    if "<" in text or "&" in text:
        text = text_of_markup(text)
    return fold(text)[:MAX_TITLE]


def _read_json(data: bytes, resolver: LinkResolver, limit: int) -> Feed:
    """JSON Feed 1.1 (https://www.jsonfeed.org/version/1.1/)."""
    feed = Feed(faults=[FAULT_NO_FEED])
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return feed
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("items"), list)
        or "jsonfeed.org" not in _string(document, "version")
    ):
        return feed
    feed = Feed(
        FeedKind.JSON,
        plain_title(_string(document, "title")),
        _resolved(resolver, _string(document, "home_page_url")),
    )
    seen: set[str] = set()
    for item in document["items"]:
        if not isinstance(item, dict):
            continue
        name = _string(item, "id")
        url = _resolved(
            resolver,
            _string(item, "url") or (name if name.startswith(("http://", "https://")) else ""),
        )
        if not url or url in seen:
            continue
        if len(feed.entries) >= limit:
            feed.faults.append(FAULT_ENTRIES_CUT)
            break
        seen.add(url)
        dates = (
            parse_date(_string(item, "date_published")),
            parse_date(_string(item, "date_modified")),
        )
        feed.entries.append(FeedEntry(url, plain_title(_string(item, "title")), *dates))
    return feed


def _string(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    # no halves of surrogate pairs
    return value[:MAX_TEXT].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _resolved(resolver: LinkResolver, href: str) -> str:
    if not href.strip():
        return ""
    try:
        resolved = resolver.resolve(href.strip())
    except UrlError:
        return ""
    return "" if type(resolved) is Refusal else resolved
