"""The hooks of field extraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from lycosa.config.collection import Collection
from lycosa.config.settings import Config
from lycosa.fields.extraction import FieldExtractor
from lycosa.fields.reports import FieldReports, ItemHealth
from lycosa.fields.views import PREFIX, item_views
from lycosa.hooks import hook
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace


@hook
def item_extractor(collections: Sequence[Collection]) -> FieldExtractor | None:
    chosen = [each for each in collections if each.schemas]
    return FieldExtractor(chosen) if chosen else None


@hook
def sql_tables(tables: LiveTables, query: str) -> Mapping[str, pl.LazyFrame] | None:
    return item_views(tables) if PREFIX in query.lower() else None


@hook
def crawl_service(root: str, config: Config, report: Callable[[str], None]) -> FieldReports | None:
    has_items = any(each.schemas for each in config.collection)
    return FieldReports(root, report) if has_items else None


@hook
def archive_reparsed(root: str, entry: int, report: Callable[[str], None]) -> None:
    health = ItemHealth(Workspace.open(root), entry, report)
    health.look()
    health.summarize()
