"""`status`: what a workspace holds, as plain data. Read from the log and the live tables; nothing is locked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from lycosa.index.generation import current_generation
from lycosa.store.live import LiveTables
from lycosa.store.workspace import Workspace

_MOST_HOSTS = 20


def workspace_status(root: str) -> Mapping[str, object]:
    """Counts by state, collection, host, language and error; who crawls; how far the index is.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    tables = LiveTables(workspace, state)
    urls, pages, visits, hosts = (tables.scan(name) for name in ("urls", "pages", "visits", "hosts"))
    by_state, by_reason, by_collection, page_facts, by_language, visit_facts, by_status, by_error, host_rows = pl.collect_all(
        [
            _count(urls, "state"),
            _count(urls.filter(pl.col("reason") != ""), "state", "reason"),
            _count(urls, "collection", "state"),
            pages.group_by("collection").agg(pl.len().alias("pages"), pl.col("fetched_at").max().alias("newest")),
            _count(pages, "language"),
            visits.select(
                pl.len().alias("visits"),
                pl.col("content_length").sum().alias("bytes"),
                pl.col("fetched_at").min().alias("first"),
                pl.col("fetched_at").max().alias("last"),
            ),
            _count(visits, "http_status"),
            _count(visits.filter(pl.col("error") != ""), "error"),
            hosts.filter(pl.col("host") != "").select(
                "host", "known", "visited", "pages", "bytes", "fails", "delay", "not_before", "last_visit_at", "server"
            ),
        ]
    )
    facts = visit_facts.row(0, named=True)
    owner = workspace.owner()
    generation = current_generation(root)
    return {
        "workspace": workspace.root,
        "running": None if owner is None else {"pid": owner.pid, "host": owner.host, "since": owner.started_at, "command": owner.command},
        "log_entry": state.head,
        "urls": {"total": int(by_state["number"].sum()), **_pairs(by_state)},
        "reasons": [{"state": kind, "reason": reason, "urls": number} for kind, reason, number in by_reason.iter_rows()],
        "collections": _collections(by_collection, page_facts),
        "pages": int(page_facts["pages"].sum()),
        "languages": _pairs(by_language),
        "visits": facts["visits"],
        "bytes": facts["bytes"] or 0,
        "first_visit": facts["first"],
        "last_visit": facts["last"],
        "pages_per_second": _rate(facts),
        "statuses": _pairs(by_status),
        "errors": _pairs(by_error),
        "refused_links": {
            name.removeprefix("refused."): number for name, number in sorted(state.counters.items()) if name.startswith("refused.")
        },
        "hosts": {
            "total": host_rows.height,
            "largest": host_rows.sort("pages", "known", descending=True).head(_MOST_HOSTS).to_dicts(),
        },
        "index": None
        if generation is None
        else {"generation": generation.generation, "documents": generation.documents, "log_entry": generation.log_entry},
        "settings": state.settings,
    }


def _count(rows: pl.LazyFrame, *columns: str) -> pl.LazyFrame:
    return rows.group_by(*columns).agg(pl.len().alias("number")).sort(["number", *columns], descending=[True] + [False] * len(columns))


def _pairs(frame: pl.DataFrame) -> dict[str, int]:
    return {str(name): number for name, number in frame.iter_rows()}


def _rate(facts: Mapping[str, Any]) -> float | None:
    """Mean visits a second between the first and the last."""
    if not facts["visits"] or facts["first"] == facts["last"]:
        return None
    seconds: float = (facts["last"] - facts["first"]).total_seconds()
    visits: int = facts["visits"]
    return round(visits / seconds, 2)


def _collections(states: pl.DataFrame, pages: pl.DataFrame) -> list[dict[str, object]]:
    collections: dict[str, dict[str, object]] = {}
    for name, state, number in states.iter_rows():
        collections.setdefault(name, {"collection": name, "pages": 0, "newest": None})[state] = number
    for name, number, newest in pages.iter_rows():
        collections.setdefault(name, {"collection": name}).update(pages=number, newest=newest)
    return sorted(collections.values(), key=lambda entry: str(entry["collection"]))
