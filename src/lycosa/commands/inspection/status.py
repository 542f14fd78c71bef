"""`status`: what a workspace holds, as plain data. Read from the log and the live tables; nothing
is locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from lycosa.cluster.status import cluster_status
from lycosa.commands.inspection.explain_verdict import stored_collection
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.hours import parse_hours
from lycosa.core.records import UrlState, VisitKind
from lycosa.crawl.session.worker_status import live_status
from lycosa.crawl.state.assignment import recrawl_rules
from lycosa.frontier.recrawl.due import due_expr
from lycosa.index.shards.shards import current_generation
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_MOST_HOSTS = 20
_STOPPED = "stopped:"
_FROM_SCHEDULE = ("strategy", "priority", "recrawl", "schedule", "paused", "max_pages")


def workspace_status(root: str, clock: Clock | None = None) -> Mapping[str, object]:
    """Counts by state, collection, host, language and error; what waits and why; who crawls; how
    far the index is.

    `waiting` counts known URLs by what they wait for: `due` (nothing but their turn),
    `host_paused`, or the reason of their row. `live` is what a running daemon says of itself, None
    without one. `cluster` is what a cluster's coordinator said last (`silent`: long ago), None if
    there never was one.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    now_ms = (clock or SystemClock()).now_ms()
    collections = {
        name: stored_collection(name, settings) for name, settings in state.settings.items()
    }
    asked = _questions(LiveTables(workspace, state), collections, now_ms)
    found = dict(zip(asked, pl.collect_all(list(asked.values())), strict=True))
    facts = found["visit_facts"].row(0, named=True)
    due_again = dict(found["due_again"].iter_rows())
    refused = {
        name.removeprefix("refused."): number
        for name, number in sorted(state.counters.items())
        if name.startswith("refused.")
    }
    return {
        "workspace": workspace.root,
        "running": _owner(workspace),
        "log_entry": state.head,
        "urls": {"total": int(found["states"]["number"].sum()), **pairs_of(found["states"])},
        "reasons": [
            {"state": kind, "reason": reason, "urls": number}
            for kind, reason, number in found["reasons"].iter_rows()
        ],
        "waiting": pairs_of(found["waiting"]),
        "operations": [
            {"operation": kind, "state": kept, "urls": number}
            for kind, kept, number in found["operations"].iter_rows()
        ],
        "traps": _traps(found["traps"]),
        "collections": [
            entry
            | schedule_facts(
                collections.get(str(entry["collection"])),
                due_again.get(str(entry["collection"])),
                now_ms,
            )
            for entry in _collections(found["collections"], found["page_facts"])
        ],
        "exclusions": sorted(state.exclusions.rules),
        "live": live_status(root),
        "cluster": cluster_status(root, clock),
        "pages": int(found["page_facts"]["pages"].sum()),
        "languages": pairs_of(found["languages"]),
        "visits": facts["visits"],
        "bytes": facts["bytes"] or 0,
        "first_visit": facts["first"],
        "last_visit": facts["last"],
        "pages_per_second": _rate(facts),
        "statuses": pairs_of(found["statuses"]),
        "errors": pairs_of(found["errors"]),
        "refused_links": refused,
        "hosts": {
            "total": found["hosts"].height,
            "largest": found["hosts"]
            .sort("pages", "known", descending=True)
            .head(_MOST_HOSTS)
            .to_dicts(),
        },
        "index": _index(root),
        "settings": state.settings,
    }


def _questions(
    tables: LiveTables, collections: Mapping[str, Collection], now_ms: int
) -> dict[str, pl.LazyFrame]:
    """What is asked of the tables, all at once."""
    rows, pages, visits, hosts = (
        tables.scan(name) for name in ("urls", "pages", "visits", "hosts")
    )
    # `lycosa uptime` tells of those
    visits = visits.filter(pl.col("kind") != VisitKind.CHECK.value)
    urls = rows.filter(pl.col("operation") == "")
    return {
        "states": counted(urls, "state"),
        "reasons": counted(urls.filter(pl.col("reason") != ""), "state", "reason"),
        "collections": counted(urls, "collection", "state"),
        "operations": counted(rows.filter(pl.col("operation") != ""), "operation", "state"),
        "waiting": waiting_for(urls, hosts, now_ms),
        "due_again": due_again_of(urls, collections, now_ms),
        "traps": hosts.select("traps")
        .explode("traps")
        .drop_nulls()
        .unnest("traps")
        .group_by("name")
        .agg(pl.len(), pl.col("count").sum()),
        "page_facts": pages.group_by("collection").agg(
            pl.len().alias("pages"), pl.col("fetched_at").max().alias("newest")
        ),
        "languages": counted(pages, "language"),
        "visit_facts": visits.select(
            pl.len().alias("visits"),
            pl.col("content_length").sum().alias("bytes"),
            pl.col("fetched_at").min().alias("first"),
            pl.col("fetched_at").max().alias("last"),
        ),
        "statuses": counted(visits, "http_status"),
        "errors": counted(visits.filter(pl.col("error") != ""), "error"),
        "hosts": hosts.filter(pl.col("host") != "").select(
            "host",
            "known",
            "visited",
            "pages",
            "bytes",
            "fails",
            "delay",
            "not_before",
            "last_visit_at",
            "server",
        ),
    }


