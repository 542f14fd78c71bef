"""The metadata of pages as exports contain it: a column of objects, with times as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from lycosa.core.records import Metadata
from lycosa.core.units import format_time
from lycosa.store.tables.files import polars_schema
from lycosa.store.tables.schema import METADATA, SORT

DECLARED = "metadata"
"""The name of the column."""

_IDENTITY = ("collection", "host_key", "url_key")
_TIME = "%Y-%m-%dT%H:%M:%SZ"  # as `format_time`
_OMITTED = {*SORT, "url", "fetched_at", "collection", "record_id", "raw"}
_TYPES = {name: kind for name, kind in polars_schema(METADATA).items() if name not in _OMITTED}
_TIMES = tuple(name for name, kind in _TYPES.items() if kind == pl.Datetime("ms", "UTC"))

METADATA_COLUMNS = (*SORT, "collection", *_TYPES)
"""Columns of the table `metadata` to read for `with_metadata`."""

METADATA_TYPE = pl.Struct(
    {name: pl.String() if name in _TIMES else kind for name, kind in _TYPES.items()}
)


def with_metadata(pages: pl.DataFrame, declared: pl.DataFrame) -> pl.DataFrame:
    """Add the column of objects to rows of `pages`. `declared`: rows of `metadata`."""
    if not declared.width:
        return pages.with_columns(pl.lit(None, METADATA_TYPE).alias(DECLARED))
    values = [
        pl.col(name).dt.strftime(_TIME) if name in _TIMES else pl.col(name) for name in _TYPES
    ]
    objects = declared.select(*_IDENTITY, pl.struct(values).cast(METADATA_TYPE).alias(DECLARED))
    return pages.join(objects, on=_IDENTITY, how="left", maintain_order="left")


def exported(metadata: Metadata) -> dict[str, Any]:
    """Return the object of a page that was parsed from the archive."""
    values = asdict(metadata)
    return {
        name: None
        if values[name] is None
        else format_time(values[name])
        if name in _TIMES
        else values[name]
        for name in _TYPES
    }


def stated(values: dict[str, Any] | None, names: Sequence[str] = tuple(_TYPES)) -> dict[str, Any]:
    """Return the values of an object that are not empty."""
    if values is None:
        return {}
    return {name: value for name in names if (value := values[name]) not in (None, "", [])}
