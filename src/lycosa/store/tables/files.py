"""Read and write single table files. `lycosa.store.tables.ordered` reads many in key order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.buffers import (
    GROUP_BYTES,
    GROUP_ROWS,
    LEVEL,
    PASSING_GROUP_BYTES,
    group_rows,
    polars_schema,
    writing,
)
from lycosa.store.tables.main_text import with_main_text
from lycosa.store.tables.schema import Table

ENTRY = "entry"


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
