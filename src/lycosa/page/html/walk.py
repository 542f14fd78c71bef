"""The one walk over the tree: everything a page contains, collected in document order.

The walk uses `first_child` and `next` with a stack of its own, so that depth costs memory only,
whole subtrees can be skipped, and elements have an end. Visitors, one for each kind of element,
collect; `lycosa.page.html.links`, `.parse` and `.main_text` interpret the results.
docs/decisions/0021-page-walk.md lists the attempts to make it faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lycosa.core.records import LinkKind
from lycosa.page.html.blocks import BlockWalker, MarkedNodes, text_size
from lycosa.page.html.head import read_image, read_special
from lycosa.page.html.lines import (
    anchor_text,
    joins_words,
    label,
    other_href,
    rel_tokens,
)
from lycosa.page.html.tree import (
    AWAY_TAGS,
    BLOCKS,
    CELLS,
    HEADINGS,
    ITEMS,
    SPECIAL,
    TAG,
    TEXT,
    UNSEEN,
    UNSEEN_BUT_LINKED,
    Node,
)
from lycosa.page.page_parts import ANCHOR_LENGTH, PageParts, fold

PERMALINKS = frozenset("¶#§🔗∞⚓")

_A = LinkKind.A.value
_OPEN = (_A, "", "", "")  # placeholder of a link until its anchor is complete


def walk(root: Node, marked: MarkedNodes) -> PageParts:
    """Visit every node under `root` once, in linear time. Never raises.

    Hot path (bench/extract.py guards it): text and inline elements, the most frequent nodes, are
    handled without a call. Of the hidden elements, only regions, items, headings and spans are left
    out.
    """
    starts = STARTS if marked.hidden else _STARTS_NOTHING_HIDDEN
    return visit(root, PageWalker(marked), starts)


def visit(root: Node, walker: PageWalker, starts: Mapping[int, _Start]) -> PageParts:
    """Visit everything under `root` once; `starts`: visitors by tag."""
    pieces, ends = walker.pieces, walker.ends
    start_of = starts.get
    stack: list[Node] = []
    node = root
    while True:
        tag = node.tag_id
        if tag == TEXT:
            if pieces or not node.is_empty_text_node:
                pieces.append(node.text_content or "")
        else:
            start = start_of(tag)
            child = node.first_child
            if start is not None:
                child = start(walker, node, tag, child)
            elif child is not None and child.tag_id == TEXT and child.next is None:
                if pieces or not child.is_empty_text_node:
                    pieces.append(child.text_content or "")
                child = None
            if child is not None:
                stack.append(node)
                node = child
                continue
        following = node.next
        while following is None:
            if not stack:
                if not walker.hidden:
                    walker.flush()
                return walker.parts
            ended = stack.pop()
            if ended is ends[-1][0]:
                _, end, saved = ends.pop()
                end(walker, saved)
            following = ended.next
        node = following


class PageWalker(BlockWalker):
    """Adds links, images and metadata to the blocks."""

    __slots__ = ()

    def start_link(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Begin a link. Most contain one text, perhaps in an inline element: they end here."""
        attributes = node.attributes
        if "href" not in attributes and "xlink:href" not in attributes:
            return child
        text: Node | None = child
        while text is not None:
            inner = text.tag_id
            if text.next is not None or inner in (
                STARTS if self.unseen else _STARTS_NOTHING_HIDDEN
            ):
                self.ends.append((node, PageWalker.end_link, self.open_link(attributes)))
                return child
            if inner == TEXT:
                break
            text = text.first_child
        self.read_simple_link(attributes, text)
        return None

    def open_link(
        self, attributes: dict[str, str | None]
    ) -> tuple[int, dict[str, str | None], int, str, list[str]]:
        """Begin a link. Return the arguments for `end_link`."""
        saved = len(self.links), attributes, self.link_first, self.link_alt, self.carried
        self.links.append(_OPEN)
        if self.link_end and self.link_end == len(self.pieces):
            self.pieces.append(" ")
        self.link_first = len(self.pieces)
        if not self.in_links:
            self.line_link = self.link_first
        self.link_alt = ""
        self.carried = []
        self.in_links += 1
        return saved

    def read_simple_link(self, attributes: dict[str, str | None], text_node: Node | None) -> None:
        href = attributes.get("href") or ""
        anchor = ""
        if text_node is not None:
            text = text_node.text_content or ""
            anchor = fold(text) if len(text) < ANCHOR_LENGTH else anchor_text([text], self.parts)
            if anchor in PERMALINKS and href[:1] == "#":
                anchor = ""
            elif self.pieces or anchor or not text_node.is_empty_text_node:
                # entries of a menu, which styles keep apart
                if self.link_end and self.link_end == len(self.pieces) and joins_words(anchor[:1]):
                    self.pieces.append(" ")
                self.pieces.append(text)
                self.link_end = len(self.pieces) if joins_words(anchor[-1:]) else 0
                if not self.in_links:
                    self.link_size += len(text)
        self.links.append(
            (
                _A,
                href or other_href(attributes),
                rel_tokens(attributes) if "rel" in attributes else "",
                anchor or label(attributes),
            )
        )

    def end_link(self, saved: tuple[int, dict[str, str | None], int, str, list[str]]) -> None:
        index, attributes, outer_first, outer_alt, outer_carried = saved
        pieces, carried, first = self.pieces, self.carried, self.link_first
        if not carried and len(pieces) == first + 1 and len(anchor := pieces[-1]) < ANCHOR_LENGTH:
            anchor = fold(anchor)
        else:
            anchor = anchor_text(carried + pieces[first:], self.parts)
        if anchor in PERMALINKS and not carried and (attributes.get("href") or "")[:1] == "#":
            del pieces[first:]
            anchor = ""
        self.link_end = len(pieces) if joins_words(anchor[-1:]) else 0
        self.links[index] = (
            _A,
            attributes.get("href") or other_href(attributes),
            rel_tokens(attributes) if "rel" in attributes else "",
            anchor or self.link_alt or label(attributes),
        )
        self.in_links -= 1
        if not self.in_links:
            self.link_size += text_size(pieces[self.line_link :])
        self.link_first, self.link_alt, self.carried = outer_first, outer_alt, outer_carried

    def start_special(self, node: Node, tag: int, child: Node | None) -> Node | None:
        return child if read_special(node, tag, self.parts, self.hidden > 0) else None

    def start_math(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Leave out the source of a formula, which is not shown."""
        sources = node.css("annotation,annotation-xml")
        if not sources:
            return child
        text = node.text()
        for source in sources:
            text = "".join(text.rsplit(source.text(), 1)) if source.text() else text
        self.pieces.append(text)
        return None

    def start_template(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Leave out a template, which is not shown, unless it is a shadow tree: its content is not
        in this tree.
        """
        if "shadowrootmode" in node.attributes:
            self.parts.has_shadow_roots = True
        return None

    def start_image(self, node: Node, tag: int, child: Node | None) -> Node | None:
        alt = read_image(node.attributes, self.links)
        if alt:
            self.link_alt = self.link_alt or alt
            if not self.hidden:
                self.alts.append(alt)
        return None


_Start = Callable[[Any, Node, int, Node | None], Node | None]
"""Begins an element with its tag and first child; returns the child if it is to be visited."""

STARTS: Mapping[int, _Start] = (
    dict.fromkeys(SPECIAL, PageWalker.start_special)
    | dict.fromkeys(BLOCKS, PageWalker.start_block)
    | dict.fromkeys(AWAY_TAGS, PageWalker.start_away)
    | dict.fromkeys(ITEMS, PageWalker.start_item)
    | dict.fromkeys(HEADINGS, PageWalker.start_heading)
    | dict.fromkeys(CELLS, PageWalker.start_cell)
    | dict.fromkeys(UNSEEN, PageWalker.skip)
    | dict.fromkeys(UNSEEN_BUT_LINKED, PageWalker.start_hidden)
    | {
        TAG["figcaption"]: PageWalker.start_caption,
        TAG["section"]: PageWalker.start_section,
        TAG["article"]: PageWalker.start_article,
        TAG["span"]: PageWalker.start_span,
        TAG["a"]: PageWalker.start_link,
        TAG["br"]: PageWalker.start_br,
        TAG["wbr"]: PageWalker.skip,
        TAG["img"]: PageWalker.start_image,
        TAG["pre"]: PageWalker.start_listing,
        TAG["noscript"]: PageWalker.start_noscript,
        TAG["math"]: PageWalker.start_math,
        TAG["template"]: PageWalker.start_template,
    }
)
"""Visitors by tag; an element that is not listed is inline and has none."""
_STARTS_NOTHING_HIDDEN = {
    tag: start for tag, start in STARTS.items() if start is not PageWalker.start_span
}
