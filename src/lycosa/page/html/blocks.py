"""Blocks and lines of a page: the state of the walk, and its visitors for block elements.

A visitor begins an element and returns the child to visit; an end visitor ends it.
`lycosa.page.html.walk` adds links, images and metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.page.html.lines import (
    BREAK,
    CELL,
    VERBATIM,
    broken_lines,
    listing,
    row,
)
from lycosa.page.html.region_classes import AWAY, NEUTRAL, NEVER, SECTION, mark_of_element
from lycosa.page.html.tree import (
    TAG,
    Node,
)
from lycosa.page.page_parts import PageParts, fold

CELL_LENGTH = 80  # characters from which a table cell is a block of its own

_H1 = TAG["h1"]
_MARKS = frozenset((BREAK, CELL))  # pieces that are no text
_End = Callable[[Any, Any], None]


@dataclass(slots=True, frozen=True)
class MarkedNodes:
    """Elements that are found by one selector query before the walk, as addresses (`mem_id`)."""

    hidden: frozenset[int] = frozenset()  # by an attribute
    linked_listings: frozenset[int] = frozenset()  # `pre` with links or images
    shows_noscript: bool = False  # most of the text is in `noscript` elements
    has_items: bool = False  # of microdata or RDFa


class BlockWalker:
    """The parts of the page, the open block and the open line; visitors change them."""

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
        "link_end",
        "link_first",
        "link_size",
        "linked",
        "links",
        "parts",
        "pieces",
        "shows_noscript",
        "unseen",
    )

    def __init__(self, marked: MarkedNodes) -> None:
        self.unseen = marked.hidden
        self.linked = marked.linked_listings
        self.shows_noscript = marked.shows_noscript
        self.parts = parts = PageParts()
        self.links = parts.links
        self.elements = parts.elements
        self.lines = parts.lines
        self.blocks = parts.blocks
        self.pieces: list[str] = []  # the current line, as written
        self.alts: list[str] = []  # alternative texts of images in the current block
        self.carried: list[str] = []  # part of the anchor from a line that ended inside the link
        self.link_first = 0  # where in `pieces` the current link begins
        self.line_link = 0  # where in `pieces` the outermost link begins
        self.link_alt = ""  # of the first image in the current link
        self.link_end = 0  # where in `pieces` a link ended with a word, which another must not join
        self.link_size = 0  # characters of the current block that are in links which ended
        self.element = 0  # the block element around: an index into `elements`
        self.block_tag = 0  # the tag that began the current block, 0 after the end of one
        self.hidden = self.in_links = 0  # how many of these are open
        # the element, its end visitor and the visitor's data; elements without children have no end
        self.ends: list[tuple[Node | None, _End, Any]] = [(None, BlockWalker.end_block, 0)]

    def break_line(self) -> None:
        """Make a block of the current line, unless it is empty or hidden."""
        if (self.pieces or self.alts) and not self.hidden:
            self.flush()

    def flush(self) -> None:
        """Make a block of the current line, and lines of the texts of its images."""
        pieces, lines = self.pieces, self.lines
        if self.in_links:
            self.carried += pieces[self.link_first :]
            self.carried.append(" ")
            self.link_size += text_size(pieces[self.line_link :])
            self.link_first = self.line_link = 0
        first = len(lines)
        text = "".join(pieces).strip()
        pieces.clear()
        size = len(text)
        # Most lines have nothing to fold or to split: the marks are not printable.
        if "  " in text or not text.isprintable():
            if VERBATIM in text or BREAK in text:
                lines += listing(text) if VERBATIM in text else broken_lines(text)
                size = sum(map(len, lines[first:]))
                text = ""
            else:
                text = row(text) if CELL in text else fold(text)
                size = len(text)
        if text:
            lines.append(text)
        if size:
            in_links = self.link_size if self.link_size < size else size
            self.blocks.append((first, len(lines), size, in_links, self.element, self.block_tag))
        self.link_size = self.link_end = 0
        if self.alts:
            lines += self.alts
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
            self.elements.append((outer, mark or default, node.tag_id))
            self.ends.append((node, BlockWalker.end_block, outer))
        return child

    def hide(self, node: Node, child: Node | None) -> Node | None:
        """Begin an element whose text is not shown."""
        if child is not None:
            self.hidden += 1
            self.ends.append((node, BlockWalker.end_hidden, (len(self.pieces), self.link_size)))
        return child

    def start_block(self, node: Node, tag: int, child: Node | None) -> Node | None:
        if (self.pieces or self.alts) and not self.hidden:
            self.flush()
        self.block_tag = tag
        outer = self.element
        mark = NEUTRAL
        attributes = node.attributes
        if attributes:
            mark = mark_of_element(attributes)
            if self.unseen and node.mem_id in self.unseen:
                return self.hide(node, child)
        if child is not None:
            self.element = len(self.elements)
            self.elements.append((outer, mark, tag))
            self.ends.append((node, BlockWalker.end_block, outer))
        return child

    def start_section(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.block_tag = tag
        return self.open_region(node, child, default=SECTION)

    def start_away(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.block_tag = tag
        return self.open_region(node, child, AWAY)

    def start_caption(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.block_tag = tag
        return self.open_region(node, child, NEVER)

    def start_article(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.parts.begin_article()
        return self.start_block(node, tag, child)

    def end_block(self, outer: int) -> None:
        if (self.pieces or self.alts) and not self.hidden:
            self.flush()
        self.element = outer
        self.block_tag = 0

    def end_hidden(self, saved: tuple[int, int]) -> None:
        """Drop the collected text, except links that ended in it."""
        self.hidden -= 1
        del self.pieces[saved[0] :]
        self.link_size = saved[1]
        self.link_end = 0

    def start_item(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Start a list item. It ends at the next item or with the list."""
        if (self.pieces or self.alts) and not self.hidden:
            self.flush()
        self.block_tag = tag
        if self.unseen and node.mem_id in self.unseen:
            return self.hide(node, child)
        return child

    def start_heading(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.block_tag = tag
        if self.unseen and node.mem_id in self.unseen:
            return self.hide(node, child)
        if child is not None:
            self.ends.append((node, BlockWalker.end_heading, (len(self.lines), tag)))
        return child

    def end_heading(self, saved: tuple[int, int]) -> None:
        if self.hidden:
            return
        self.flush()
        self.block_tag = 0
        first, tag = saved
        self.parts.add_heading(" ".join(self.lines[first:]), tag == _H1)

    def start_span(self, node: Node, tag: int, child: Node | None) -> Node | None:
        return self.hide(node, child) if node.mem_id in self.unseen else child

    def start_br(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.pieces.append(BREAK)
        return None

    def start_cell(self, node: Node, tag: int, child: Node | None) -> Node | None:
        attributes = node.attributes
        mark = mark_of_element(attributes) if attributes else NEUTRAL
        if mark != NEUTRAL and not self.hidden:
            self.flush()
            if child is not None:
                self.ends.append((node, BlockWalker.end_block, self.element))
                self.element = len(self.elements)
                self.elements.append((self.ends[-1][2], mark, tag))
            self.pieces.append(CELL)
            return child
        self.pieces.append(CELL)
        if child is not None:
            self.ends.append((node, BlockWalker.end_cell, len(self.pieces)))
        return child

    def end_cell(self, first: int) -> None:
        """End a cell; one with much text is a separate block. Nearly all have one piece, and the
        space.
        """
        pieces = self.pieces
        pieces.append(" ")
        if not self.hidden and (
            len(pieces[first]) >= CELL_LENGTH
            if len(pieces) == first + 2
            else sum(map(len, pieces[first:])) > CELL_LENGTH
        ):
            self.flush()

    def skip(self, node: Node, tag: int, child: Node | None) -> Node | None:
        return None

    def start_hidden(self, node: Node, tag: int, child: Node | None) -> Node | None:
        return self.hide(node, child)

    def start_noscript(self, node: Node, tag: int, child: Node | None) -> Node | None:
        if self.shows_noscript:
            return self.start_block(node, tag, child)
        return self.hide(node, child)

    def start_listing(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Read a `pre` without links at once: highlighted code has many spans."""
        if self.hidden:
            return child
        self.flush()
        self.block_tag = tag
        if node.mem_id in self.linked:
            if child is not None:
                self.ends.append((node, BlockWalker.end_listing, None))
            return child
        self.pieces.append(VERBATIM + node.text().replace("\n", VERBATIM))
        self.flush()
        self.block_tag = 0
        return None

    def end_listing(self, saved: None) -> None:
        if self.hidden:
            return
        self.pieces[:] = [VERBATIM, *(piece.replace("\n", VERBATIM) for piece in self.pieces)]
        self.flush()
        self.block_tag = 0


def text_size(pieces: list[str]) -> int:
    """Return the number of characters in the pieces of a line."""
    return sum([len(piece) for piece in pieces if piece not in _MARKS])
