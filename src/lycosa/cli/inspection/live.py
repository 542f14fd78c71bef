"""The reports of a running daemon and of a cluster, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lycosa.cli.output import counts
from lycosa.core.units import format_duration, number_of

_NODE_LETTERS = 8  # names of Ray's nodes are 56 hexadecimal digits


def live_rows(live: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the lines about a running daemon."""
    if live is None:
        return []
    rows = [("now", "no worker at the moment")]
    if "pages" in live:
        text = (
            f"{live['rate']:,} pages/s; {number_of(live['pages'], 'page')} since {live['since']}; "
            f"queue {live['queue']:,}, {live['in_flight']:,} in flight, "
            f"{number_of(live['hosts'], 'host')}; errors {counts(live['errors']) or 'none'}"
        )
        rows = [("now", text)]
    rows.append(("  message", live["message"]))
    collections = (live.get("collections") or {}).items()
    rows.append(("  inactive", ", ".join(name for name, each in collections if each["resting"])))
    commit = live.get("last_commit")
    if commit:
        rows.append(("  last commit", f"entry {commit['entry']} at {commit['at']}"))
    rows += [(f"  left out: {name}", reason) for name, reason in (live.get("bad") or {}).items()]
    return rows


def cluster_rows(cluster: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the lines about a cluster, by the last report of its coordinator."""
    if cluster is None:
        return []
    leader, written_at = cluster.get("leader"), cluster["written_at"]
    if cluster["over"]:
        return [("cluster", f"the last one, led by {leader}, ended at {written_at}")]
    if cluster["silent"]:
        age = format_duration(cluster["heard_ms_ago"] // 1000 * 1000)
        what = "its workers stop automatically; start the cluster again to continue"
        return [("cluster", f"no message from {leader} for {age} (since {written_at}): {what}")]
    nodes, workers = cluster["nodes"], cluster["workers"]
    dead = sum(not node.get("alive") for node in nodes)
    text = (
        f"engine {cluster.get('engine')}, led by {leader}: {number_of(len(nodes), 'node')}"
        f"{f' ({dead} dead)' if dead else ''}, {number_of(len(workers), 'worker')}, "
        f"{cluster.get('partitions', 0)} partitions ({cluster.get('unassigned', 0)} unassigned), "
        f"log entry {cluster.get('log_head')}"
    )
    quotas = counts(cluster.get("granted") or {})
    return [
        ("cluster", text),
        ("  dashboard", str(cluster.get("dashboard") or "")),
        ("  page quota", f"{quotas} pages" if quotas else ""),
        *((f"  node {_short(node.get('name'))}", _node(node)) for node in nodes),
        *((f"  worker {worker.get('worker')}", _worker(worker)) for worker in workers),
    ]


def _node(node: Mapping[str, Any]) -> str:
    address = f"{node['address']}, " if node.get("address") else ""
    return (
        f"{'' if node.get('alive') else 'dead; '}{address}{node.get('cpus', 0):g} CPUs, "
        f"{number_of(node['workers'], 'worker')}, {number_of(node['partitions'], 'partition')}, "
        f"{node['rate']:,} pages/s"
    )


def _worker(worker: Mapping[str, Any]) -> str:
    progress = worker.get("progress") or {}
    partitions = number_of(worker.get("partitions") or 0, "partition")
    parts = [f"on {_short(worker.get('node'))}: {partitions}"]
    if "rate" in progress:
        parts.append(
            f"{progress['rate']:,} pages/s, {number_of(progress.get('pages', 0), 'page')}, "
            f"{progress.get('in_flight', 0):,} in flight"
        )
    parts.append(f"{worker.get('waiting') or 0:,} waiting")
    if worker.get("lag_entries"):
        parts.append(f"behind by {number_of(worker['lag_entries'], 'log entry', 'log entries')}")
    if worker.get("idle"):
        parts.append("idle")
    if progress.get("message"):
        parts.append(str(progress["message"]))
    errors = counts(progress.get("errors") or {})
    if errors:
        parts.append(f"errors {errors}")
    parts.append(f"last message {format_duration(worker.get('last_ping_ms_ago') or 0)} ago")
    return "; ".join(parts)


def _short(node: object) -> str:
    return str(node)[:_NODE_LETTERS]
