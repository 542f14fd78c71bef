"""Hosts of a workspace: a list, one with its queue and last visits, and names for completion."""

from __future__ import annotations

from dataclasses import fields

import polars as pl

from lycosa.commands.models import HostFacts, HostSummary, HostTable
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.core.records import UrlState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key

_MAX_NAMES = 1_000
_SUMMARY = [field.name for field in fields(HostSummary)]
_WAITING = ("url", "collection", "operation", "depth", "priority", "not_before", "reason")
_VISIT = (
    "url",
    "kind",
    "fetched_at",
    "http_status",
    "error",
    "duration_ms",
    "content_type",
    "content_length",
)


def list_hosts(root: str, like: str = "", offset: int = 0, count: int | None = None) -> HostTable:
    """Return hosts, most pages first.

    `like`: part of the name; `count`: maximum number, None: all.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    rows = LiveTables(Workspace.open(root)).scan("hosts").filter(pl.col("host") != "")
    rows = rows.filter(pl.col("host").str.contains(like.lower(), literal=True)).select(_SUMMARY)
    order = rows.sort(["pages", "known", "host"], descending=[True, True, False], nulls_last=True)
    days = rows.group_by(pl.col("first_seen_at").dt.date()).len().sort("first_seen_at")
    servers = rows.group_by("server").len().sort(["len", "server"], descending=[True, False])
    total, listed, new, software = pl.collect_all(
        [rows.select(pl.len()), order.slice(offset, count), days, servers]
    )
    return HostTable(
        [HostSummary(*row) for row in listed.iter_rows()],
        int(total.item()),
        {day.isoformat(): number for day, number in new.iter_rows() if day is not None},
        dict(software.iter_rows()),
    )


def host_facts(root: str, host: str, most: int = 50) -> HostFacts | None:
    """Return the facts about a host; None for an unknown one.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    tables = LiveTables(Workspace.open(root))
    here = pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)
    waiting = tables.scan("urls").filter(here & (pl.col("state") == UrlState.KNOWN.value))
    rows, number, queue, visits = pl.collect_all(
        [
            tables.scan("hosts").filter(pl.col("host") == host).select(*_SUMMARY, "robots"),
            waiting.select(pl.len()),
            waiting.select(_WAITING)
            .sort(["priority", "depth", "url"], descending=[True, False, False])
            .head(most),
            tables.scan("visits")
            .filter(here)
            .select(_VISIT)
            .sort("fetched_at", descending=True)
            .head(most),
        ]
    )
    if not rows.height:
        return None
    return HostFacts(
        rows.row(0, named=True), int(number.item()), queue.to_dicts(), visits.to_dicts()
    )


def names_of(root: str, config: Config, kind: str) -> list[str]:
    """Return the names of collections, hosts or languages, hosts with most pages first.

    Raises:
        UsageError: `kind` is none of these.
    """
    if kind not in ("collections", "hosts", "languages"):
        raise UsageError(f"kind {kind!r}: choose collections, hosts or languages")
    workspace = Workspace.open(root)
    if kind == "collections":
        configured = (collection.name for collection in config.collection)
        return sorted({*configured, *workspace.state().settings})
    if kind == "languages":
        pages = LiveTables(workspace).scan("pages").select(pl.col("language").unique().sort())
        return [language for language in pages.collect()["language"] if language]
    hosts = LiveTables(workspace).scan("hosts").filter(pl.col("host") != "")
    return hosts.sort("pages", descending=True).head(_MAX_NAMES).collect()["host"].to_list()
