"""What a workspace says, without where its files lie: equal before and after a merge."""

from __future__ import annotations

import polars as pl

from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.workspace import Workspace

Facts = dict[str, pl.DataFrame]

_ORDER = {
    "visits": ["record_id", "fetched_at", "collection"],
    "links": ["target", "position"],
    "found": ["url", "collection", "priority"],
}


def facts(workspace: Workspace, *, entry: bool = True) -> Facts:
    """The live rows of every table, with the entries they came with, in an order that no merge
    changes.
    """
    live = LiveTables(workspace)
    return {name: _sorted(name, live.scan(name, entry=entry).collect()) for name in TABLES}


def same(before: Facts, after: Facts) -> bool:
    return all(before[name].equals(after[name]) for name in TABLES)


def rows_by_other_ways(workspace: Workspace) -> bool:
    """Whether `ordered` and `batches` give what `scan` gives."""
    live = LiveTables(workspace)
    for name in TABLES:
        scanned = live.scan(name).collect()
        ordered = pl.concat([scanned.clear(), *live.ordered(name, memory_bytes=1)])
        batches = pl.concat([scanned.clear(), *live.batches(name)])
        if not (_sorted(name, scanned).equals(_sorted(name, ordered)) and batches.equals(scanned)):
            return False
        if not ordered.select(SORT).to_struct().is_sorted():
            return False
    return True


def _sorted(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    more = [*TABLES[name].key, *_ORDER.get(name, [])]
    entry = ["entry"] if "entry" in frame.columns else []
    return frame.sort(*SORT, *(column for column in more if column not in SORT), *entry)
