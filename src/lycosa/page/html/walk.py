"""The one walk over the tree: everything a page contains, collected in document order.

The walk uses `first_child` and `next` with a stack of its own, so that depth costs memory only,
whole subtrees can be skipped, and elements have an end. Visitors, one for each kind of element,
collect; `lycosa.page.html.links`, `.parse` and `.main_text` decide what it means.
docs/decisions/0021-page-walk.md lists what was tried to make it faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lycosa.core.records import LinkKind
from lycosa.page.html.head import read_image, read_special
from lycosa.page.html.lines import (
    BREAK,
    CELL,
    VERBATIM,
    anchor_text,
    broken_lines,
    label,
    listing,
    other_href,
    rel_tokens,
    row,
)
from lycosa.page.html.region_classes import AWAY, NEUTRAL, NEVER, SECTION, mark_of_element
from lycosa.page.html.tags import (
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
)
from lycosa.page.html.tree import Node
from lycosa.page.page_parts import ALT, ANCHOR_LENGTH, PageParts, fold

CELL_LENGTH = 80  # characters from which a table cell is a block of its own
PERMALINKS = frozenset("¶#§🔗∞⚓")

_A = LinkKind.A.value
_H1 = TAG["h1"]
_OPEN = (_A, "", "", "")  # holds the place of a link until its anchor is known
_MARKS = frozenset((BREAK, CELL))  # pieces that are no text


def walk(
    root: Node, unseen: frozenset[int] = frozenset(), linked: frozenset[int] = frozenset()
) -> PageParts:
    """Visit everything under `root` once. Never raises, takes time in proportion to the tree.

    Hot path (bench/extract.py guards it): text and inline elements, the most frequent nodes, are
    handled without a call.

    Args:
        unseen: addresses (`mem_id`) of the elements that an attribute hides. Only regions, items,
            headings and spans are hidden.
        linked: addresses of the listings with links or images in them.
    """
    walker = _Walker(unseen, linked)
    pieces, ends = walker.pieces, walker.ends
    start_of = (_STARTS if unseen else _STARTS_NOTHING_HIDDEN).get
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


class _Walker:
    """What the visitors share: the parts of the page, and the block and line that are open."""

    __slots__ = (
        "alts",
        "block_tag",
        "blocks",
        "carried",
        "element",
        "elements",
        "ends",
        "hidden",
        "in_links",
        "line_link",
        "lines",
        "link_alt",
        "link_first",
        "link_size",
        "linked",
        "links",
        "parts",
        "pieces",
        "unseen",
    )

    def __init__(self, unseen: frozenset[int], linked: frozenset[int]) -> None:
        self.unseen = unseen
        self.linked = linked
        self.parts = parts = PageParts()
        self.links = parts.links
        self.elements = parts.elements
        self.lines = parts.lines
        self.blocks = parts.blocks
        self.pieces: list[str] = []  # the current line, as written
        self.alts: list[str] = []  # alternative texts of images in the current block
        self.carried: list[str] = []  # what a line that ended inside the link gave to its anchor
        self.link_first = 0  # where in `pieces` the current link begins
        self.line_link = 0  # where in `pieces` the outermost link begins
        self.link_alt = ""  # of the first image in the current link
        self.link_size = 0  # characters of the current block that are in links which ended
        self.element = 0  # the block element around: an index into `elements`
        self.block_tag = 0  # the tag that began the current block, 0 in what follows the end of one
        self.hidden = self.in_links = 0  # how many of these are open
        # the element, its end visitor, and what that needs; elements without children have no end
        self.ends: list[tuple[Node | None, _End, Any]] = [(None, _end_block, 0)]

    def break_line(self) -> None:
        """Make a block of the current line, unless it is empty or hidden."""
        if (self.pieces or self.alts) and not self.hidden:
            self.flush()

    def flush(self) -> None:
        """Make a block of the current line and of the texts of its images; both are empty then."""
        pieces, lines = self.pieces, self.lines
        if self.in_links:
            self.carried += pieces[self.link_first :]
            self.carried.append(" ")
            self.link_size += _text_size(pieces[self.line_link :])
            self.link_first = self.line_link = 0
        first = len(lines)
        text = "".join(pieces)
        pieces.clear()
        if VERBATIM in text or BREAK in text:
            lines += listing(text) if VERBATIM in text else broken_lines(text)
            size = sum(map(len, lines[first:]))
        else:
            if CELL in text:
                text = row(text)
            else:
                text = text.strip()
                # asked here: most lines need no folding, and a call costs as much as both questions
                if "  " in text or not text.isprintable():
                    text = fold(text)
            size = len(text)
            if size:
                lines.append(text)
        if size:
            in_links = self.link_size if self.link_size < size else size
            self.blocks.append((first, len(lines), size, in_links, self.element, self.block_tag))
        self.link_size = 0
        if self.alts:
            for alt in self.alts:
                self.blocks.append((len(lines), len(lines) + 1, len(alt), 0, self.element, ALT))
                lines.append(alt)
            self.alts.clear()

    def open_region(
        self, node: Node, child: Node | None, mark: int = NEUTRAL, default: int = NEUTRAL
    ) -> Node | None:
        """Begin a block element of a region class; `default`: where its attributes give none."""
        outer = self.element
        attributes = node.attributes
        if attributes:
            mark = mark or mark_of_element(attributes)
            if self.unseen and node.mem_id in self.unseen:
                return self.hide(node, child)
        if child is not None:
            self.element = len(self.elements)
            self.elements.append((outer, mark or default))
            self.ends.append((node, _end_block, outer))
        return child

    def hide(self, node: Node, child: Node | None) -> Node | None:
        """Begin an element whose text is not shown."""
        if child is not None:
            self.hidden += 1
            self.ends.append((node, _end_hidden, (len(self.pieces), self.link_size)))
        return child


_Start = Callable[[_Walker, Node, int, Node | None], Node | None]
"""Begins an element with its tag and first child; returns the child if it is to be visited."""
_End = Callable[[_Walker, Any], None]


def _text_size(pieces: list[str]) -> int:
    return sum([len(piece) for piece in pieces if piece not in _MARKS])


def _start_block(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    if (walker.pieces or walker.alts) and not walker.hidden:
        walker.flush()
    walker.block_tag = tag
    outer = walker.element
    mark = NEUTRAL
    attributes = node.attributes
    if attributes:
        mark = mark_of_element(attributes)
        if walker.unseen and node.mem_id in walker.unseen:
            return walker.hide(node, child)
    if child is not None:
        walker.element = len(walker.elements)
        walker.elements.append((outer, mark))
        walker.ends.append((node, _end_block, outer))
    return child


def _start_section(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.break_line()
    walker.block_tag = tag
    return walker.open_region(node, child, default=SECTION)


def _start_away(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.break_line()
    walker.block_tag = tag
    return walker.open_region(node, child, AWAY)


def _start_caption(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.break_line()
    walker.block_tag = tag
    return walker.open_region(node, child, NEVER)


def _start_article(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.parts.has_article = True
    return _start_block(walker, node, tag, child)


def _end_block(walker: _Walker, outer: int) -> None:
    if (walker.pieces or walker.alts) and not walker.hidden:
        walker.flush()
    walker.element = outer
    walker.block_tag = 0


def _end_hidden(walker: _Walker, saved: tuple[int, int]) -> None:
    """What was collected is dropped, except links that ended in it."""
    walker.hidden -= 1
    del walker.pieces[saved[0] :]
    walker.link_size = saved[1]


def _start_item(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    """An item ends where the next item or the list ends: it needs no end of its own."""
    if (walker.pieces or walker.alts) and not walker.hidden:
        walker.flush()
    walker.block_tag = tag
    if walker.unseen and node.mem_id in walker.unseen:
        return walker.hide(node, child)
    return child


def _start_heading(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.break_line()
    walker.block_tag = tag
    if walker.unseen and node.mem_id in walker.unseen:
        return walker.hide(node, child)
    if child is not None:
        walker.ends.append((node, _end_heading, (len(walker.lines), tag)))
    return child


def _end_heading(walker: _Walker, saved: tuple[int, int]) -> None:
    if walker.hidden:
        return
    walker.flush()
    walker.block_tag = 0
    first, tag = saved
    walker.parts.add_heading(" ".join(walker.lines[first:]), tag == _H1)


def _start_link(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    """Most links hold one text, perhaps in an inline element or two: they end here."""
    attributes = node.attributes
    if "href" not in attributes and "xlink:href" not in attributes:
        return child
    text: Node | None = child
    while (
        text is not None
        and text.next is None
        and text.tag_id != TEXT
        and (_STARTS if walker.unseen else _STARTS_NOTHING_HIDDEN).get(text.tag_id) is None
    ):
        text = text.first_child
    if text is None or (text.tag_id == TEXT and text.next is None):
        _read_simple_link(walker, attributes, text)
        return None
    saved = len(walker.links), attributes, walker.link_first, walker.link_alt, walker.carried
    walker.ends.append((node, _end_link, saved))
    walker.links.append(_OPEN)
    walker.link_first = len(walker.pieces)
    if not walker.in_links:
        walker.line_link = walker.link_first
    walker.link_alt = ""
    walker.carried = []
    walker.in_links += 1
    return child


def _read_simple_link(
    walker: _Walker, attributes: dict[str, str | None], text_node: Node | None
) -> None:
    href = attributes.get("href") or ""
    anchor = ""
    if text_node is not None:
        text = text_node.text_content or ""
        anchor = fold(text) if len(text) < ANCHOR_LENGTH else anchor_text([text], walker.parts)
        if anchor in PERMALINKS and href[:1] == "#":
            anchor = ""
        elif walker.pieces or anchor or not text_node.is_empty_text_node:
            walker.pieces.append(text)
            if not walker.in_links:
                walker.link_size += len(text)
    walker.links.append(
        (
            _A,
            href or other_href(attributes),
            rel_tokens(attributes) if "rel" in attributes else "",
            anchor or label(attributes),
        )
    )


def _end_link(
    walker: _Walker, saved: tuple[int, dict[str, str | None], int, str, list[str]]
) -> None:
    index, attributes, outer_first, outer_alt, outer_carried = saved
    pieces, carried, first = walker.pieces, walker.carried, walker.link_first
    if not carried and len(pieces) == first + 1 and len(anchor := pieces[-1]) < ANCHOR_LENGTH:
        anchor = fold(anchor)
    else:
        anchor = anchor_text(carried + pieces[first:], walker.parts)
    if anchor in PERMALINKS and not carried and (attributes.get("href") or "")[:1] == "#":
        del pieces[first:]
        anchor = ""
    walker.links[index] = (
        _A,
        attributes.get("href") or other_href(attributes),
        rel_tokens(attributes) if "rel" in attributes else "",
        anchor or walker.link_alt or label(attributes),
    )
    walker.in_links -= 1
    if not walker.in_links:
        walker.link_size += _text_size(pieces[walker.line_link :])
    walker.link_first, walker.link_alt, walker.carried = outer_first, outer_alt, outer_carried


def _start_span(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    return walker.hide(node, child) if node.mem_id in walker.unseen else child


def _start_special(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    return child if read_special(node, tag, walker.parts, walker.hidden > 0) else None


def _start_image(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    alt = read_image(node.attributes, walker.links)
    if alt:
        walker.link_alt = walker.link_alt or alt
        if not walker.hidden:
            walker.alts.append(alt)
    return None


def _start_br(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    walker.pieces.append(BREAK)
    return None


def _start_cell(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    attributes = node.attributes
    mark = mark_of_element(attributes) if attributes else NEUTRAL
    if mark != NEUTRAL and not walker.hidden:
        walker.flush()
        if child is not None:
            walker.ends.append((node, _end_block, walker.element))
            walker.element = len(walker.elements)
            walker.elements.append((walker.ends[-1][2], mark))
        walker.pieces.append(CELL)
        return child
    walker.pieces.append(CELL)
    if child is not None:
        walker.ends.append((node, _end_cell, len(walker.pieces)))
    return child


def _end_cell(walker: _Walker, first: int) -> None:
    """A cell with much text is a block of its own. Nearly all are one piece, and the space."""
    pieces = walker.pieces
    pieces.append(" ")
    if not walker.hidden and (
        len(pieces[first]) >= CELL_LENGTH
        if len(pieces) == first + 2
        else sum(map(len, pieces[first:])) > CELL_LENGTH
    ):
        walker.flush()


def _skip(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    return None


def _start_hidden(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    return walker.hide(node, child)


def _start_listing(walker: _Walker, node: Node, tag: int, child: Node | None) -> Node | None:
    """A `pre` without links is read at once: the spans of coloured code are many."""
    if walker.hidden:
        return child
    walker.flush()
    walker.block_tag = tag
    if node.mem_id in walker.linked:
        if child is not None:
            walker.ends.append((node, _end_listing, None))
        return child
    walker.pieces.append(VERBATIM + node.text().replace("\n", VERBATIM))
    walker.flush()
    walker.block_tag = 0
    return None


def _end_listing(walker: _Walker, saved: None) -> None:
    if walker.hidden:
        return
    walker.pieces[:] = [VERBATIM, *(piece.replace("\n", VERBATIM) for piece in walker.pieces)]
    walker.flush()
    walker.block_tag = 0


_STARTS: Mapping[int, _Start] = (
    dict.fromkeys(SPECIAL, _start_special)
    | dict.fromkeys(BLOCKS, _start_block)
    | dict.fromkeys(AWAY_TAGS, _start_away)
    | dict.fromkeys(ITEMS, _start_item)
    | dict.fromkeys(HEADINGS, _start_heading)
    | dict.fromkeys(CELLS, _start_cell)
    | dict.fromkeys(UNSEEN, _skip)
    | dict.fromkeys(UNSEEN_BUT_LINKED, _start_hidden)
    | {
        TAG["figcaption"]: _start_caption,
        TAG["section"]: _start_section,
        TAG["article"]: _start_article,
        TAG["span"]: _start_span,
        TAG["a"]: _start_link,
        TAG["br"]: _start_br,
        TAG["wbr"]: _skip,
        TAG["img"]: _start_image,
        TAG["pre"]: _start_listing,
    }
)
"""Visitors by tag; an element that is not listed is inline and has none."""
_STARTS_NOTHING_HIDDEN = {tag: start for tag, start in _STARTS.items() if start is not _start_span}
