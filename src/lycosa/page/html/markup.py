"""Markup, lists and tables of a page or document: the input of Markdown besides text.

Inline markup is recorded as empty strings among the pieces of a line (`Markup`), which change no
text. Each block refers to the lists, quotes and table cells around it (`Container`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lycosa.page.html.tree import Node

LIST, ORDERED, ITEM, QUOTE, TABLE, ROW, CELL_OF_ROW = (
    "list",
    "ordered list",
    "item",
    "quote",
    "table",
    "row",
    "cell",
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

MAX_SPAN = 100  # columns of a cell, and columns that a cell may cover in the rows below


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


BEGINS = {kind: Markup.make(kind, True) for kind in (STRONG, EMPHASIS, CODE, DELETED)}
ENDS = {kind: Markup.make(kind, False) for kind in (*BEGINS, LINK, MATH)}


@dataclass(slots=True, eq=False)
class Container:
    """A list, item, quote or part of a table; `number`: of an item or cell, from 1 or `start`.
    `depth`: how many are around it. `columns`: of a row, those of its cells. `covered`: of a table,
    the last row of the cell above that spans a column, by column.
    """

    kind: str
    around: Container | None
    number: int = 1
    is_header: bool = False
    count: int = 0  # of its items, rows or columns so far
    depth: int = 0
    columns: list[int] = field(default_factory=list)
    covered: dict[int, int] = field(default_factory=dict)

    def part(self, kind: str, *, is_header: bool = False) -> Container:
        """Begin the next item, row or cell. A cell is in the next column that is not covered."""
        self.count += 1
        if kind == CELL_OF_ROW:
            covered = self.around.covered if self.around is not None else {}
            while covered and covered.get(self.count, 0) >= self.number:
                self.count += 1
            self.columns.append(self.count)
        return Container(kind, self, self.count, is_header, depth=self.depth + 1)

    def widen(self, columns: int, rows: int) -> None:
        """Set the number of columns and rows of the last cell of this row; no rows mean all."""
        first = self.count
        self.count += min(max(columns, 1), MAX_SPAN) - 1
        if rows != 1 and self.around is not None:
            last = self.number + rows - 1 if rows else sys.maxsize
            for column in range(first, min(self.count, MAX_SPAN) + 1):
                self.around.covered[column] = last


class RichBlock(NamedTuple):
    """A block to be written. `listing`: a text to be shown as it is, and its language. `level`: of
    a heading, or 0.
    """

    container: Container | None
    pieces: Sequence[str]
    listing: tuple[str, str] | None = None
    level: int = 0


MarkedBlock = tuple[Container | None, tuple[str, ...], Node | None]
"""The markup of a block: the container around it, its pieces (none if its lines have no
markup), the `pre` element that it is in. Tuples instead of records, because a page has hundreds.
"""


@dataclass(slots=True)
class MarkedBlocks:
    """`blocks`: one for each block of the page. `images`: (number of the following block, image)
    outside of them.
    """

    blocks: list[MarkedBlock] = field(default_factory=list)
    images: list[tuple[int, MarkedBlock]] = field(default_factory=list)
