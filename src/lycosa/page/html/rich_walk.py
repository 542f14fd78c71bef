"""The walk of `lycosa.page.html.walk`, which also records the markup for Markdown.

Blocks are those of the plain walk, so that the same main text is selected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lycosa.page.html.blocks import BlockWalker, MarkedNodes
from lycosa.page.html.head import lazy_source
from lycosa.page.html.lines import BREAK
from lycosa.page.html.markup import (
    BEGINS,
    CELL_OF_ROW,
    CHECKBOX,
    CODE,
    DELETED,
    EMPHASIS,
    ENDS,
    IMAGE,
    ITEM,
    LINK,
    LIST,
    MATH,
    ORDERED,
    QUOTE,
    ROW,
    STRONG,
    TABLE,
    Container,
    MarkedBlocks,
    Markup,
)
from lycosa.page.html.tree import TAG, TEXT, Node
from lycosa.page.html.walk import STARTS, PageWalker, visit
from lycosa.page.page_parts import PageParts

_INLINE = {
    "strong": STRONG,
    "b": STRONG,
    "em": EMPHASIS,
    "i": EMPHASIS,
    "code": CODE,
    "kbd": CODE,
    "samp": CODE,
    "tt": CODE,
    "del": DELETED,
    "s": DELETED,
}
_KIND_OF_TAG = {TAG[name]: kind for name, kind in _INLINE.items()}
_OL, _TH, _BR = TAG["ol"], TAG["th"], TAG["br"]
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight-source|highlight|brush)[-:] ?([\w+#.-]+)")
_NO_LANGUAGES: Final = frozenset({"default", "none", "text", "plaintext", "notranslate", "source"})
_MAX_CONTAINERS = 32  # inside of each other; deeper lists, quotes and tables are flattened
_MAX_LEVELS = 4  # elements around a listing that are searched for its language


class RichWalker(PageWalker):
    """Records markup and containers besides what `PageWalker` collects."""

    __slots__ = ("blank", "container", "has_markup", "listing", "marked")

    def __init__(self, marked: MarkedNodes) -> None:
        super().__init__(marked)
        self.container: Container | None = None
        self.has_markup = False  # among the pieces
        self.blank = 0  # pieces known to be markup, at the beginning of the line; -1: it has text
        self.listing: Node | None = None  # the `pre` around
        self.parts.marked = self.marked = MarkedBlocks()

    def flush(self) -> None:
        pieces = tuple(self.pieces) if self.has_markup else ()
        self.has_markup = False
        self.blank = 0
        super().flush()
        marked = self.marked
        block = self.container, pieces, self.listing
        if len(self.blocks) > len(marked.blocks):
            marked.blocks.append(block)
        elif any(type(piece) is Markup and piece.kind == IMAGE for piece in pieces):
            marked.images.append((len(marked.blocks), block))

    def start_inline(self, node: Node, tag: int, child: Node | None) -> Node | None:
        if child is None:
            return None
        kind = _KIND_OF_TAG[tag]
        self.has_markup = True
        if child.tag_id == TEXT and child.next is None:
            self.pieces += (BEGINS[kind], child.text_content or "", ENDS[kind])
            return None
        self.pieces.append(BEGINS[kind])
        self.ends.append((node, RichWalker.end_inline, kind))
        return child

    def end_inline(self, kind: str) -> None:
        self.has_markup = True
        self.pieces.append(ENDS[kind])

    def start_link(self, node: Node, tag: int, child: Node | None) -> Node | None:
        attributes = node.attributes
        href = attributes.get("href")
        if href is None or child is None:
            return super().start_link(node, tag, child)
        is_adjacent = self.link_end > 0 and self.link_end == self._text_end()
        self.mark(Markup.make(LINK, True, href))
        self.link_end = len(self.pieces) if is_adjacent else 0
        if child.tag_id == TEXT and child.next is None:
            is_empty = child.is_empty_text_node and self._drop_blanks()
            self.read_simple_link(attributes, None if is_empty else child)
            self.pieces.append(ENDS[LINK])
            return None
        self.ends.append((node, RichWalker.end_rich_link, self.open_link(attributes)))
        return child

    def end_rich_link(self, saved: Any) -> None:
        self._drop_blanks()
        self.end_link(saved)
        if self.link_end:
            self.link_end = self._text_end()
        self.mark(ENDS[LINK])

    def _drop_blanks(self) -> bool:
        """Remove white space from a line without text, as the plain walk does; return whether it
        is such a line.
        """
        pieces, blank = self.pieces, self.blank
        if blank >= 0:
            added = pieces[blank:]
            if any(map(str.strip, added)):
                self.blank = -1
            else:
                pieces[blank:] = [piece for piece in added if type(piece) is Markup]
                self.blank = len(pieces)
        return self.blank >= 0

    def _text_end(self) -> int:
        """Return the number of pieces without the markup behind them."""
        end = len(self.pieces)
        while end and type(self.pieces[end - 1]) is Markup:
            end -= 1
        return end

    def start_image(self, node: Node, tag: int, child: Node | None) -> Node | None:
        attributes = node.attributes
        source = attributes.get("src") or ""
        if not source or source[:5] == "data:":
            source = lazy_source(attributes)
        if source:
            alt = " ".join((attributes.get("alt") or "").split())
            self.mark(Markup.make(IMAGE, True, source, alt))
        return super().start_image(node, tag, child)

    def mark(self, piece: str) -> None:
        """Add markup to the current line."""
        self.has_markup = True
        self.pieces.append(piece)

    def start_br(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Begin a paragraph after two breaks, which the lines of the text do not show."""
        self.mark(BREAK)
        return None

    def start_input(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Write a checkbox as text in a list of tasks only; others control the page."""
        attributes = node.attributes
        is_item = self.container is not None and self.container.kind == ITEM
        if is_item and (attributes.get("type") or "").lower() == "checkbox":
            checked = "x" if "checked" in attributes else " "
            self.mark(Markup.make(CHECKBOX, True, "", checked))
        return None

    def start_math(self, node: Node, tag: int, child: Node | None) -> Node | None:
        source = node.css_first('annotation[encoding="application/x-tex"]')
        if source is None:
            return super().start_math(node, tag, child)
        self.mark(Markup.make(MATH, True, "", source.text().strip()))
        super().start_math(node, tag, child)
        self.pieces.append(ENDS[MATH])
        return None

    def start_listing(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.listing = node
        inner = super().start_listing(node, tag, child)
        if inner is None:
            self.listing = None
        elif self.ends[-1][1] is BlockWalker.end_listing:
            self.ends[-1] = node, RichWalker.end_listing, None
        return inner

    def end_listing(self, saved: None) -> None:
        super().end_listing(saved)
        self.listing = None

    def start_container(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """Start a list, quote or table, which ends with its element."""
        depth = len(self.ends)
        inner = super().start_block(node, tag, child)
        if len(self.ends) > depth and self.ends[-1][1] is BlockWalker.end_block:
            outer = self.ends.pop()[2]
            self.ends.append((node, RichWalker.end_container, (outer, self.container)))
            start = (node.attributes.get("start") or "") if tag == _OL else ""
            before = min(int(start), 10**9) - 1 if start.isdecimal() and start.isascii() else 0
            around = self.container
            if around is None or around.depth < _MAX_CONTAINERS:
                depth = 0 if around is None else around.depth + 1
                self.container = Container(_CONTAINERS[tag], around, count=before, depth=depth)
        return inner

    def end_container(self, saved: tuple[int, Container | None]) -> None:
        self.end_block(saved[0])
        self.container = saved[1]

    def start_list_item(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self._enter(ITEM, (LIST, ORDERED))
        return self.start_item(node, tag, child)

    def start_row(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self._enter(ROW, (TABLE,))
        return self.start_item(node, tag, child)

    def start_table_cell(self, node: Node, tag: int, child: Node | None) -> Node | None:
        inner = self.start_cell(node, tag, child)
        self.has_markup = True
        row = self._around((ROW,))
        if row is not None and row.around is not None:
            columns, rows = (_span(node.attributes.get(name)) for name in ("colspan", "rowspan"))
            self.container = row.part(CELL_OF_ROW, is_header=tag == _TH)
            row.widen(columns, rows)
        return inner

    def _enter(self, kind: str, outer_kinds: tuple[str, ...]) -> None:
        """Begin the next part of the innermost container of some kinds."""
        outer = self._around(outer_kinds)
        if outer is not None:
            self.container = outer.part(kind)

    def _around(self, kinds: tuple[str, ...]) -> Container | None:
        """Return the innermost container of some kinds."""
        outer = self.container
        while outer is not None and outer.kind not in kinds:
            outer = outer.around
        return outer


def _span(text: str | None) -> int:
    """Return the value of a `colspan` or `rowspan`."""
    text = (text or "").strip()
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else 1


def listing_text(node: Node) -> tuple[str, str]:
    """Return the text of a `pre` as it is, with a newline for each line break, and its language."""
    if node.css_first("br") is None:
        return node.text(), _language(node)
    text = "".join(
        "\n" if each.tag_id == _BR else each.text_content or ""
        for each in node.traverse(include_text=True)
        if each.tag_id in (_BR, TEXT)
    )
    return text, _language(node)


def _language(node: Node) -> str:
    """Return the language that a listing or an element around it declares; "" if none does."""
    around: Node | None = node.css_first("code") or node
    for _ in range(_MAX_LEVELS):
        if around is None:
            break
        attributes = around.attributes
        declared = attributes.get("data-lang") or attributes.get("data-language") or ""
        match = _LANGUAGE.search(attributes.get("class") or "")
        name = declared or (match[1] if match else "")
        if name:
            return "" if name in _NO_LANGUAGES else name
        around = around.parent
    return ""


def rich_walk(root: Node, marked: MarkedNodes) -> PageParts:
    """Walk over the tree; the parts have `marked` blocks. Slower than `walk`. Never raises."""
    return visit(root, RichWalker(marked), RICH_STARTS if marked.hidden else _NOTHING_HIDDEN)


_CONTAINERS = {
    TAG["ul"]: LIST,
    TAG["menu"]: LIST,
    TAG["dir"]: LIST,
    TAG["ol"]: ORDERED,
    TAG["blockquote"]: QUOTE,
    TAG["table"]: TABLE,
}
_Start = Callable[[Any, Node, int, Node | None], Node | None]
RICH_STARTS: Mapping[int, _Start] = {
    **STARTS,
    **dict.fromkeys(_KIND_OF_TAG, RichWalker.start_inline),
    **dict.fromkeys(_CONTAINERS, RichWalker.start_container),
    TAG["a"]: RichWalker.start_link,
    TAG["br"]: RichWalker.start_br,
    TAG["img"]: RichWalker.start_image,
    TAG["pre"]: RichWalker.start_listing,
    TAG["li"]: RichWalker.start_list_item,
    TAG["tr"]: RichWalker.start_row,
    TAG["td"]: RichWalker.start_table_cell,
    TAG["th"]: RichWalker.start_table_cell,
    TAG["input"]: RichWalker.start_input,
    TAG["math"]: RichWalker.start_math,
}
_NOTHING_HIDDEN = {
    tag: start for tag, start in RICH_STARTS.items() if start is not PageWalker.start_span
}