def _owner(workspace: Workspace) -> dict[str, object] | None:
    owner = workspace.owner()
    return (
        None
        if owner is None
        else {
            "pid": owner.pid,
            "host": owner.host,
            "since": owner.started_at,
            "command": owner.command,
        }
    )


def _index(root: str) -> dict[str, object] | None:
    newest = current_generation(root)
    if newest is None:
        return None
    return {
        "generation": newest.generation,
        "documents": newest.documents,
        "log_entry": newest.log_entry,
    }


def counted(rows: pl.LazyFrame, *columns: str) -> pl.LazyFrame:
    """Rows by columns, the most first; the last column is `number`."""
    return (
        rows.group_by(*columns)
        .agg(pl.len().alias("number"))
        .sort(["number", *columns], descending=[True] + [False] * len(columns))
    )


def pairs_of(frame: pl.DataFrame) -> dict[str, int]:
    """A frame of two columns, name and number."""
    return {str(name): number for name, number in frame.iter_rows()}


def _rate(facts: Mapping[str, Any]) -> float | None:
    """Mean visits a second between the first and the last."""
    if not facts["visits"] or facts["first"] == facts["last"]:
        return None
    seconds: float = (facts["last"] - facts["first"]).total_seconds()
    visits: int = facts["visits"]
    return round(visits / seconds, 2)


def waiting_for(urls: pl.LazyFrame, hosts: pl.LazyFrame, now_ms: int) -> pl.LazyFrame:
    """Known URLs by what they wait for."""
    resting = hosts.filter(
        (pl.col("host") != "") & (pl.col("not_before").cast(pl.Int64) > now_ms)
    ).select("host_key", rests=True)
    later = pl.col("not_before").cast(pl.Int64).fill_null(0) > now_ms
    what = (
        pl.when(later & (pl.col("reason") != ""))
        .then(pl.col("reason"))
        .when(pl.col("rests"))
        .then(pl.lit("host_paused"))
    )
    known = urls.filter(pl.col("state") == UrlState.KNOWN.value).join(
        resting, on="host_key", how="left"
    )
    return counted(known.select(waits_for=what.otherwise(pl.lit("due"))), "waits_for")


def due_again_of(
    urls: pl.LazyFrame, collections: Mapping[str, Collection], now_ms: int
) -> pl.LazyFrame:
    """Visited URLs that are due again now, by collection; not of those that are `fresh`, whose
    schedule the worker solves.
    """
    due = pl.lit(None, dtype=pl.Int64)
    for name, collection in collections.items():
        if collection.recrawl in ("age", "daily"):
            due = (
                pl.when(pl.col("collection") == name)
                .then(due_expr(recrawl_rules(collection), now_ms))
                .otherwise(due)
            )
    visited = urls.filter(pl.col("state").is_in([UrlState.VISITED.value, UrlState.GONE.value]))
    return counted(visited.filter(due <= now_ms), "collection")


def _traps(counters: pl.DataFrame) -> list[dict[str, object]]:
    """By rule: URLs that were not fetched, and parts of hosts that are stopped (counters are per
    host, `stopped:RULE:PART` for a part).
    """
    rules: dict[str, dict[str, int]] = {}
    for name, hosts, count in counters.iter_rows():
        stopped = name.startswith(_STOPPED)
        rule = name.removeprefix(_STOPPED).partition(":")[0] if stopped else name
        entry = rules.setdefault(rule, {"urls": 0, "parts": 0})
        entry["parts" if stopped else "urls"] += hosts if stopped else count
    return [{"rule": rule, **entry} for rule, entry in sorted(rules.items())]


def schedule_facts(
    collection: Collection | None, due_again: int | None, now_ms: int
) -> dict[str, object]:
    """What the settings of the last crawl say of order, recrawl and hours."""
    if collection is None:
        return {}
    plain = collection.model_dump(mode="json")
    try:
        open_now = parse_hours(collection.schedule).open_at(now_ms)
    except UsageError:
        open_now = False
    return {
        **{name: plain[name] for name in _FROM_SCHEDULE},
        "open_now": open_now and not collection.paused,
        "due_again": due_again or 0,
    }


def _collections(states: pl.DataFrame, pages: pl.DataFrame) -> list[dict[str, object]]:
    collections: dict[str, dict[str, object]] = {}
    for name, state, number in states.iter_rows():
        collections.setdefault(name, {"collection": name, "pages": 0, "newest": None})[state] = (
            number
        )
    for name, number, newest in pages.iter_rows():
        collections.setdefault(name, {"collection": name}).update(pages=number, newest=newest)
    return sorted(collections.values(), key=lambda entry: str(entry["collection"]))
