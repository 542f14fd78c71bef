"""Parquet files of exports that are written as JSON lines first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import polars as pl

from lycosa.store.tables.files import writing

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%.3fZ"
"""A time in the lines, for polars."""

_TIME = pl.Datetime("ms", "UTC")
_GROUP_ROWS = 5_000


def lines_to_parquet(
    path: Path, schema: pl.Schema, times: Iterable[str], days: Iterable[str] = ()
) -> None:
    """Convert JSON lines to Parquet in place. The same lines give the same bytes.

    Args:
        times: columns in `TIME_FORMAT`, which become times in UTC.
        days: columns with ISO 8601 dates, which become dates.

    Raises:
        OSError: the file cannot be written.
    """
    aside = path.with_name(f"{path.name}.table")
    rows = pl.scan_ndjson(path, schema=schema).with_columns(
        *(pl.col(name).str.to_date() for name in days),
        *(
            pl.col(name).str.to_datetime(TIME_FORMAT, time_unit="ms", time_zone="UTC").cast(_TIME)
            for name in times
        ),
    )
    try:
        with writing(aside):
            rows.sink_parquet(
                aside,
                compression="zstd",
                compression_level=3,
                row_group_size=_GROUP_ROWS,
                maintain_order=True,
            )
        os.replace(aside, path)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
