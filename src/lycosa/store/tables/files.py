"""Read and write single table files. `lycosa.store.tables.ordered` reads many in key order.

A row in memory has its main text. In a file of `pages` it is null if `main_lines` has its place:
the lines of `text` that it consists of.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import polars as pl
from polars.io.plugins import register_io_source

from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.schema import PAGES, SORT, Table

ENTRY = "entry"

GROUP_BYTES = 8 * 2**20
"""Maximum size of a row group in memory, as stored; readers hold one or two of them."""

PASSING_GROUP_BYTES = 2**21
"""The same for files that are soon compacted: compaction holds a group of each of its files."""

LEVEL = 3
"""The zstd level: with level 1, files are up to 20 % larger for 1 % less CPU of a crawl."""

GROUP_ROWS = "lycosa.group_rows"
"""Metadata key of a file: the rows per row group, so that readers decompress each group once."""

_TYPES: dict[str, pl.DataType] = {
    "u16": pl.UInt16(),
    "u32": pl.UInt32(),
    "u64": pl.UInt64(),
    "i64": pl.Int64(),
    "f64": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "time": pl.Datetime("ms", "UTC"),
}
_FROM = pl.element().gather_every(2)
_UNTIL = pl.element().gather_every(2, offset=1)
_LINE_NUMBERS = pl.col("main_lines").list.eval(pl.int_ranges(_FROM, _UNTIL).explode())
_RESTORED = pl.col("text").str.split("\n").list.gather(_LINE_NUMBERS).list.join("\n")


def polars_type(name: str) -> pl.DataType:
    """Return the polars type of a column type of `lycosa.store.tables.schema`."""
    inner = re.fullmatch(r"list\[(.+)\]", name)
    if not inner:
        return _TYPES[name]
    if ":" not in inner[1]:
        return pl.List(_TYPES[inner[1]])
    fields = (part.split(":") for part in inner[1].split(","))
    return pl.List(pl.Struct({field: _TYPES[kind] for field, kind in fields}))


def polars_schema(table: Table) -> dict[str, pl.DataType]:
    """Return a table's columns and their polars types, in order."""
    return {column.name: polars_type(column.type) for column in table.columns}


def scan_file(
    storage: Storage, table: Table, file: DataFile, *, as_stored: bool = False
) -> pl.LazyFrame:
    """Return a file's rows, with their entries in a last column. Missing columns are null.

    `as_stored`: for another file, without restoring main texts.
    """
    schema = polars_schema(table)
    rows = pl.scan_parquet(
        storage.files.local_path(file.path, file.bytes, file.digest),
        schema=schema | {ENTRY: pl.Int64()} if file.merged else schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        hive_partitioning=False,
    )
    if not file.merged:
        rows = rows.with_columns(pl.lit(file.entry, dtype=pl.Int64).alias(ENTRY))
    return rows if as_stored else with_main_text(rows, table)


def without_main_text(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return rows as a file stores them."""
    if table is not PAGES:
        return rows
    needed = pl.when(pl.col("main_lines").list.len() == 0).then("main_text")
    return rows.with_columns(main_text=needed)


def with_main_text(rows: pl.LazyFrame, table: Table) -> pl.LazyFrame:
    """Return rows of a file with their main text. Readers of other columns do not pay for it."""
    if table is not PAGES:
        return rows
    return rows.with_columns(main_text=pl.coalesce("main_text", _RESTORED))


def group_rows_of(storage: Storage, file: DataFile) -> int:
    """Return the number of rows of each row group of a file except its last."""
    return int(
        pl.read_parquet_metadata(storage.files.local_path(file.path, file.bytes, file.digest)).get(
            GROUP_ROWS, file.rows
        )
    )


def write_rows(
    path: str, frames: Iterable[pl.DataFrame], table: Table, *, passing: bool = False
) -> int:
    """Write frames, as stored, in key order to one Parquet file, streaming; return the number of
    rows.

    Without rows no file is written. The file is not synced. `passing`: it will soon be compacted.
    Raises OSError, and errors of the iterator.
    """
    stream = iter(frames)
    first = next(stream, None)
    if first is None:
        return 0
    written = 0
    failure: list[BaseException] = []

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        nonlocal written
        frame: pl.DataFrame | None = first
        while frame is not None:
            written += frame.height
            yield frame
            try:
                frame = next(stream, None)
            except BaseException as error:
                failure.append(error)  # polars would replace it
                raise

    rows = register_io_source(source, schema=first.schema, is_pure=False)
    size = group_rows(first, table, PASSING_GROUP_BYTES if passing else GROUP_BYTES)
    try:
        with writing(path):
            rows.sink_parquet(
                path,
                compression="zstd",
                compression_level=LEVEL,
                statistics=True,
                row_group_size=size,
                metadata={GROUP_ROWS: str(size)},
                maintain_order=True,
            )
    except (OSError, pl.exceptions.PolarsError):
        if failure:
            raise failure[0] from None
        raise
    return written


def write_table(frame: pl.DataFrame, path: str, table: Table) -> None:
    """Write rows to a Parquet file, stably sorted by `SORT`. Not synced. Raises OSError."""
    ordered = without_main_text(frame, table).sort(SORT, maintain_order=True)
    rows = group_rows(ordered, table, PASSING_GROUP_BYTES)
    with writing(path):
        ordered.write_parquet(
            path,
            compression="zstd",
            compression_level=LEVEL,
            statistics=True,
            row_group_size=rows,
            metadata={GROUP_ROWS: str(rows)},
        )


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of polars while it writes a file to OSError.

    Polars reports the system error, or only a "transport error" if writing a header failed; then
    another write determines the error.
    """
    try:
        yield
    except pl.exceptions.PolarsError as error:
        if match := _OS_ERROR.search(str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), os.fspath(path)) from error
        if _TRANSPORT in str(error):
            raise _write_error(path) from error
        raise


_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_TRANSPORT = "transport error"
_PROBE_BYTES = 1 << 16


def _write_error(path: str | os.PathLike[str]) -> OSError:
    number = errno.EIO
    try:
        with open(path, "ab", buffering=0) as file:
            if file.write(bytes(_PROBE_BYTES)) < _PROBE_BYTES:
                number = errno.ENOSPC
            else:
                os.fsync(file.fileno())
    except OSError as error:
        number = error.errno or errno.EIO
    return OSError(number, os.strerror(number), os.fspath(path))


def group_rows(frame: pl.DataFrame, table: Table, group_bytes: int = GROUP_BYTES) -> int:
    """Return how many rows like these have `group_bytes` in memory."""
    rows = group_bytes * frame.height // max(1, int(frame.estimated_size()))
    return max(1, min(table.group_rows, rows))


def by_partition(
    frames: Iterable[pl.DataFrame], max_rows: Callable[[], int]
) -> Iterator[Iterator[pl.DataFrame]]:
    """Split frames in key order into parts of at least `max_rows()` that end with a partition.

    Each part must be consumed before the next is requested.
    """
    stream = iter(frames)
    rest: list[pl.DataFrame] = []

    def part() -> Iterator[pl.DataFrame]:
        rows, last = 0, 0
        while True:
            frame = rest.pop() if rest else next(stream, None)
            if frame is None:
                return
            limit = max_rows()
            if rows + frame.height > limit:
                end = last if rows >= limit else frame.item(limit - rows - 1, "partition")
                inside = int(frame.select((pl.col("partition") <= end).sum()).item())
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
