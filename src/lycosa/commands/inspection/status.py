"""`status`: counts of a workspace, from the log and the live tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from lycosa.cluster.status import cluster_status
from lycosa.commands.models import (
    CollectionStatus,
    HostStatus,
    IndexStatus,
    LargestHosts,
    OperationCount,
    ReasonCount,
    RunningProcess,
    TrapCount,
    WorkspaceStatus,
)
from lycosa.config.collection import stored_collection
from lycosa.config.settings import Collection
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.hours import parse_hours
from lycosa.core.records import UrlState, VisitKind
from lycosa.crawl.session.worker_status import live_status
from lycosa.crawl.state.assignment import recrawl_rules
from lycosa.frontier.recrawl.due import due_expr
from lycosa.index.generation import TABLES
from lycosa.index.shards.shards import current_generation
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_MAX_HOSTS = 20
_STOPPED = "stopped:"
_SCHEDULE = ("strategy", "priority", "recrawl", "schedule", "paused", "max_pages")


def workspace_status(root: str, clock: Clock | None = None) -> WorkspaceStatus:
    """Return the counts of a workspace and the state of its crawl, without a lock.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    now_ms = (clock or SystemClock()).now_ms()
    collections = {
        name: stored_collection(name, settings) for name, settings in state.settings.items()
    }
    queries = _queries(LiveTables(workspace, state), collections, now_ms)
    answers = dict(zip(queries, pl.collect_all(list(queries.values())), strict=True))
    visits = answers["visit_facts"].row(0, named=True)
    due_again = dict(answers["due_again"].iter_rows())
    schedules = {
        name: schedule_facts(collection, due_again.get(name), now_ms)
        for name, collection in collections.items()
    }
    refused = {
        name.removeprefix("refused."): number
        for name, number in sorted(state.counters.items())
        if name.startswith("refused.")
    }
    hosts = answers["hosts"].sort("pages", "known", descending=True).head(_MAX_HOSTS)
    return WorkspaceStatus(
        workspace=workspace.root,
        running=_owner(workspace),
        log_entry=state.head,
        urls={"total": int(answers["states"]["number"].sum()), **pairs_of(answers["states"])},
        reasons=[ReasonCount(*row) for row in answers["reasons"].iter_rows()],
        waiting=pairs_of(answers["waiting"]),
        operations=[OperationCount(*row) for row in answers["operations"].iter_rows()],
        traps=_traps(answers["traps"]),
        collections=_collections(answers["collections"], answers["page_facts"], schedules),
        exclusions=sorted(state.exclusions.rules),
        live=live_status(root, clock),
        cluster=cluster_status(root, clock),
        pages=int(answers["page_facts"]["pages"].sum()),
        languages=pairs_of(answers["languages"]),
        visits=visits["visits"],
        bytes=visits["bytes"] or 0,
        first_visit=visits["first"],
        last_visit=visits["last"],
        pages_per_second=_rate(visits),
        statuses=pairs_of(answers["statuses"]),
        errors=pairs_of(answers["errors"]),
        refused_links=refused,
        hosts=LargestHosts(
            answers["hosts"].height, [HostStatus(**row) for row in hosts.to_dicts()]
        ),
        index=_index(workspace, state),
        settings=state.settings,
    )


def _queries(
    tables: LiveTables, collections: Mapping[str, Collection], now_ms: int
) -> dict[str, pl.LazyFrame]:
    """Return the queries of the tables; they run together."""
    rows, pages, visits, hosts = (
        tables.scan(name) for name in ("urls", "pages", "visits", "hosts")
    )
    # `lycosa monitor` reports checks
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


def _owner(workspace: Workspace) -> RunningProcess | None:
    owner = workspace.owner()
    if owner is None:
        return None
    return RunningProcess(owner.pid, owner.host, owner.started_at, owner.command)


