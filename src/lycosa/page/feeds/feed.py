"""Feeds and other XML, read for title, text and links (RSS 0.9 to 2.0, Atom RFC 4287, RDF, JSON
Feed 1.1; any other XML for its text).

`lycosa.page.feeds.xml_events` parses it and repairs common mistakes; of other broken XML the part
before the fault is read.
"""

from __future__ import annotations

import json
from typing import Any, Final

from lycosa.core.records import LinkKind
from lycosa.page.feeds.xml_events import local_name, read_events
from lycosa.page.html.tree import parse_html
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

FAULT_JSON = "json_invalid"  # no JSON, or no JSON Feed
# HTML inside text
_MARKUP: Final = frozenset({"description", "summary", "content", "encoded", "subtitle"})
_DATES: Final = frozenset({"pubDate", "published", "date", "issued", "lastBuildDate", "updated"})
_ENTRIES: Final = frozenset({"item", "entry"})


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
    for name in ("title", "description"):
        reader.add_line(string_of(document, name))
    for item in document["items"]:
        if isinstance(item, dict):
            reader.add_item(item)
    return reader.parts


def load_json_feed(data: bytes) -> dict[str, Any] | None:
    """Parse JSON; None: it is no JSON Feed. Never raises."""
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    is_feed = isinstance(document, dict) and isinstance(document.get("items"), list)
    return document if is_feed else None


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
        self._in_entry = 0
        self._title = ""  # of the entry that is being read
        # indices of links that take the title of the entry as their anchor
        self._entry_links: list[int] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.close()
        self._depth += 1
        name = local_name(tag)
        if name in _ENTRIES:
            self._in_entry = self._depth
            self._title = ""
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
        text = "".join(self._pieces)
        self._pieces.clear()
        name = local_name(tag)
        if name == "link":
            if text.strip():
                self._link(LinkKind.A, text.strip(), "")
        elif name in _DATES:
            if text.strip() and len(self.parts.times) < 1:
                self.parts.times.append((text.strip(), True))
        elif name == "title" and not self._in_entry and not self.parts.title:
            self.parts.set_title(fold(text))
            self.add_line(text)
        elif name == "title" and self._in_entry:
            self._title = fold(text)
            self.add_line(text)
        elif name in _MARKUP and "<" in text:
            self._markup(text)
        else:
            self.add_line(text)
        if name in _ENTRIES and self._in_entry == self._depth:
            for index in self._entry_links:
                kind, href, rel, _ = self.parts.links[index]
                self.parts.links[index] = (kind, href, rel, self._title[:ANCHOR_LENGTH])
            self._in_entry = 0
        self._depth -= 1

    def text(self, text: str) -> None:
        self._pieces.append(text)

    def close(self) -> None:
        """Add text before or after child elements as a line of its own."""
        if self._pieces:
            self.add_line("".join(self._pieces))
            self._pieces.clear()

    def add_item(self, item: dict[str, Any]) -> None:
        """Add an entry of a JSON Feed."""
        title = fold(string_of(item, "title"))
        url = string_of(item, "url")
        if url:
            self.parts.links.append((LinkKind.A.value, url, "", title[:ANCHOR_LENGTH]))
        if not self.parts.times and string_of(item, "date_published"):
            self.parts.times.append((string_of(item, "date_published"), True))
        self.add_line(title)
        markup = string_of(item, "content_html")
        if markup:
            self._markup(markup)
        else:
            self.add_line(string_of(item, "content_text") or string_of(item, "summary"))

    def add_line(self, text: str) -> None:
        """Add a line of visible text."""
        folded = fold(text)
        if folded:
            self.parts.lines.append(folded)

    def _link(self, kind: LinkKind, href: str, rel: str) -> None:
        if self._in_entry and kind is LinkKind.A:
            self._entry_links.append(len(self.parts.links))
        self.parts.links.append((kind.value, href, rel, ""))

    def _markup(self, text: str) -> None:
        body = parse_html(text)[0].body
        if body is None:
            return
        for item in body.css("a[href]"):
            href = item.attributes.get("href")
            if href:
                self.parts.links.append(
                    (LinkKind.A.value, href, "", fold(item.text())[:ANCHOR_LENGTH])
                )
        self.add_line(body.text(separator=" "))
