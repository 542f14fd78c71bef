"""The items of a schema as a table with a typed column per field."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any

import polars as pl
from pydantic import ValidationError

from lycosa.config.collection import Collection
from lycosa.config.fields import ITEM_TABLES, STORED, FieldType, ItemField, ItemSchema
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables

FIRST_COLUMNS = ("url", "collection", "position", "fetched_at")
LAST_COLUMNS = ("valid", "problems", "record_id")

_TYPES: Mapping[FieldType, pl.DataType] = {
    "text": pl.String(),
    "html": pl.String(),
    "url": pl.String(),
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "date": pl.Datetime("ms", "UTC"),
    "boolean": pl.Boolean(),
}
_NUMBERS = {_TYPES["integer"], _TYPES["number"]}
_PYTHON: Mapping[FieldType, tuple[type, ...]] = {
    "text": (str,),
    "html": (str,),
    "url": (str,),
    "integer": (int,),
    "number": (int, float),
    "date": (str,),
    "boolean": (bool,),
}


def stored_schemas(state: LogState) -> dict[str, tuple[ItemSchema, ...]]:
    """Return the schemas of each collection in its latest crawl."""
    schemas = {}
    for name, settings in state.settings.items():
        values = {key: settings[key] for key in ("fields", "items") if settings.get(key)}
        with suppress(ValidationError):  # stored by another version of the program
            collection = Collection.model_validate({"name": name, **values}, context=STORED)
            schemas[name] = collection.schemas
    return schemas


def table_name(schema: str) -> str:
    """Return the name in SQL of the table of a schema."""
    return ITEM_TABLES + schema.replace("-", "_")


def item_views(tables: LiveTables) -> dict[str, pl.LazyFrame]:
    """Return the tables of all schemas, by name. Collections may share one."""
    sources: dict[str, list[tuple[str, ItemSchema]]] = defaultdict(list)
    for collection, schemas in stored_schemas(tables.state).items():
        for schema in schemas:
            sources[table_name(schema.name)].append((collection, schema))
    return {name: items_of(tables, each) for name, each in sources.items()}


def items_of(tables: LiveTables, sources: Sequence[tuple[str, ItemSchema]]) -> pl.LazyFrame:
    """Return the live items of a schema, or of several collections with a schema of one name."""
    types: dict[str, set[pl.DataType]] = defaultdict(set)
    for _, schema in sources:
        for name, rule in schema.fields.items():
            types[name].add(field_type(rule))
    mixed = {name for name, kinds in types.items() if len(kinds) > 1 and not kinds <= _NUMBERS}
    views = [_items(tables, collection, schema, mixed) for collection, schema in sources]
    return pl.concat(views, how="diagonal_relaxed") if len(views) > 1 else views[0]


def _items(
    tables: LiveTables, collection: str, schema: ItemSchema, mixed: Set[str]
) -> pl.LazyFrame:
    """Return the live items of a schema of a collection; `mixed` fields are text or JSON."""
    rows = (
        tables.scan("items")
        .filter((pl.col("collection") == collection) & (pl.col("schema") == schema.name))
        .select(*FIRST_COLUMNS, "values", *LAST_COLUMNS)
    )
    types = rows.collect_schema()
    columns = {
        **{name: types[name] for name in FIRST_COLUMNS},
        **{
            name: pl.String() if name in mixed else field_type(rule)
            for name, rule in schema.fields.items()
        },
        **{name: types[name] for name in LAST_COLUMNS},
    }
    texts = [
        pl.col("values").str.json_path_match(f"$.{name}").alias(name)
        for name in schema.fields
        if name in mixed
    ]

    def with_fields(frame: pl.DataFrame) -> pl.DataFrame:
        typed = typed_values(frame["values"], schema.fields)
        return frame.with_columns(typed.struct.unnest()).with_columns(texts).select(*columns)

    return rows.map_batches(with_fields, schema=columns)


def field_type(rule: ItemField) -> pl.DataType:
    """Return the type of a field's column."""
    one = _TYPES[rule.type]
    if rule.fields:
        one = pl.Struct({name: field_type(each) for name, each in rule.fields.items()})
    return pl.List(one) if rule.list else one


def typed_values(values: pl.Series, fields: Mapping[str, ItemField]) -> pl.Series:
    """Return JSON objects as structs of these fields.

    A value with another type is null: the schema has changed since it was stored.
    """
    kind = pl.Struct({name: field_type(rule) for name, rule in fields.items()})
    try:
        return values.str.json_decode(kind)
    except pl.exceptions.PolarsError:
        fitting = [_fitting_object(json.loads(value), fields) for value in values]
        return pl.Series(values.name, map(json.dumps, fitting), pl.String).str.json_decode(kind)


def _fitting_object(value: Any, fields: Mapping[str, ItemField]) -> dict[str, Any]:
    return {name: _fitting(value.get(name), rule) for name, rule in fields.items()}


def _fitting(value: Any, rule: ItemField) -> Any:
    if not rule.list:
        return _fitting_one(value, rule)
    values = value if isinstance(value, list) else []
    return [each for value in values if (each := _fitting_one(value, rule)) is not None]


def _fitting_one(value: Any, rule: ItemField) -> Any:
    if rule.fields:
        return _fitting_object(value, rule.fields) if isinstance(value, dict) else None
    if not isinstance(value, _PYTHON[rule.type]):
        return None
    if isinstance(value, bool) != (rule.type == "boolean"):
        return None
    if rule.type == "date":
        try:
            datetime.fromisoformat(str(value))
        except ValueError:
            return None
    return value
