"""Write the items of a schema to a file: JSON Lines, CSV or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from lycosa.config.fields import ItemSchema
from lycosa.core.errors import UsageError, WorkError
from lycosa.fields.views import LAST_COLUMNS, items_of, stored_schemas
from lycosa.store.storage.files import whole_file, write_errors
from lycosa.store.tables.files import writing
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.visible import is_removed
from lycosa.store.workspace import Workspace

_TIME = "%Y-%m-%dT%H:%M:%S%.3fZ"


@dataclass(frozen=True)
class ItemSelection:
    """Which items to export. `schema`: "" if there is only one; `collection`: "": all; `invalid`:
    also items without a required field, with the columns `valid` and `problems`.
    """

    schema: str = ""
    collection: str = ""
    invalid: bool = False


@dataclass(frozen=True)
class ItemReport:
    """An exported file. `left_out`: items that are not valid."""

    path: str
    schema: str
    items: int
    left_out: int
    bytes: int


def export_items(workspace: Workspace, path: str, selection: ItemSelection) -> ItemReport:
    """Write items of pages that are not removed to a file, completely or not at all.

    The file name determines the format.

    Raises:
        UsageError: the format or the schema is unknown.
        WorkError: the file cannot be written, or table files were replaced meanwhile.
    """
    extension = os.path.splitext(path)[1].lower()
    write = _WRITERS.get(extension)
    if write is None:
        raise UsageError(
            f"{path}: the name decides on the format; it must end in {', '.join(_WRITERS)}"
        )
    tables = LiveTables(workspace)
    sources = _sources(tables, selection)
    schema = sources[0][1].name
    try:
        items = items_of(tables, sources)
        removed = tables.scan("urls").filter(is_removed()).select("collection", "url")
        frame = items.join(removed, on=["collection", "url"], how="anti").collect()
    except FileNotFoundError as error:
        raise WorkError(
            f"a table file was replaced during the export ({error}): run the command again"
        ) from None
    left_out = 0
    if not selection.invalid:
        left_out = frame.filter(~pl.col("valid")).height
        hidden = set(LAST_COLUMNS) - {"record_id"}
        frame = frame.filter(pl.col("valid")).drop(hidden)
    with write_errors(path), whole_file(Path(path).resolve()) as draft:
        write(frame, draft)
    return ItemReport(path, schema, frame.height, left_out, os.path.getsize(path))


def _sources(tables: LiveTables, selection: ItemSelection) -> list[tuple[str, ItemSchema]]:
    """Return the collections that have the selected schema, with it."""
    sources = [
        (collection, schema)
        for collection, schemas in stored_schemas(tables.state).items()
        if selection.collection in ("", collection)
        for schema in schemas
    ]
    if not sources:
        of_collection = f" of {selection.collection}" if selection.collection else ""
        raise UsageError(
            f"the latest crawl{of_collection} had no fields to extract: see docs/how-to/fields.md"
        )
    names = sorted({schema.name for _, schema in sources})
    name = selection.schema or names[0]
    if name not in names or (not selection.schema and len(names) > 1):
        problem = f"unknown schema {name!r}" if selection.schema else "several schemas"
        raise UsageError(f"{problem}: choose --schema {' | '.join(names)}")
    return [source for source in sources if source[1].name == name]


def _write_jsonl(frame: pl.DataFrame, path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in frame.iter_rows(named=True):
            file.write(json.dumps(_plain(row), ensure_ascii=False) + "\n")


def _write_csv(frame: pl.DataFrame, path: Path) -> None:
    nested = [
        pl.Series(name, [_json_cell(value) for value in frame[name].to_list()], pl.String)
        for name, kind in frame.schema.items()
        if kind.is_nested()
    ]
    times = cs.datetime().dt.strftime(_TIME)
    frame.with_columns(*nested).with_columns(times).write_csv(path)


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    with writing(path):
        frame.write_parquet(path, compression="zstd")


def _json_cell(value: Any) -> str | None:
    return None if value is None else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: times as ISO 8601 in UTC."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


_WRITERS: Mapping[str, Callable[[pl.DataFrame, Path], None]] = {
    ".jsonl": _write_jsonl,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
