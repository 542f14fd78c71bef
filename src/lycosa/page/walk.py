"""The one walk over the tree: everything a page says, collected in document order.

The walk uses `first_child` and `next` with a stack of its own, so that depth costs memory only, whole subtrees can be skipped,
and elements have an end. It decides nothing about the page: `lycosa.page.links`, `.metadata` and `.main_text` do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selectolax.lexbor import LexborNode

from lycosa.core.records import LinkKind
from lycosa.page.marks import AWAY, NEUTRAL, mark_of_element
from lycosa.page.tags import AWAY_TAGS, BLOCKS, CELLS, HEADINGS, SPECIAL, TAG, TEXT, UNSEEN, UNSEEN_BUT_LINKED

ANCHOR_LENGTH = 500  # characters kept of an anchor
_ANCHOR_PIECES = 200  # text nodes read for an anchor
_BREAK = "\0"  # stands for <br> among the pieces of a line; HTML text cannot hold it
CELL_LENGTH = 80  # characters from which a table cell is a block of its own


class Block(NamedTuple):
    """A run of text between two block boundaries: lines `first` to `last` (exclusive) of the visible text."""

    first: int
    last: int
    size: int  # characters
    link_size: int  # of them, in links
    tag: int  # tag id of the innermost block element around it
    region: int  # index into `regions`; 0 is the page
    alt: bool  # text that stands in for an image


@dataclass(slots=True)
class Region:
    """An element that marks what is in it. `parent` is the index of the region around it."""

    mark: int
    parent: int
    tag: int
    size: int = 0  # characters of text in it, inner regions included (filled by main_text)


@dataclass(slots=True)
class FoundLink:
    """A link as written."""

    kind: str
    href: str
    rel: str = ""
    anchor: str = ""
    fallback: str = ""  # alternative text of an image in the link, else its title or label


@dataclass(slots=True)
class Found:
    """What the walk collected."""

    lines: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    regions: list[Region] = field(default_factory=lambda: [Region(NEUTRAL, 0, 0)])
    links: list[FoundLink] = field(default_factory=list)
    alternates: list[tuple[str, str]] = field(default_factory=list)  # hreflang, href
    headings: list[str] = field(default_factory=list)
    headline: str = ""  # first h1
    marked_headline: str = ""  # itemprop=headline
    title: str = ""
    base: str | None = None
    meta: dict[str, str] = field(default_factory=dict)  # name, property or itemprop in lower case -> first content
    robots: list[tuple[str, str]] = field(default_factory=list)  # meta name in lower case, content
    times: list[tuple[str, bool]] = field(default_factory=list)  # datetime, whether marked as the publication's
    linked_data: list[str] = field(default_factory=list)  # JSON-LD as written
    anchors_cut: int = 0


_BLOCK, _CELL, _SPAN, _SPECIAL = 1, 2, 3, 4
_ACTION = dict.fromkeys(SPECIAL, _SPECIAL) | dict.fromkeys(BLOCKS, _BLOCK) | dict.fromkeys(CELLS, _CELL) | {TAG["span"]: _SPAN}

# Ends: what happens when an element with children closes.
_END_BLOCK, _END_CELL, _END_HEADING, _END_LINK, _END_PRE, _END_HIDDEN = 1, 2, 3, 4, 5, 6

_REQUISITES = frozenset(
    {
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "mask-icon",
        "preload",
        "modulepreload",
        "manifest",
        "prefetch",
    }
)
_FEED_TYPES = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json", "application/json", "text/xml"}
)
PERMALINKS = frozenset("¶#§🔗∞⚓")


def fold(text: str) -> str:
    """White space folded to single spaces, soft hyphens (which nobody sees) dropped."""
    if "\xad" in text:
        text = text.replace("\xad", "")
    return " ".join(text.split())


class Walker:
    """Walks one tree; use once. `found` is the result. Hot path: bench/extract.py guards it."""

    def __init__(self) -> None:
        self.found = Found()
        self._pieces: list[str] = []
        self._line_start = 0  # index into pieces where the current line begins
        self._link_size = 0  # characters of the current block that stand in links
        self._hidden = 0  # depth of hidden elements
        self._region = 0
        self._tag = 0
        self._alts: list[str] = []
        self._links_open: list[FoundLink] = []
        self._in_article = 0

    def walk(self, root: LexborNode) -> Found:
        """Visit everything under `root` once."""
        pieces = self._pieces
        actions = _ACTION
        stack: list[LexborNode] = []
        ends: list[tuple[int, int, Any]] = []
        end_depth = -1
        node = root
        while True:
            tag = node.tag_id
            if tag == TEXT:
                text = node.text_content
                if text:
                    pieces.append(text)
                    if self._links_open:
                        self._link_size += len(text)
            else:
                action = actions.get(tag)
                end: tuple[int, Any] | None = None
                descend = True
                if action is not None:
                    if action == _BLOCK:
                        end = self._start_block(node, tag)
                    elif action == _SPAN:
                        end = self._start_span(node)
                    elif action == _CELL:
                        end = self._start_cell(node, tag)
                    else:
                        descend, end = self._start_special(node, tag)
                if descend:
                    child = node.first_child
                    if child is not None:
                        if end is not None:
                            end_depth = len(stack)
                            ends.append((end_depth, *end))
                        stack.append(node)
                        node = child
                        continue
                    if end is not None:
                        self._finish(*end)
            following = node.next
            while following is None:
                if not stack:
                    self.flush()
                    return self.found
                following = stack.pop()
                if len(stack) == end_depth:
                    _, code, saved = ends.pop()
                    end_depth = ends[-1][0] if ends else -1
                    self._finish(code, saved)
                following = following.next if stack else None
            node = following

    def flush(self) -> None:
        """End the current line and block."""
        if self._hidden:
            return
        pieces = self._pieces
        start = self._line_start
        count = len(pieces)
        found = self.found
        lines = found.lines
        if count > start:
            text = "".join(pieces[start:]) if count - start > 1 else pieces[start]
            self._line_start = count
            first = len(lines)
            if _BREAK in text:
                size = 0
                for part in text.split(_BREAK):
                    folded = fold(part)
                    if folded:
                        lines.append(folded)
                        size += len(folded)
            else:
                folded = fold(text)
                size = len(folded)
                if size:
                    lines.append(folded)
            if size:
                found.blocks.append(Block(first, len(lines), size, min(self._link_size, size), self._tag, self._region, False))
        self._link_size = 0
        if self._alts:
            for alt in self._alts:
                found.blocks.append(Block(len(lines), len(lines) + 1, len(alt), 0, self._tag, self._region, True))
                lines.append(alt)
            self._alts.clear()

    def _start_block(self, node: LexborNode, tag: int) -> tuple[int, Any]:
        if len(self._pieces) > self._line_start or self._alts:
            self.flush()
        saved = (self._tag, self._region, tag)
        self._tag = tag
        attributes = node.attributes
        mark = AWAY if tag in AWAY_TAGS else NEUTRAL
        if attributes:
            if _is_hidden(attributes):
                return self._hide(saved)
            found_mark = mark_of_element(attributes)
            if found_mark != NEUTRAL and mark == NEUTRAL:
                mark = found_mark
            if attributes.get("itemprop") == "headline" and not self.found.marked_headline:
                self.found.marked_headline = fold(node.text())
        if mark != NEUTRAL and tag not in (TAG["html"], TAG["body"]):
            regions = self.found.regions
            regions.append(Region(mark, self._region, tag))
            self._region = len(regions) - 1
        if tag in HEADINGS:
            return _END_HEADING, (*saved, len(self._pieces))
        if tag == TAG["article"]:
            self._in_article += 1
        return _END_BLOCK, saved

    def _hide(self, saved: tuple[int, int, int]) -> tuple[int, Any]:
        self._hidden += 1
        return _END_HIDDEN, (*saved, len(self._pieces), self._link_size)

    def _start_span(self, node: LexborNode) -> tuple[int, Any] | None:
        attributes = node.attributes
        if attributes and _is_hidden(attributes):
            return self._hide((self._tag, self._region, TAG["span"]))
        return None

    def _start_cell(self, node: LexborNode, tag: int) -> tuple[int, Any] | None:
        saved = (self._tag, self._region, tag)
        self._pieces.append(" ")
        attributes = node.attributes
        if attributes:
            if _is_hidden(attributes):
                return self._hide(saved)
            mark = mark_of_element(attributes)
            if mark != NEUTRAL:
                self.flush()
                regions = self.found.regions
                regions.append(Region(mark, self._region, tag))
                self._region = len(regions) - 1
                self._tag = tag
                return _END_BLOCK, saved
        return _END_CELL, (*saved, len(self._pieces))

    def _finish(self, code: int, saved: Any) -> None:
        pieces = self._pieces
        if code == _END_BLOCK:
            if len(pieces) > self._line_start or self._alts:
                self.flush()
            self._tag, self._region, tag = saved
            if tag == TAG["article"]:
                self._in_article -= 1
        elif code == _END_LINK:
            self._end_link(saved)
        elif code == _END_CELL:
            pieces.append(" ")
            if sum(map(len, pieces[max(saved[3], self._line_start) :])) > CELL_LENGTH:
                self.flush()
        elif code == _END_HEADING:
            text = fold("".join(pieces[saved[3] :]).replace(_BREAK, " "))
            if text and not self._hidden:
                self.found.headings.append(text)
                if saved[2] == TAG["h1"] and not self.found.headline:
                    self.found.headline = text
            self.flush()
            self._tag, self._region = saved[:2]
        elif code == _END_PRE:
            start = max(saved[3], self._line_start)
            pieces[start:] = [piece.replace("\n", _BREAK) for piece in pieces[start:]]
            self.flush()
            self._tag, self._region = saved[:2]
        else:  # hidden: what was collected is dropped, except from links that ended in it
            self._hidden -= 1
            self._tag, self._region = saved[:2]
            del pieces[saved[3] :]
            self._link_size = saved[4]

    def _end_link(self, saved: tuple[FoundLink, int]) -> None:
        link, start = saved
        self._links_open.pop()
        pieces = self._pieces
        count = len(pieces)
        if count == start:
            return
        if count == start + 1 and len(pieces[start]) < ANCHOR_LENGTH:
            link.anchor = fold(pieces[start])
        else:
            text = "".join([piece[: 2 * ANCHOR_LENGTH] for piece in pieces[start : start + _ANCHOR_PIECES]])
            text = fold(text.replace(_BREAK, " "))
            if len(text) > ANCHOR_LENGTH:
                text = text[:ANCHOR_LENGTH].rstrip()
                self.found.anchors_cut += 1
            link.anchor = text
        if link.anchor in PERMALINKS and link.href.startswith("#"):
            if self._line_start <= start:
                self._link_size -= sum(map(len, pieces[start:]))
                del pieces[start:]
            link.anchor = ""

    def _start_special(self, node: LexborNode, tag: int) -> tuple[bool, tuple[int, Any] | None]:
        found = self.found
        if tag == TAG["a"]:
            attributes = node.attributes
            href = attributes.get("href") or attributes.get("xlink:href")
            if href is None:
                if "href" not in attributes:
                    return True, None
                href = ""
            link = FoundLink(LinkKind.A.value, href, _tokens(attributes.get("rel")))
            link.fallback = attributes.get("aria-label") or attributes.get("title") or ""
            found.links.append(link)
            self._links_open.append(link)
            return True, (_END_LINK, (link, len(self._pieces)))
        if tag == TAG["br"]:
            self._pieces.append(_BREAK)
            return False, None
        if tag == TAG["img"]:
            self._image(node.attributes)
            return False, None
        if tag == TAG["pre"]:
            return self._start_pre(node)
        if tag == TAG["script"]:
            attributes = node.attributes
            source = attributes.get("src")
            if source:
                found.links.append(FoundLink(LinkKind.REQUISITE.value, source))
            elif "ld+json" in (attributes.get("type") or ""):
                found.linked_data.append(node.text())
            return False, None
        if tag in UNSEEN:
            return False, None
        if tag in UNSEEN_BUT_LINKED:
            return True, self._hide((self._tag, self._region, tag))
        if tag == TAG["time"]:
            attributes = node.attributes
            written = attributes.get("datetime") or attributes.get("content")
            if written and len(found.times) < 20:
                own = "pubdate" in attributes or attributes.get("itemprop") in ("datePublished", "dateCreated")
                found.times.append((written, own or self._in_article > 0))
            return True, None
        if tag == TAG["title"]:
            if not self._hidden and not found.title:
                found.title = fold(node.text())
            return False, None
        if tag == TAG["wbr"]:
            return False, None
        return self._start_head(node, tag)

    def _start_head(self, node: LexborNode, tag: int) -> tuple[bool, tuple[int, Any] | None]:
        found = self.found
        attributes = node.attributes
        if tag == TAG["meta"]:
            content = attributes.get("content") or ""
            name = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
            if name:
                name = name.strip().lower()
                found.meta.setdefault(name, content)
                if attributes.get("name"):
                    found.robots.append((name, content))
            equivalent = (attributes.get("http-equiv") or "").strip().lower()
            if equivalent:
                found.meta.setdefault("http-equiv:" + equivalent, content)
        elif tag == TAG["link"]:
            self._link_element(attributes)
        elif tag == TAG["base"]:
            if found.base is None and attributes.get("href") is not None:
                found.base = attributes["href"]
        elif tag == TAG["area"]:
            href = attributes.get("href")
            if href is not None:
                found.links.append(FoundLink(LinkKind.AREA.value, href, _tokens(attributes.get("rel")), fold(attributes.get("alt") or "")))
        elif tag in (TAG["frame"], TAG["iframe"]):
            source = attributes.get("src")
            if source:
                kind = LinkKind.FRAME.value if tag == TAG["frame"] else LinkKind.IFRAME.value
                found.links.append(FoundLink(kind, source, "", fold(attributes.get("title") or attributes.get("name") or "")))
        else:
            return True, None
        return False, None

    def _link_element(self, attributes: dict[str, str | None]) -> None:
        href = attributes.get("href")
        if not href:
            return
        rel = _tokens(attributes.get("rel"))
        tokens = rel.split(" ")
        found = self.found
        if "canonical" in tokens:
            found.links.append(FoundLink(LinkKind.CANONICAL.value, href, rel))
        elif "stylesheet" not in tokens and "alternate" in tokens:
            media_type = (attributes.get("type") or "").partition(";")[0].strip().lower()
            feed = media_type in _FEED_TYPES
            title = fold(attributes.get("title") or "")
            found.links.append(FoundLink(LinkKind.FEED.value if feed else LinkKind.ALTERNATE.value, href, rel, title))
            language = attributes.get("hreflang")
            if language and not feed:
                found.alternates.append((language.strip(), href))
        elif not _REQUISITES.isdisjoint(tokens):
            found.links.append(FoundLink(LinkKind.REQUISITE.value, href, rel))

    def _image(self, attributes: dict[str, str | None]) -> None:
        source = attributes.get("src")
        alt = fold(attributes.get("alt") or "")
        if alt:
            alt = alt[:ANCHOR_LENGTH]
            if self._links_open and not self._links_open[-1].fallback:
                self._links_open[-1].fallback = alt
            if not self._hidden:
                self._alts.append(alt)
        if source and not source.startswith("data:"):
            self.found.links.append(FoundLink(LinkKind.IMAGE.value, source, "", alt))

    def _start_pre(self, node: LexborNode) -> tuple[bool, tuple[int, Any] | None]:
        """A listing without links is read at once; its lines stay lines, its many spans are not visited."""
        if self._hidden:
            return True, None
        self.flush()
        saved = (self._tag, self._region, TAG["pre"])
        if node.css_first("a,img,iframe,script") is not None:
            self._tag = TAG["pre"]
            return True, (_END_PRE, (*saved, len(self._pieces)))
        self._tag = TAG["pre"]
        self._pieces.append(node.text().replace("\n", _BREAK))
        self.flush()
        self._tag = saved[0]
        return False, None


def _tokens(rel: str | None) -> str:
    return " ".join(rel.lower().split()) if rel else ""


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    if "hidden" in attributes:
        return True
    style = attributes.get("style")
    return style is not None and "display" in style and "display:none" in style.replace(" ", "").lower()
