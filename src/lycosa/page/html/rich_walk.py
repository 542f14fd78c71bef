"""The walk of `lycosa.page.html.walk`, which also records markup: what Markdown is made from.

Blocks are those of the plain walk, so that the main text is selected alike. Inline markup is
recorded as empty strings among the pieces of a line (`Markup`), which change no text. Each block
knows the lists, quotes and table cells around it (`Container`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lycosa.page.html.blocks import BlockWalker, MarkedNodes
from lycosa.page.html.tree import TAG, TEXT, Node
from lycosa.page.html.walk import STARTS, PageWalker

LIST, ORDERED, ITEM, QUOTE, TABLE, ROW, CELL_OF_ROW, DEFINITION = (
    "list",
    "ordered list",
    "item",
    "quote",
    "table",
    "row",
    "cell",
    "definition",
)
"""Kinds of containers."""

LINK, IMAGE, STRONG, EMPHASIS, CODE, DELETED, CHECKBOX, MATH, FOOTNOTE = (
    "link",
    "image",
    "strong",
    "emphasis",
    "code",
    "deleted",
    "checkbox",
    "math",
    "footnote",
)
"""Kinds of markup."""

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
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|highlight-source|brush)[-:] ?([\w+#.-]+)")
_NO_LANGUAGES: Final = frozenset({"default", "none", "text", "plaintext", "notranslate", "source"})
_MAX_LEVELS = 4  # elements around a listing that are searched for its language


class Markup(str):
    """The begin or end of inline markup: an empty piece of a line."""

    __slots__ = ("begins", "kind", "text", "url")

    kind: str
    begins: bool
    url: str  # of a link or image
    text: str  # of an image or formula, "x" for a checked box, the number of a footnote

    @classmethod
    def make(cls, kind: str, begins: bool, url: str = "", text: str = "") -> Markup:
        markup = cls()
        markup.kind, markup.begins, markup.url, markup.text = kind, begins, url, text
        return markup


@dataclass(slots=True, eq=False)
class Container:
    """A list, item, quote or part of a table; `number`: of an item or cell, from 1 or `start`."""

    kind: str
    around: Container | None
    number: int = 1
    is_header: bool = False
    count: int = 0  # of its items, rows or cells so far


@dataclass(slots=True, frozen=True)
class RichBlock:
    """A block with its markup. `listing`: the text of a `pre` as it is, and its language."""

    container: Container | None
    pieces: tuple[str, ...]
    listing: tuple[str, str] | None = None


@dataclass(slots=True)
class RichBlocks:
    """`by_number`: of the blocks of the page. `images`: (number of the following block, block)."""

    by_number: dict[int, RichBlock] = field(default_factory=dict)
    images: list[tuple[int, RichBlock]] = field(default_factory=list)
    base: str | None = None


class RichWalker(PageWalker):
    """Records markup and containers besides what `PageWalker` collects."""

    __slots__ = ("container", "listing", "rich")

    def __init__(self, marked: MarkedNodes) -> None:
        super().__init__(marked)
        self.container: Container | None = None
        self.listing: tuple[str, str] | None = None
        self.rich = RichBlocks()

    def flush(self) -> None:
        pieces, number = tuple(self.pieces), len(self.blocks)
        super().flush()
        block = RichBlock(self.container, pieces, self.listing)
        if len(self.blocks) > number:
            self.rich.by_number[number] = block
        elif any(type(piece) is Markup and piece.kind == IMAGE for piece in pieces):
            self.rich.images.append((number, block))

    def start_inline(self, node: Node, tag: int, child: Node | None) -> Node | None:
        if child is not None:
            kind = _KIND_OF_TAG[tag]
            self.pieces.append(Markup.make(kind, True))
            self.ends.append((node, RichWalker.end_inline, kind))
        return child

    def end_inline(self, kind: str) -> None:
        self.pieces.append(Markup.make(kind, False))

    def start_link(self, node: Node, tag: int, child: Node | None) -> Node | None:
        attributes = node.attributes
        href = attributes.get("href")
        if href is None or child is None:
            return super().start_link(node, tag, child)
        saved = self.open_link(attributes)
        self.pieces.append(Markup.make(LINK, True, href))
        self.ends.append((node, RichWalker.end_rich_link, saved))
        return child

    def end_rich_link(self, saved: Any) -> None:
        self.end_link(saved)
        self.pieces.append(Markup.make(LINK, False))

    def start_image(self, node: Node, tag: int, child: Node | None) -> Node | None:
        attributes = node.attributes
        source = attributes.get("src") or attributes.get("data-src") or ""
        if source and not source.startswith("data:"):
            alt = " ".join((attributes.get("alt") or "").split())
            self.pieces.append(Markup.make(IMAGE, True, source, alt))
        return super().start_image(node, tag, child)

    def start_input(self, node: Node, tag: int, child: Node | None) -> Node | None:
        """A checkbox is text in a list of tasks only; others control the page."""
        attributes = node.attributes
        is_item = self.container is not None and self.container.kind == ITEM
        if is_item and (attributes.get("type") or "").lower() == "checkbox":
            checked = "x" if "checked" in attributes else " "
            self.pieces.append(Markup.make(CHECKBOX, True, "", checked))
        return None

    def start_math(self, node: Node, tag: int, child: Node | None) -> Node | None:
        annotation = node.css_first('annotation[encoding="application/x-tex"]')
        if annotation is None:
            return child
        self.pieces.append(Markup.make(MATH, True, "", annotation.text().strip()))
        return None

    def start_listing(self, node: Node, tag: int, child: Node | None) -> Node | None:
        self.break_line()
        self.listing = _verbatim(node), _language(node)
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
        """A list, quote or table, which ends with its element."""
        depth = len(self.ends)
        inner = super().start_block(node, tag, child)
        if len(self.ends) > depth and self.ends[-1][1] is BlockWalker.end_block:
            outer = self.ends.pop()[2]
            self.ends.append((node, RichWalker.end_container, (outer, self.container)))
            start = node.attributes.get("start") or ""
            kind = _CONTAINERS[tag]
            self.container = Container(kind, self.container)
            if tag == _OL and start.isdecimal() and start.isascii():
                self.container.count = min(int(start), 10**9) - 1
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
        self._enter(CELL_OF_ROW, (ROW,), is_header=tag == _TH)
        return inner

    def _enter(self, kind: str, outer_kinds: tuple[str, ...], is_header: bool = False) -> None:
        """Begin the next part of the innermost container of some kinds."""
        outer = self.container
        while outer is not None and outer.kind not in outer_kinds:
            outer = outer.around
        if outer is not None:
            outer.count += 1
            self.container = Container(kind, outer, outer.count, is_header)


def _verbatim(node: Node) -> str:
    """Return the text of a listing as it is, with a newline for each line break."""
    if node.css_first("br") is None:
        return node.text()
    return "".join(
        "\n" if each.tag_id == _BR else each.text_content or ""
        for each in node.traverse(include_text=True)
        if each.tag_id in (_BR, TEXT)
    )


def _language(node: Node) -> str:
    """Return the language that a listing or an element around it declares; "" if none does."""
    around: Node | None = node.css_first("code[class]") or node
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


def rich_walk(root: Node, marked: MarkedNodes) -> RichWalker:
    """Walk over the tree. Slower than `walk`: only for Markdown. Never raises."""
    walker = RichWalker(marked)
    pieces, ends = walker.pieces, walker.ends
    starts = RICH_STARTS.get
    stack: list[Node] = []
    node: Node | None = root
    while node is not None:
        tag = node.tag_id
        child = None
        if tag == TEXT:
            if pieces or not node.is_empty_text_node:
                pieces.append(node.text_content or "")
        else:
            start = starts(tag)
            child = node.first_child
            if start is not None:
                child = start(walker, node, tag, child)
        if child is not None:
            stack.append(node)
            node = child
            continue
        following = node.next
        while following is None and stack:
            ended = stack.pop()
            while ends[-1][0] is ended:
                _, end, saved = ends.pop()
                end(walker, saved)
            following = ended.next
        node = following
    if not walker.hidden:
        walker.flush()
    return walker


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
    TAG["img"]: RichWalker.start_image,
    TAG["pre"]: RichWalker.start_listing,
    TAG["li"]: RichWalker.start_list_item,
    TAG["tr"]: RichWalker.start_row,
    TAG["td"]: RichWalker.start_table_cell,
    TAG["th"]: RichWalker.start_table_cell,
    TAG["input"]: RichWalker.start_input,
    TAG["math"]: RichWalker.start_math,
}
