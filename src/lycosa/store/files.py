"""Table files, read in key order with bounded memory, and written as they come.

Every file is sorted by (partition, host_key, url_key), so many of them are merged by blocks: of each file a block of rows is in
memory, and what lies below the lowest end of all blocks can be handed on. Hot path of every merge, guarded by bench/store.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import polars as pl
from polars.io.plugins import register_io_source

from lycosa.store.local_storage import Wanted
from lycosa.store.schema import SORT, Table
from lycosa.store.state import LiveFile
from lycosa.store.storage import Storage
from lycosa.store.tables import GROUP_BYTES, group_rows, polars_schema

ENTRY = "entry"
_FEWEST_ROWS = 16  # of a block: less only costs time
_UNPACKED = 6  # bytes in memory for one in a file, about; only for the first block of each file
_LEVEL = 3  # zstd; urls: 5 % smaller than level 1 and 5 % slower to write


def scan_file(storage: Storage, table: Table, file: LiveFile) -> pl.LazyFrame:
    """One file's rows and, in a last column `entry`, the entry that each came with. Columns that it is too old to have are null."""
    schema = polars_schema(table)
    rows = pl.scan_parquet(
        storage.local(file.path, file.bytes, file.digest),
        schema=schema | {ENTRY: pl.Int64()} if file.merged else schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        hive_partitioning=False,
    )
    return rows if file.merged else rows.with_columns(pl.lit(file.entry, dtype=pl.Int64).alias(ENTRY))


@dataclass(slots=True, frozen=True)
class Source:
    """Rows in key order: one file, or several whose key ranges follow each other. `only` filters them."""

    files: tuple[LiveFile, ...]
    only: pl.Expr | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def in_key_order(
    storage: Storage, table: Table, sources: Sequence[Source], memory_bytes: int, columns: Sequence[str] | None = None
) -> Iterator[pl.DataFrame]:
    """All rows of the sources by key, rows of one key in the order of the sources; what shares a key comes in one frame.

    With `entry` as last column. `columns` must hold those of `SORT`. About `memory_bytes` of rows are held, however large the
    sources are; a key with more rows than that is held whole.
    """
    storage.bring([Wanted(file.path, file.bytes, file.digest) for source in sources for file in source.files])
    # A block that is a part of a row group costs unpacking the whole group: with these shares the least is unpacked in all.
    shares = [sqrt(source.rows * min(source.rows, table.group_rows)) for source in sources]
    cursors = [
        _Cursor(storage, table, source, int(memory_bytes * share / max(1.0, sum(shares))), columns)
        for source, share in zip(sources, shares, strict=True)
    ]
    while cursors:
        for cursor in cursors:
            cursor.fill()
        cursors = [cursor for cursor in cursors if cursor.rows.height]
        waiting = [(cursor.last(), cursor) for cursor in cursors if cursor.more]
        if not waiting:
            parts = [cursor.take(cursor.rows.height) for cursor in cursors]
        else:
            cut = min(last for last, _ in waiting)
            parts = [cursor.take(cursor.below(cut)) for cursor in cursors]
        parts = [part for part in parts if part.height]
        if parts:
            yield parts[0] if len(parts) == 1 else pl.concat(parts).sort(SORT, maintain_order=True)
        for last, cursor in waiting:
            if not parts and last == cut:
                cursor.read()


def write_rows(path: str, frames: Iterable[pl.DataFrame], table: Table, group_bytes: int = GROUP_BYTES) -> int:
    """Write frames, which come in key order, to one Parquet file as they come; returns the rows. Not synced. `group_bytes`: the
    most that a row group holds in memory.

    Raises:
        whatever the frames' iterator raises, and OSError.
    """
    stream = iter(frames)
    first = next(stream, None)
    if first is None:
        raise ValueError("a file without rows is not written")
    written = 0
    failure: list[BaseException] = []

    def source(columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None) -> Iterator[pl.DataFrame]:
        nonlocal written
        frame: pl.DataFrame | None = first
        while frame is not None:
            written += frame.height
            yield frame
            try:
                frame = next(stream, None)
            except BaseException as error:
                failure.append(error)  # polars would make another error of it
                raise

    rows = register_io_source(source, schema=first.schema, is_pure=False)
    try:
        rows.sink_parquet(
            path,
            compression="zstd",
            compression_level=_LEVEL,
            statistics=True,
            row_group_size=group_rows(first, table, group_bytes),
            maintain_order=True,
        )
    except pl.exceptions.PolarsError:
        if failure:
            raise failure[0] from None
        raise
    return written


