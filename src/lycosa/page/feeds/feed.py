"""Feeds and other XML, read for title, text and links (RSS 0.9 to 2.0, Atom RFC 4287, RDF, JSON
Feed 1.1; any other XML for its text).

`lycosa.page.feeds.xml_events` parses it and repairs common mistakes; of other broken XML the part
before the fault is read.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Final
from urllib.parse import urljoin

from lycosa.core.json_object import json_object
from lycosa.core.patterns import lazy_pattern
from lycosa.core.records import LinkKind
from lycosa.page.feeds.xml_events import local_name, prefix_of, read_events
from lycosa.page.html.document import read_fragment
from lycosa.page.page_parts import ANCHOR_LENGTH, DeclaredTime, PageParts, fold
from lycosa.url.schemes import WEB

FAULT_JSON = "json_invalid"  # no JSON, or no JSON Feed
_FEEDS: Final = frozenset({"rss", "RDF", "feed"})
# HTML inside text
_MARKUP: Final = frozenset({"description", "summary", "content", "encoded", "subtitle"})
_DATES: Final = frozenset({"pubDate", "published", "date", "issued", "lastBuildDate", "updated"})
_ENTRIES: Final = frozenset({"item", "entry"})
_UNSEEN_NAMES = """
    block channelId cloud comments commentRss complete docs duration email episode episodeType
    explicit generator guid height icon id image itemID language logo managingEditor origLink owner
    point post-id season skipDays skipHours source textInput textinput ttl updateBase
    updateFrequency updatePeriod uri url videoId webMaster width
    """
_UNSEEN: Final = frozenset(_UNSEEN_NAMES.split())
"""Elements of feeds whose text readers of feeds do not show."""
_INLINE_NAMES = """
    a abbr b big bold cite code del dfn em emphasis font i img ins italic kbd literal mark q samp
    small span strike strong sub sup tt u ulink var
    """
_INLINE: Final = frozenset(_INLINE_NAMES.split())
"""Elements of XHTML, DocBook and JATS that are inside of a line."""
_INLINE_TAG: Final = lazy_pattern(
    r"</?(?:a|b|br|code|em|font|i|span|strong|su[bp]|u)(?:\s[^<>]*)?/?>", re.IGNORECASE
)


def read(data: bytes) -> PageParts:
    """Read XML in UTF-8. Never raises."""
    reader, faults = read_events(data, _Reader)
    reader.close()
    reader.parts.faults.extend(faults)
    return reader.parts


def read_json(data: bytes) -> PageParts:
    """Read a JSON Feed (https://www.jsonfeed.org/version/1.1/) in UTF-8. Never raises."""
    reader = _Reader()
    document = load_json_feed(data)
    if document is None:
        reader.parts.faults.append(FAULT_JSON)
        return reader.parts
    reader.parts.set_title(fold(string_of(document, "title")))
    reader.parts.set_language(string_of(document, "language"))
    for name in ("title", "description"):
        reader.add_line(string_of(document, name))
    for item in document["items"]:
        if isinstance(item, dict):
            reader.add_item(item)
    return reader.parts


def load_json_feed(data: bytes) -> dict[str, Any] | None:
    """Parse JSON; None: it is no JSON Feed. Never raises."""
    document = json_object(data)
    return document if isinstance(document.get("items"), list) else None


def string_of(item: dict[str, Any], name: str) -> str:
    """Return a member that is a string, or "". Lone surrogates, which JSON can express, are
    replaced.
    """
    value = item.get(name)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


class _Reader:
    def __init__(self) -> None:
        self.parts = PageParts()
        self._pieces: list[str] = []
        self._depth = 0
        self._bases: list[tuple[int, str]] = []  # of elements in the root: depth, xml:base
        self._is_feed = False
        self._title_type = "html"
        self._unseen = 0  # depth of an element whose text is not shown
        self._in_entry = 0
        self._prefix = ""  # of the entry, and so of its title
        self._title = ""  # of the entry that is being read
        self._identifier = ""  # its permanent address
        # indices of links that take the title of the entry as their anchor
        self._entry_links: list[int] = []
        self._anchors: list[tuple[int, int, int]] = []  # of open links: depth, index, first piece
        self._field = 0  # depth of a title or identifier, which is one text
        self._attributes: dict[str, str] = {}  # of that element

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        self._depth += 1
        if self._depth == 1:
            self._is_feed = name in _FEEDS
            self._title_type = "text" if name == "feed" else "html"
            self.parts.set_language(attributes.get("xml:lang", ""))
            self.parts.set_base(attributes.get("xml:base"))
        if self._field:
            return
        if self._depth > 1 and "xml:base" in attributes:
            self._bases.append((self._depth, self._based(attributes["xml:base"])))
        if name not in _INLINE:
            self.close()
        elif name == "a" and attributes.get("href"):
            self._anchors.append((self._depth, len(self.parts.links), len(self._pieces)))
            self.parts.links.append((LinkKind.A.value, self._based(attributes["href"]), "", ""))
        if self._is_feed and name in ("title", "guid", "language"):
            self._field, self._attributes = self._depth, attributes
        if self._is_feed and name in _UNSEEN and not self._unseen:
            self._unseen = self._depth
        if name in _ENTRIES:
            self._in_entry = self._depth
            self._prefix = prefix_of(tag)
            self._title = self._identifier = ""
            self._entry_links = []
            about = attributes.get("rdf:about")
            if about and not about.startswith("urn:"):
                self._link(LinkKind.A, about, "")
        elif name == "link" and attributes.get("href"):
            rel = " ".join(attributes.get("rel", "alternate").lower().split())
            if rel == "alternate":
                self._link(LinkKind.A, attributes["href"], "")
            elif rel == "self":
                self._link(LinkKind.FEED, attributes["href"], rel)
        elif name == "enclosure" and attributes.get("url"):
            self._link(LinkKind.REQUISITE, attributes["url"], "enclosure")

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._field and self._field != self._depth:
            self._depth -= 1
            return
        self._field = 0
        if name in _INLINE:
            if self._anchors and self._anchors[-1][0] == self._depth:
                self._end_anchor()
        else:
            text = "".join(self._pieces)
            self._pieces.clear()
            self._anchors.clear()
            self._end_line(tag, name, text)
        if name in _ENTRIES and self._in_entry == self._depth:
            self._end_entry()
        if self._unseen == self._depth:
            self._unseen = 0
        if self._bases and self._bases[-1][0] == self._depth:
            self._bases.pop()
        self._depth -= 1

    def _end_line(self, tag: str, name: str, text: str) -> None:
        if name == "link":
            if text.strip():
                self._link(LinkKind.A, text.strip(), "")
        elif self._unseen:
            self._read_unseen(name, text.strip())
        elif name in _DATES:
            if text.strip() and len(self.parts.times) < 1:
                self.parts.times.append(DeclaredTime(text.strip(), True))
        elif name == "title":
            if self._is_feed and self._attributes.get("type", self._title_type) == "html":
                text = unescape(_INLINE_TAG.sub("", text))
            if not self._in_entry:
                self.parts.set_title(fold(text))
            elif self._depth == self._in_entry + 1 and prefix_of(tag) == self._prefix:
                self._title = fold(text)
            elif fold(text) == self._title:  # of a podcast or video
                return
            self.add_line(text)
        elif name in _MARKUP and ("<" in text or "&" in text):
            self._markup(text)
        else:
            self.add_line(text)

    def _read_unseen(self, name: str, text: str) -> None:
        if self._depth != self._unseen:
            return
        if name == "language" and not self._in_entry:
            self.parts.set_language(self.parts.language or text)
        elif (
            name == "guid"
            and self._attributes.get("isPermaLink", "true").lower() == "true"
            and text.startswith(WEB)
        ):
            self._identifier = text

    def _end_anchor(self) -> None:
        """Set the text of the innermost open link."""
        _, index, first = self._anchors.pop()
        kind, href, rel, _ = self.parts.links[index]
        anchor = fold("".join(self._pieces[first:]))[:ANCHOR_LENGTH]
        self.parts.links[index] = (kind, href, rel, anchor)

    def _end_entry(self) -> None:
        if self._identifier and not self._entry_links:
            self._link(LinkKind.A, self._identifier, "")
        for index in self._entry_links:
            kind, href, rel, _ = self.parts.links[index]
            self.parts.links[index] = (kind, href, rel, self._title[:ANCHOR_LENGTH])
        self._in_entry = 0

    def text(self, text: str) -> None:
        self._pieces.append(text)

    def close(self) -> None:
        """Add text before or after child elements as a line of its own."""
        if self._pieces:
            self.add_line("".join(self._pieces))
            self._pieces.clear()
            self._anchors.clear()

    def add_item(self, item: dict[str, Any]) -> None:
        """Add an entry of a JSON Feed."""
        title = fold(string_of(item, "title"))
        for url in filter(None, (string_of(item, "url"), string_of(item, "external_url"))):
            self.parts.links.append((LinkKind.A.value, url, "", title[:ANCHOR_LENGTH]))
        if not self.parts.times and string_of(item, "date_published"):
            self.parts.times.append(DeclaredTime(string_of(item, "date_published"), True))
        self.add_line(title)
        markup = string_of(item, "content_html")
        if markup:
            self._markup(markup)
        else:
            self.add_line(string_of(item, "content_text") or string_of(item, "summary"))

    def add_line(self, text: str) -> None:
        """Add a line of visible text. An address alone is none that readers of a feed see."""
        folded = fold(text)
        if folded and not (
            self._is_feed and (self._unseen or (folded.startswith(WEB) and " " not in folded))
        ):
            self.parts.lines.append(folded)

    def _link(self, kind: LinkKind, href: str, rel: str) -> None:
        if self._in_entry and kind is LinkKind.A and not self._unseen:
            self._entry_links.append(len(self.parts.links))
        self.parts.links.append((kind.value, self._based(href), rel, ""))

    def _based(self, href: str) -> str:
        """Return a reference relative to the base of the document, from one to the innermost."""
        try:
            return urljoin(self._bases[-1][1], href) if self._bases else href
        except ValueError:  # no valid host
            return href

    def _markup(self, text: str) -> None:
        if self._unseen:
            return
        inner = read_fragment(text)
        self.parts.lines += inner.lines
        self.parts.links += [
            (kind, self._based(href), rel, anchor)
            for kind, href, rel, anchor in inner.links
            if kind == LinkKind.A
        ]
