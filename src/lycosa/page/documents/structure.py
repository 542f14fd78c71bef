"""Markup, lists and tables of documents, as the blocks that Markdown is made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from lycosa.page.html.markup import (
    CELL_OF_ROW,
    CODE,
    DELETED,
    EMPHASIS,
    ITEM,
    LINK,
    LIST,
    ORDERED,
    ROW,
    STRONG,
    TABLE,
    Container,
    Markup,
    RichBlock,
)

MAX_LISTS = MAX_TABLES = 9  # inside of each other
_MAX_NUMBERED = 1_000  # lists with remembered item numbers
_NESTING = (LINK, STRONG, EMPHASIS, DELETED, CODE)  # outermost first


class Run(NamedTuple):
    """Characters with the same markup. `text` is `BREAK` for a line break."""

    text: str
    marks: frozenset[str] = frozenset()
    link: str = ""


def pieces_of(runs: Iterable[Run], kinds: Sequence[str] = _NESTING) -> list[str]:
    """Return the pieces of a block: texts, and where markup of these kinds begins and ends."""
    if not kinds:
        return [run.text for run in runs]
    kind, *inner = kinds
    pieces: list[str] = []
    for mark, group in groupby(runs, lambda run: run.link if kind == LINK else kind in run.marks):
        inside = pieces_of(group, inner)
        if not mark:
            pieces += inside
            continue
        pieces.append(Markup.make(kind, True, mark if isinstance(mark, str) else ""))
        pieces += inside
        pieces.append(Markup.make(kind, False))
    return pieces


class ListLevel(NamedTuple):
    """How the items of a level of a list are numbered."""

    ordered: bool = False
    start: int = 1


class ListPlace(NamedTuple):
    """The place of a paragraph in a list: the list's key and the level, from 0."""

    key: str
    level: int
    format: ListLevel


class Lists:
    """The lists that are open, outermost first, and the number of each list's last item."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str, Container, Container]] = []  # level, key, list, item
        self._numbers: dict[tuple[str, int], int] = {}

    def item(self, place: ListPlace, around: Container | None) -> Container:
        """Begin an item, and end those that it does not belong to.

        An item of a higher level is inside of the item before it; items of another list at the same
        level begin a new one. `around`: the container of the outermost list.
        """
        key, level = place.key, min(place.level, MAX_LISTS)
        while self._open and (
            self._open[-1][0] > level or (self._open[-1][0] == level and self._open[-1][1] != key)
        ):
            self._open.pop()
        if self._open and self._open[-1][0] == level:
            outer = self._open.pop()[2]
        else:
            kind = ORDERED if place.format.ordered else LIST
            outer = Container(kind, self._open[-1][3] if self._open else around)
        if len(self._numbers) > _MAX_NUMBERED:
            self._numbers.clear()
        for counted in [each for each in self._numbers if each[0] == key and each[1] > level]:
            del self._numbers[counted]
        number = self._numbers.get((key, level), place.format.start - 1) + 1
        self._numbers[key, level] = number
        item = Container(ITEM, outer, number)
        self._open.append((level, key, outer, item))
        return item

    def forget(self) -> None:
        """End all lists; later ones are numbered from their beginning."""
        self._open.clear()
        self._numbers.clear()

    def end(self) -> None:
        """End all lists: the following blocks are no items."""
        self._open.clear()


class Tables:
    """The tables that are open, outermost first: of each the table, its row and its cell."""

    def __init__(self) -> None:
        self._open: list[tuple[Container, Container | None, Container | None]] = []
        self._headed: set[Container] = set()  # rows that are headers, and tables that have one

    @property
    def cell(self) -> Container | None:
        """The innermost open cell."""
        return self._open[-1][2] if self._open else None

    def start_table(self) -> None:
        if len(self._open) < MAX_TABLES:
            self._open.append((Container(TABLE, self.cell), None, None))
        else:  # its rows are those of the table around it
            self._open.append(self._open[-1])

    def end_table(self) -> None:
        if self._open:
            self._open.pop()

    def start_row(self) -> None:
        if self._open:
            table, _, _ = self._open[-1]
            self._open[-1] = table, table.part(ROW), None

    def set_header(self) -> None:
        """Mark the open row, or else the first one, as a header."""
        if self._open:
            table, row, _ = self._open[-1]
            self._headed.add(row or table)

    def start_cell(self) -> None:
        if not self._open or self._open[-1][1] is None:
            return
        table, row, _ = self._open[-1]
        assert row is not None
        is_header = row in self._headed or (row.number == 1 and table in self._headed)
        self._open[-1] = table, row, row.part(CELL_OF_ROW, is_header=is_header)

    def widen_cell(self, columns: int) -> None:
        """Set the number of columns of the open cell."""
        if self._open and self._open[-1][1] is not None and 1 < columns < 100:
            self._open[-1][1].count += columns - 1

    def end_cell(self) -> None:
        if self._open:
            table, row, _ = self._open[-1]
            self._open[-1] = table, row, None


def text_block(text: str, *, level: int = 0, container: Container | None = None) -> RichBlock:
    """Return a text without markup as a paragraph, or as a heading of a level."""
    return RichBlock(container, (text,), None, level)


def new_table() -> Container:
    """Return a table for `row_blocks`."""
    return Container(TABLE, None)


def row_blocks(cells: Iterable[tuple[int, str]], table: Container) -> list[RichBlock]:
    """Return the next row of a table, its first row as header. `cells`: columns from 1, texts."""
    row = table.part(ROW)
    return [
        text_block(text, container=Container(CELL_OF_ROW, row, column, row.number == 1))
        for column, text in cells
    ]
