"""Compare the live rows of a workspace before and after compaction."""

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
    """Return the live rows of every table in an order that compaction does not change.

    With `entry`, each row has the log entry that committed it.
    """
    live = LiveTables(workspace)
    return {name: _sorted(name, live.scan(name, entry=entry).collect()) for name in TABLES}


def same(before: Facts, after: Facts) -> bool:
    return all(before[name].equals(after[name]) for name in TABLES)


def readers_agree(workspace: Workspace) -> bool:
    """Return whether `ordered` and `batches` return the same rows as `scan`."""
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
    columns = [*TABLES[name].key, *_ORDER.get(name, [])]
    entry = ["entry"] if "entry" in frame.columns else []
    return frame.sort(*SORT, *(column for column in columns if column not in SORT), *entry)