def _index(workspace: Workspace, state: LogState) -> IndexStatus | None:
    newest = current_generation(workspace.root)
    if newest is None:
        return None
    entry = newest.log_entry
    excluded = any(number > entry for number in state.exclusions.rules.values())
    if not excluded and not state.has_rows_after(entry, TABLES):
        entry = state.head  # later entries do not change it
    return IndexStatus(newest.generation, newest.documents, entry)


def counted(rows: pl.LazyFrame, *columns: str) -> pl.LazyFrame:
    """Return the number of rows by columns, largest first, in a last column `number`."""
    return (
        rows.group_by(*columns)
        .agg(pl.len().alias("number"))
        .sort(["number", *columns], descending=[True] + [False] * len(columns))
    )


def pairs_of(frame: pl.DataFrame) -> dict[str, int]:
    """Return a frame of two columns, name and number."""
    return {str(name): number for name, number in frame.iter_rows()}


def _rate(facts: Mapping[str, Any]) -> float | None:
    """Return the mean number of visits per second; None if there are too few."""
    if not facts["visits"] or facts["first"] == facts["last"]:
        return None
    seconds: float = (facts["last"] - facts["first"]).total_seconds()
    visits: int = facts["visits"]
    return round(visits / seconds, 2)


def waiting_for(urls: pl.LazyFrame, hosts: pl.LazyFrame, now_ms: int) -> pl.LazyFrame:
    """Return the number of known URLs by the reason for their wait.

    The reason is `due`, `host_paused`, or that of a row with a later `not_before`.
    """
    paused = hosts.filter(
        (pl.col("host") != "") & (pl.col("not_before").cast(pl.Int64) > now_ms)
    ).select("host_key", paused=True)
    later = pl.col("not_before").cast(pl.Int64).fill_null(0) > now_ms
    what = (
        pl.when(later & (pl.col("reason") != ""))
        .then(pl.col("reason"))
        .when(pl.col("paused"))
        .then(pl.lit("host_paused"))
    )
    unvisited = urls.filter(pl.col("state") == UrlState.KNOWN.value).join(
        paused, on="host_key", how="left"
    )
    return counted(unvisited.select(waits_for=what.otherwise(pl.lit("due"))), "waits_for")


def due_again_of(
    urls: pl.LazyFrame, collections: Mapping[str, Collection], now_ms: int
) -> pl.LazyFrame:
    """Return the number of visited URLs that are due again now, by collection.

    Without collections with `recrawl = "fresh"`: only the worker computes their schedule.
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


def _traps(counters: pl.DataFrame) -> list[TrapCount]:
    """Return the counts by rule.

    Counters are per host; the counter `stopped:RULE:PART` is for a part of a host.
    """
    urls: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for name, hosts, count in counters.iter_rows():
        if name.startswith(_STOPPED):
            parts[name.removeprefix(_STOPPED).partition(":")[0]] += hosts
        else:
            urls[name] += count
    return [TrapCount(rule, urls[rule], parts[rule]) for rule in sorted({*urls, *parts})]


def schedule_facts(collection: Collection, due_again: int | None, now_ms: int) -> dict[str, Any]:
    """Return order, recrawl and hours of a collection by the settings of its last crawl."""
    plain = collection.model_dump(mode="json")
    try:
        open_now = parse_hours(collection.schedule).open_at(now_ms)
    except UsageError:
        open_now = False
    return {
        **{name: plain[name] for name in _SCHEDULE},
        "open_now": open_now and not collection.paused,
        "due_again": due_again or 0,
    }


def _collections(
    states: pl.DataFrame, pages: pl.DataFrame, schedules: Mapping[str, Mapping[str, Any]]
) -> list[CollectionStatus]:
    facts: dict[str, dict[str, Any]] = {}
    for name, state, number in states.iter_rows():
        facts.setdefault(name, {})[state] = number
    for name, number, newest in pages.iter_rows():
        facts.setdefault(name, {}).update(pages=number, newest=newest)
    return [
        CollectionStatus(name, **facts[name], **schedules.get(name, {})) for name in sorted(facts)
    ]
