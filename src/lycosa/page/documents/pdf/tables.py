"""Tables of a PDF: cells in columns, detected by their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lycosa.page.documents.pdf.lines import PdfLine, PdfWord

_SAME_PITCH = 1.2  # times the usual distance of lines: at most that within a cell
_MAX_DISTANCE = 4.0  # times the usual distance: between rows
_TOLERANCE = 1.0  # points by which columns may overlap
_MAX_CELL_CHARACTERS = (40, 120)  # a cell on average, of two columns and of more; else it is text
_MIN_FULL_SHARE = 0.5  # of the rows that have more than one cell

Cell = Sequence[PdfWord]


@dataclass(slots=True)
class _Row:
    """A row: its cells by column, how many lines it has, and its lowest baseline so far."""

    cells: dict[int, list[PdfWord]] = field(default_factory=dict)
    lowest: float = 0.0
    last: int = 0  # the column that was added last
    lines: int = 0

    def add(self, placed: Sequence[tuple[int, Cell]], baseline: float) -> None:
        """Add the cells of a line, which have their columns."""
        for column, cell in placed:
            self.cells.setdefault(column, []).extend(cell)
            self.last = column
        self.lowest = min(self.lowest, baseline)
        self.lines += 1


class PdfTable:
    """A table that begins with a line of several cells, and takes the lines that fit to it.

    Files have the cells of a row line by line, or cell by cell. `pitch`: the usual distance of
    lines.
    """

    def __init__(self, line: PdfLine, pitch: float) -> None:
        self._pitch = pitch
        self._page = line.page
        self._columns = [(cell[0].left, cell[-1].right) for cell in line.cells]
        self._rows: list[_Row] = []
        self._add(list(enumerate(line.cells)))

    def add(self, line: PdfLine) -> bool:
        """Add a line, if it fits."""
        lowest = self._rows[-1].lowest
        if line.page != self._page or lowest - line.baseline > _MAX_DISTANCE * self._pitch:
            return False
        if len(line.cells) > len(self._columns):
            return False
        columns = [self._column_of(cell) for cell in line.cells]
        if None in columns or len(set(columns)) < len(columns):
            return False
        placed = []
        for column, cell in zip(columns, line.cells, strict=True):
            assert column is not None
            placed.append((column, cell))
            left, right = self._columns[column]
            self._columns[column] = min(left, cell[0].left), max(right, cell[-1].right)
        self._add(placed)
        return True

    def rows(self) -> tuple[list[dict[int, list[PdfWord]]], int]:
        """Return the rows (cells by column from 0) and their number of lines; none if it looks like
        text in columns.

        Final rows of one cell are omitted: they follow the table.
        """
        rows = list(self._rows)
        while rows and len(rows[-1].cells) < 2:
            rows.pop()
        cells = [cell for row in rows for cell in row.cells.values()]
        characters = sum(len(word.text) + 1 for cell in cells for word in cell)
        limit = _MAX_CELL_CHARACTERS[len(self._columns) > 2]
        full = sum(len(row.cells) > 1 for row in rows)
        if len(rows) < 2 or full < _MIN_FULL_SHARE * len(rows) or characters > limit * len(cells):
            return [], 0
        return [row.cells for row in rows], sum(row.lines for row in rows)

    def _column_of(self, cell: Cell) -> int | None:
        """Return the only column that a cell overlaps; None: none or several."""
        left, right = cell[0].left, cell[-1].right
        columns = [
            number
            for number, (begin, end) in enumerate(self._columns)
            if left < end - _TOLERANCE and begin + _TOLERANCE < right
        ]
        return columns[0] if len(columns) == 1 else None

    def _add(self, placed: Sequence[tuple[int, Cell]]) -> None:
        baseline = placed[0][1][0].baseline
        if not self._rows or not self._continues(placed, baseline):
            self._rows.append(_Row(lowest=baseline))
        self._rows[-1].add(placed, baseline)

    def _continues(self, placed: Sequence[tuple[int, Cell]], baseline: float) -> bool:
        """Return whether cells belong to the last row: next to it, or more lines of its cells."""
        row = self._rows[-1]
        if baseline >= row.lowest - self._pitch / 4:
            return placed[0][0] > row.last or placed[0][0] not in row.cells
        is_near = row.lowest - baseline <= _SAME_PITCH * self._pitch
        if len(placed) == 1 and placed[0][0] == row.last:
            return is_near
        is_part = len(placed) < len(row.cells) and all(column in row.cells for column, _ in placed)
        return is_near and is_part
