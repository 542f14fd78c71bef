"""Merge the rows of many table files in key order, with bounded memory.

Every file is sorted by (partition, host_key, url_key). A block of rows of each source is in memory;
rows below the lowest key that can still follow are returned. A source is opened when the others
reach its first key, so files with consecutive key ranges cost as much as one. A block is a whole
row group if memory permits, so that groups are decompressed once. Hot path (bench/tables.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.store.compaction.plan import base_place
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import (
    ENTRY,
    GROUP_BYTES,
    PASSING_GROUP_BYTES,
    group_rows_of,
    scan_file,
)
from lycosa.store.tables.schema import SORT, Table

_MIN_ROWS = 16  # per block
_UNPACKED = 6  # estimated bytes in memory per byte of a file, before the first block is read
_PORTION_BYTES = 4 * 2**20  # rows that are sorted together; sorting needs three copies

_Key = tuple[int, int, int]  # of `SORT`


@dataclass(slots=True, frozen=True)
class SortedFiles:
    """Rows in key order: files with consecutive key ranges, filtered by `only`."""

    files: tuple[DataFile, ...]
    only: pl.Expr | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def in_key_order(
    storage: Storage,
    table: Table,
    sources: Sequence[SortedFiles],
    memory_bytes: int,
    columns: Sequence[str | pl.Expr] | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield all rows of the sources by key, rows of one key in the order of the sources.

    Rows of one key are in one frame. The last column is `entry`. `columns` must include `SORT`;
    without them, rows are as stored, for another file.
    About `memory_bytes` of rows are held, 50 % more if very many sources overlap; a key with more
    rows is held completely.
    """
    storage.files.prefetch([file for source in sources for file in source.files])
    cursors = [_Cursor(storage, table, source, columns) for source in sources if source.rows]
    while cursors:
        cut = _read_on(cursors, memory_bytes)
        yield from _below(cursors, cut)
        cursors = [cursor for cursor in cursors if cursor.more or cursor.rows.height]


def _read_on(cursors: Sequence[_Cursor], memory_bytes: int) -> _Key | None:
    """Read at least one block of the source with the lowest bound, and more if memory permits.
    Return the lowest key that can still follow, or None.
    """
    waiting = [cursor for cursor in cursors if cursor.more]
    held = sum(cursor.bytes for cursor in cursors)
    read = False
    while waiting:
        cursor = min(waiting, key=lambda cursor: cursor.bound)
        opened = sum(bool(each.rows.height) for each in cursors)
        allowed = max(memory_bytes - held, memory_bytes // (2 * opened + 2))
        if read and cursor.group_bytes() > memory_bytes - held:
            return cursor.bound
        held -= cursor.bytes
        cursor.read(allowed)
        held += cursor.bytes
        read = True
        if not cursor.more:
            waiting.remove(cursor)
    return None


def _below(cursors: Sequence[_Cursor], cut: _Key | None) -> Iterator[pl.DataFrame]:
    """Yield the rows with lower keys that were read, in portions."""
    counts = [cursor.rows.height if cut is None else cursor.below(cut) for cursor in cursors]
    portions = (
        1
        + int(sum(count * cursor.row_bytes for count, cursor in zip(counts, cursors, strict=True)))
        // _PORTION_BYTES
    )
    most, largest = max(zip(counts, cursors, strict=True), key=lambda each: each[0])
    keys = [largest.key(most * number // portions) for number in range(1, portions)] if most else []
    for end in [*keys, cut]:
        parts = [
            cursor.take(cursor.rows.height if end is None else cursor.below(end))
            for cursor in cursors
        ]
        parts = [part for part in parts if part.height]
        if parts:
            yield parts[0] if len(parts) == 1 else pl.concat(parts).sort(SORT, maintain_order=True)


class _Cursor:
    """The position in a source: rows that were read but not returned, whether `more` follow, and
    their lowest key.
    """

    def __init__(
        self,
        storage: Storage,
        table: Table,
        source: SortedFiles,
        columns: Sequence[str | pl.Expr] | None,
    ) -> None:
        self._storage, self._table, self._columns, self._only = storage, table, columns, source.only
        self._files = [file for file in source.files if file.rows]
        self._file = self._offset = 0
        self._scan: pl.LazyFrame | None = None
        self._group = 0  # rows of the current file's row groups
        self._keys: list[npt.NDArray[np.generic]] = []  # of `rows`
        self._first = 0  # of `_keys`: earlier ones were returned
        self.row_bytes = _UNPACKED * sum(file.bytes for file in self._files) / max(1, source.rows)
        self.rows = pl.DataFrame()
        self.more = bool(self._files)
        self.bound: _Key = self._open()

    @property
    def bytes(self) -> int:
        """The estimated size of `rows`."""
        return int(self.rows.height * self.row_bytes)

    def group_bytes(self) -> int:
        """Return the estimated size of the next row group."""
        return int(self._group * self.row_bytes)

    def read(self, allowed_bytes: int) -> None:
        """Read one block: a row group, or an allowed part of it."""
        assert self._scan is not None
        file = self._files[self._file]
        pieces = max(1, round(self.group_bytes() / max(1, allowed_bytes)))
        step = max(_MIN_ROWS, -(-self._group // pieces))
        # a slice never spans two groups
        step = min(step, self._group - self._offset % self._group, file.rows - self._offset)
        block = self._scan.slice(self._offset, step).collect()
        self._offset += step
        if block.height:
            self.row_bytes = max(1.0, block.estimated_size() / block.height)
            self.bound = _key(_keys(block), block.height - 1)
        if self._only is not None:
            block = block.filter(self._only)
        if block.height:
            self.rows = pl.concat([self.rows, block], rechunk=False) if self.rows.height else block
            self._keys, self._first = _keys(self.rows), 0
        if self._offset >= file.rows:
            self._file, self._offset = self._file + 1, 0
            self.more = self._file < len(self._files)
            self._scan = None
            if self.more:
                self.bound = max(self.bound, self._open())

    def key(self, place: int) -> _Key:
        """Return the key of a row in `rows`."""
        return _key(self._keys, self._first + place)

    def below(self, cut: _Key) -> int:
        """Return the number of rows in `rows` with a lower key."""
        return bisect_left(range(self.rows.height), cut, key=self.key)

    def take(self, count: int) -> pl.DataFrame:
        """Remove and return the first rows."""
        part, self.rows = self.rows[:count], self.rows[count:]
        self._first += count
        return part

    def _open(self) -> _Key:
        """Open the next file; return its first key."""
        if not self.more:
            return (0, 0, 0)
        file = self._files[self._file]
        as_stored = self._columns is None
        rows = scan_file(self._storage, self._table, file, as_stored=as_stored)
        self._scan = rows if self._columns is None else rows.select(*self._columns, ENTRY)
        max_bytes = GROUP_BYTES if base_place(file.path) else PASSING_GROUP_BYTES
        self._group = group_rows_of(self._storage, file)
        self.row_bytes = min(self.row_bytes, max_bytes / self._group)
        return _key(_keys(rows.select(SORT).slice(0, 1).collect()), 0)


def _keys(rows: pl.DataFrame) -> list[npt.NDArray[np.generic]]:
    return [rows.get_column(name).to_numpy() for name in SORT]


def _key(keys: Sequence[npt.NDArray[np.generic]], place: int) -> _Key:
    partition, host_key, url_key = (int(column[place]) for column in keys)
    return partition, host_key, url_key
