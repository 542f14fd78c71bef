"""Hosts of a workspace, listed and one by one: what is known of each, what waits there, what was
fetched last.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from lycosa.commands.models import HostFacts
from lycosa.core.records import UrlState
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import host_key

_LISTED = (
    *(
        "host",
        "registrable_domain",
        "pages",
        "known",
        "visited",
        "bytes",
        "delay",
        "not_before",
        "fails",
        "latency",
    ),
    *("first_seen_at", "last_visit_at", "server", "ip"),
)
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


def list_hosts(
    root: str, like: str = "", offset: int = 0, count: int = 100
) -> tuple[int, list[dict[str, Any]]]:
    """How many hosts there are whose name holds `like`, and `count` of them, those with the most
    pages first.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    hosts = LiveTables(Workspace.open(root)).scan("hosts").filter(pl.col("host") != "")
    if like:
        hosts = hosts.filter(pl.col("host").str.contains(like.lower(), literal=True))
    order = hosts.select(_LISTED).sort(
        ["pages", "known", "host"], descending=[True, True, False], nulls_last=True
    )
    total, rows = pl.collect_all([hosts.select(pl.len()), order.slice(offset, count)])
    return int(total.item()), rows.to_dicts()


def host_facts(root: str, host: str, most: int = 50) -> HostFacts | None:
    """What is known of a host; None for one that is not.

    Raises:
        WorkspaceError: there is no workspace, or it is damaged.
    """
    tables = LiveTables(Workspace.open(root))
    here = pl.col("host_key") == pl.lit(host_key(host), pl.UInt64)
    waiting = tables.scan("urls").filter(here & (pl.col("state") == UrlState.KNOWN.value))
    rows, number, queue, visits = pl.collect_all(
        [
            tables.scan("hosts").filter(pl.col("host") == host).select(*_LISTED, "robots"),
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
