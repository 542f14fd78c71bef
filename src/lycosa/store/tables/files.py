"""Table files: scanned, and written as their rows come. Many of them in key order:
`lycosa.store.tables.ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

from lycosa.store.log.state import LiveFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.buffers import (
    GROUP_BYTES,
    GROUP_ROWS,
    PASSING_GROUP_BYTES,
    PASSING_LEVEL,
    group_rows,
    polars_schema,
    writing,
)
from lycosa.store.tables.schema import Table

ENTRY = "entry"
# zstd; links: 16 % smaller than level 1 and 19 % slower to write, urls and pages 0 to 15 and 5 %
_LEVEL = 3


def scan_file(storage: Storage, table: Table, file: LiveFile) -> pl.LazyFrame:
    """One file's rows and, in a last column `entry`, the entry that each came with. Columns that it
    is too old to have are null.
    """
    schema = polars_schema(table)
    rows = pl.scan_parquet(
        storage.local(file.path, file.bytes, file.digest),
        schema=schema | {ENTRY: pl.Int64()} if file.merged else schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        hive_partitioning=False,
    )
    return (
        rows if file.merged else rows.with_columns(pl.lit(file.entry, dtype=pl.Int64).alias(ENTRY))
    )


def group_rows_of(storage: Storage, file: LiveFile) -> int:
    """How many rows each row group of a file has, but for its last; 0: it does not say."""
    return int(
        pl.read_parquet_metadata(storage.local(file.path, file.bytes, file.digest)).get(
            GROUP_ROWS, 0
        )
    )


def write_rows(
    path: str, frames: Iterable[pl.DataFrame], table: Table, *, passing: bool = False
) -> int:
    """Write frames, which come in key order, to one Parquet file as they come; returns the rows.
    Not synced. `passing`: it will be folded into another one before long.

    Raises:
        whatever the frames' iterator raises, and OSError.
    """
    stream = iter(frames)
    first = next(stream, None)
    if first is None:
        raise ValueError("a file without rows is not written")
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
                failure.append(error)  # polars would make another error of it
                raise

    rows = register_io_source(source, schema=first.schema, is_pure=False)
    of_group = group_rows(first, table, PASSING_GROUP_BYTES if passing else GROUP_BYTES)
    try:
        with writing(path):
            rows.sink_parquet(
                path,
                compression="zstd",
                compression_level=PASSING_LEVEL if passing else _LEVEL,
                statistics=True,
                row_group_size=of_group,
                metadata={GROUP_ROWS: str(of_group)},
                maintain_order=True,
            )
    except (OSError, pl.exceptions.PolarsError):
        if failure:
            raise failure[0] from None
        raise
    return written


def by_partition(
    frames: Iterable[pl.DataFrame], most_rows: Callable[[], int]
) -> Iterator[Iterator[pl.DataFrame]]:
    """Cut a stream of frames in key order into streams that end where a partition ends, at the
    first one behind `most_rows()`.

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
