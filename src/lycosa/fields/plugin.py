"""The hooks of field extraction. Modules are imported when a collection has fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lycosa.config.fields import ITEM_TABLES
from lycosa.hooks import hook

if TYPE_CHECKING:
    import polars as pl

    from lycosa.config.collection import Collection
    from lycosa.config.settings import Config
    from lycosa.fields.extraction import FieldExtractor
    from lycosa.fields.reports import FieldReports
    from lycosa.store.tables.live import LiveTables


@hook
def item_extractor(collections: Sequence[Collection]) -> FieldExtractor | None:
    chosen = [each for each in collections if each.schemas]
    if not chosen:
        return None
    from lycosa.fields.extraction import FieldExtractor

    return FieldExtractor(chosen)


@hook
def sql_tables(tables: LiveTables, query: str) -> Mapping[str, pl.LazyFrame] | None:
    if not re.search(rf"\b{ITEM_TABLES}|\bshow\s+tables\b", query, re.IGNORECASE):
        return None
    from lycosa.fields.views import item_views

    return item_views(tables)


@hook
def crawl_service(root: str, config: Config, report: Callable[[str], None]) -> FieldReports | None:
    if not any(each.schemas for each in config.collection):
        return None
    from lycosa.fields.reports import FieldReports

    return FieldReports(root, report)


@hook
def archive_reparsed(root: str, entry: int, report: Callable[[str], None]) -> None:
    from lycosa.fields.reports import ItemHealth
    from lycosa.store.workspace import Workspace

    health = ItemHealth(Workspace.open(root), entry, report)
    health.refresh()
    health.summarize()