def by_partition(frames: Iterable[pl.DataFrame], most_rows: Callable[[], int]) -> Iterator[Iterator[pl.DataFrame]]:
    """Cut a stream of frames in key order into streams that end where a partition ends, at the first one behind `most_rows()`.

    Each must be used up before the next is asked for.
    """
    stream = iter(frames)
    rest: list[pl.DataFrame] = []

    def part() -> Iterator[pl.DataFrame]:
        rows, last = 0, 0
        while True:
            frame = rest.pop() if rest else next(stream, None)
            if frame is None:
                return
            limit = most_rows()
            if rows + frame.height > limit:
                ending = last if rows >= limit else frame.item(limit - rows - 1, "partition")
                inside = int(frame.select((pl.col("partition") <= ending).sum()).item())
                if inside < frame.height:
                    rest.append(frame[inside:])
                    if inside:
                        yield frame[:inside]
                    return
            rows, last = rows + frame.height, frame.item(frame.height - 1, "partition")
            yield frame

    while True:
        if not rest:
            frame = next(stream, None)
            if frame is None:
                return
            rest.append(frame)
        yield part()


_Key = tuple[int, int, int]  # of `SORT`


class _Cursor:
    """One source's place: the rows that were read and not handed on, and whether there are `more`."""

    def __init__(self, storage: Storage, table: Table, source: Source, memory_bytes: int, columns: Sequence[str] | None) -> None:
        self._storage, self._table, self._files, self._columns = storage, table, source.files, columns
        self._heights = [file.rows for file in source.files]
        self._only = source.only
        self._memory_bytes = memory_bytes
        stored = sum(file.bytes for file in source.files)
        self._block = self._rows_for(_UNPACKED * stored / max(1, source.rows))
        self._file = self._offset = 0
        self.rows = pl.DataFrame()
        self.more = bool(self._files)

    def fill(self) -> None:
        """Read on while less than half a block is there."""
        while self.more and self.rows.height * 2 < self._block:
            self.read()

    def read(self) -> None:
        """One block more."""
        while self._file < len(self._files) and self._offset >= self._heights[self._file]:
            self._file, self._offset = self._file + 1, 0
        if self._file == len(self._files):
            self.more = False
            return
        rows = scan_file(self._storage, self._table, self._files[self._file])
        if self._columns is not None:
            rows = rows.select(*self._columns, ENTRY)
        block = rows.slice(self._offset, self._block).collect()
        self._offset += self._block
        if block.height:
            self._block = self._rows_for(block.estimated_size() / block.height)
        if self._only is not None:
            block = block.filter(self._only)
        if block.height:
            self.rows = pl.concat([self.rows, block]) if self.rows.height else block
        self.more = self._file + 1 < len(self._files) or self._offset < self._heights[self._file]

    def last(self) -> _Key:
        """The key of the last row that was read."""
        return self._key(self.rows.height - 1)

    def below(self, cut: _Key) -> int:
        """How many of the rows that were read have a lower key."""
        return bisect_left(range(self.rows.height), cut, key=self._key)

    def _key(self, place: int) -> _Key:
        partition, host_key, url_key = (self.rows.get_column(name)[place] for name in SORT)
        return partition, host_key, url_key

    def take(self, count: int) -> pl.DataFrame:
        """Hand on the first rows."""
        part, self.rows = self.rows[:count], self.rows[count:]
        return part

    def _rows_for(self, row_bytes: float) -> int:
        return max(_FEWEST_ROWS, int(self._memory_bytes / max(1.0, row_bytes)))
