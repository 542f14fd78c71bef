"""`lycosa status`: counts by state, host, language and collection; rate; errors."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import astuple, fields
from typing import Annotated, Any

import typer

from lycosa.cli.options import InWorkspace, JsonOption
from lycosa.cli.output import counts, note, print_json, status_counts, table
from lycosa.commands.models import (
    CollectionStatus,
    GroupHost,
    GroupRow,
    GroupTable,
    HostStatus,
    HostSummary,
    HostTable,
    LargestHosts,
    TrapCount,
    WorkspaceStatus,
)
from lycosa.core.errors import ConfigError, UsageError
from lycosa.core.units import format_duration, format_size, number_of

_STATES = ("known", "visited", "gone", "excluded")

_MAX_DAYS = 14
_NODE_LETTERS = 8  # names of Ray's nodes are 56 hexadecimal digits


def command(
    where: InWorkspace,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="language|collection|type|host", help="Print a table by this property."
        ),
    ] = "",
    sites: Annotated[
        bool, typer.Option("--sites", help="With --by: list the hosts of each row.")
    ] = False,
    hosts: Annotated[
        int, typer.Option("--hosts", metavar="N", min=0, help="Number of hosts to list.")
    ] = 5,
    json_output: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="With --by: print CSV.")] = False,
) -> None:
    """Show the state of a workspace and its crawl."""
    workspace = where.open()
    if by:
        if json_output and csv:
            raise UsageError("--json and --csv exclude each other: choose one")
        form = "json" if json_output else "csv" if csv else "text"
        if by != "host":
            print_groups(workspace.statistics.groups(by, sites=sites), form, sites=sites)
            return
        if sites:
            raise UsageError("--sites cannot be combined with --by host, which lists all hosts")
        print_hosts(workspace.statistics.hosts(hosts if form == "text" else None), form)
        return
    if sites or csv:
        raise UsageError(
            "--sites and --csv require --by: add --by language, collection, type or host"
        )
    configured = _configured(where)
    status = workspace.status()
    if json_output:
        print_json(status)
        return
    print(table([row for row in _rows(status, configured) if row[1]]))
    _print_hosts(status.hosts, hosts)


def _configured(where: InWorkspace) -> frozenset[str]:
    """Return the names of the configured collections; empty: there are none.

    Warns of an invalid lycosa.toml: a daemon continues with its previous settings.

    Raises:
        ConfigError: an option `--set` is invalid.
    """
    from lycosa.crawl.session.workspace_config import read_config

    read_config(None, where.settings)
    try:
        return frozenset(each.name for each in where.open().config().collection)
    except ConfigError as error:
        note(f"warning: {error}")
        return frozenset()


def _rows(status: WorkspaceStatus, configured: Set[str]) -> list[tuple[str, str]]:
    """Return the lines; those with an empty value are not shown."""
    urls = {name: number for name, number in status.urls.items() if name != "total"}
    rate = status.pages_per_second
    return [
        ("workspace", status.workspace),
        ("running", _running(status)),
        *live_rows(status.live),
        *cluster_rows(status.cluster),
        ("URLs", f"{status.urls['total']:,}: {counts(urls)}"),
        ("waiting", counts(status.waiting)),
        (
            "operations",
            counts({f"{each.operation} {each.state}": each.urls for each in status.operations}),
        ),
        ("pages", f"{status.pages:,}"),
        ("languages", counts(status.languages)),
        ("fetched", f"{number_of(status.visits, 'request')}, {format_size(status.bytes)}"),
        ("status", status_counts(status.statuses)),
        ("errors", counts(status.errors)),
        (
            "reasons",
            counts({f"{each.state} {each.reason}": each.urls for each in status.reasons}),
        ),
        ("links refused", counts(status.refused_links)),
        *((f"trap {trap.rule}", _trap(trap)) for trap in status.traps),
        ("excluded", ", ".join(status.exclusions)),
        ("last fetch", f"{status.last_visit:%Y-%m-%d %H:%M:%S} UTC" if status.last_visit else ""),
        (
            "rate",
            f"{rate:,} requests/s, mean from the first to the last request" if rate else "",
        ),
        ("index", _index(status)),
        *(
            (
                f"collection {each.collection}",
                _collection(each, is_crawled=not configured or each.collection in configured),
            )
            for each in status.collections
        ),
    ]


def _trap(trap: TrapCount) -> str:
    stopped = f", {number_of(trap.parts, 'part')} of hosts stopped" if trap.parts else ""
    return f"{trap.urls:,} URLs not fetched{stopped}"


def _running(status: WorkspaceStatus) -> str:
    cluster = status.cluster
    if cluster is not None and not cluster["silent"] and not cluster["over"]:
        return "a cluster"
    process = status.running
    if process is None:
        return "no crawl is running"
    return f"process {process.pid} ({process.command}) since {process.since}"


def _index(status: WorkspaceStatus) -> str:
    index = status.index
    if index is None:
        return "none: run `lycosa index` to build it"
    behind = status.log_entry - index.log_entry
    late = f", behind by {behind} log entries" if behind > 0 else ""
    return f"{number_of(index.documents, 'document')}, generation {index.generation}{late}"


def _collection(entry: CollectionStatus, *, is_crawled: bool) -> str:
    states = counts({state: getattr(entry, state) for state in _STATES})
    if not is_crawled:
        pages = number_of(entry.pages, "page")
        return f"{pages}; URLs: {states}; not in lycosa.toml: `lycosa run` does not crawl it"
    hours = f"only {entry.schedule} UTC ({'now' if entry.open_now else 'not now'})"
    order = f"{entry.strategy}, recrawl {entry.recrawl}, priority {entry.priority:g}"
    parts = [
        f"{number_of(entry.pages, 'page')}; URLs: {states}",
        order if entry.strategy else "",
        f"{entry.due_again:,} due again" if entry.due_again else "",
        "paused" if entry.paused else hours if entry.schedule else "",
    ]
    return "; ".join(filter(None, parts))


def _print_hosts(hosts: LargestHosts, count: int) -> None:
    rows = [(host.host, _host(host)) for host in hosts.largest[:count]]
    if rows:
        print(f"\n{number_of(hosts.total, 'host')}; the largest:")
        print(table(rows, "  "))


def _host(host: HostStatus) -> str:
    fails = f", {number_of(host.fails, 'consecutive failure')}" if host.fails else ""
    return (
        f"{number_of(host.pages, 'page')}, {host.visited:,} of "
        f"{host.known + host.visited:,} URLs visited, {format_size(host.bytes)}, "
        f"pause {format_duration(host.delay or 0)}{fails}"
    )


def print_groups(groups: GroupTable, form: str, *, sites: bool) -> None:
    """Print a table by language, collection or type; `form`: text, json or csv."""
    if form == "json":
        print_json(groups)
        return
    if form == "csv":
        rows = groups.sites if sites else groups.rows
        _print_csv(GroupHost if sites else GroupRow, rows, groups.by)
        return
    heads = (groups.by, "pages", "sites", "size", "newest", "period", "pages/day", "bytes/day")
    _print_aligned([heads, *map(_cells, groups.rows), _cells(groups.total)])
    for row in groups.rows if sites else ():
        print(f"\n{row.name or 'unknown'}")
        _print_aligned(
            [
                (site.host, f"{site.pages:,}", format_size(site.bytes))
                for site in groups.sites
                if site.name == row.name
            ]
        )


def _cells(row: GroupRow) -> tuple[str, ...]:
    period = f"{row.first:%Y-%m-%d} to {row.newest:%Y-%m-%d}" if row.first and row.newest else ""
    newest = f"{row.newest:%Y-%m-%d %H:%M}" if row.newest else ""
    return (
        row.name or "total",
        f"{row.pages:,}",
        f"{row.sites:,}",
        format_size(row.bytes),
        newest,
        period,
        f"{row.pages_a_day:,.1f}",
        format_size(row.bytes_a_day),
    )


def print_hosts(hosts: HostTable, form: str) -> None:
    """Print a table by host; `form`: text, json or csv."""
    if form == "json":
        print_json(hosts)
        return
    if form == "csv":
        _print_csv(HostSummary, hosts.hosts, "host")
        return
    rows = [("host", "pages", "known", "size", "first seen", "server")]
    for host in hosts.hosts:
        first = f"{host.first_seen_at:%Y-%m-%d}" if host.first_seen_at else ""
        size = format_size(host.bytes)
        rows.append((host.host, f"{host.pages:,}", f"{host.known:,}", size, first, host.server))
    _print_aligned(rows)
    latest = list(hosts.new_by_day.items())[-_MAX_DAYS:]
    by_day = ", ".join(f"{day} {number:,}" for day, number in latest)
    print(f"\n{number_of(hosts.total, 'host')}")
    print(f"hosts discovered per day: {by_day}")
    print(f"server software: {counts(hosts.servers)}")


def _print_csv(kind: type, rows: Sequence[Any], name: str) -> None:
    """Print CSV with a header; the column `name` has the name of the property."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = [field.name for field in fields(kind)]
    writer.writerow([name if column == "name" else column for column in columns])
    for row in rows:
        writer.writerow(["" if value is None else value for value in astuple(row)])


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    """Print columns, the first aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())


def live_rows(live: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the lines about a running daemon."""
    if live is None:
        return []
    now = "no worker at the moment"
    if "pages" in live:
        now = (
            f"{live['rate']:,} pages/s; {number_of(live['pages'], 'page')} since {live['since']}; "
            f"queue {live['queue']:,}, {live['in_flight']:,} in flight, "
            f"{number_of(live['hosts'], 'host')}; errors {counts(live['errors']) or 'none'}"
        )
    collections = live.get("collections") or {}
    inactive = [name for name, each in collections.items() if each["paused"]]
    commit = live.get("last_commit")
    return [
        ("now", now),
        ("  message", live["message"]),
        ("  inactive", ", ".join(inactive)),
        ("  last commit", f"entry {commit['entry']} at {commit['at']}" if commit else ""),
        *(
            (f"  {'previous settings' if name in collections else 'left out'}: {name}", reason)
            for name, reason in (live.get("bad") or {}).items()
        ),
    ]


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
    text = (
        f"engine {cluster.get('engine')}, led by {leader}: {number_of(len(nodes), 'node')}, "
        f"{number_of(len(workers), 'worker')}, "
        f"{cluster.get('partitions', 0)} partitions ({cluster.get('unassigned', 0)} unassigned), "
        f"log entry {cluster.get('log_head')}"
    )
    return [
        ("cluster", text),
        ("  dashboard", str(cluster.get("dashboard") or "")),
        ("  page quota", counts(cluster.get("granted") or {})),
        *((f"  node {_short(node.get('name'))}", _node(node)) for node in nodes),
        *((f"  worker {worker.get('worker')}", _worker(worker)) for worker in workers),
    ]


def _node(node: Mapping[str, Any]) -> str:
    address = f"{node['address']}, " if node.get("address") else ""
    return (
        f"{address}{node.get('cpus', 0):g} CPUs, "
        f"{number_of(node['workers'], 'worker')}, {number_of(node['partitions'], 'partition')}, "
        f"{node['rate']:,} pages/s"
    )


def _worker(worker: Mapping[str, Any]) -> str:
    progress = worker.get("progress") or {}
    partitions = number_of(worker.get("partitions") or 0, "partition")
    pages = number_of(progress.get("pages", 0), "page")
    lag = number_of(worker.get("lag_entries") or 0, "log entry", "log entries")
    errors = counts(progress.get("errors") or {})
    parts = [
        f"on {_short(worker.get('node'))}: {partitions}",
        f"{progress['rate']:,} pages/s, {pages}, {progress.get('in_flight', 0):,} in flight"
        if "rate" in progress
        else "",
        f"{worker.get('waiting') or 0:,} waiting",
        f"behind by {lag}" if worker.get("lag_entries") else "",
        "idle" if worker.get("idle") else "",
        str(progress.get("message") or ""),
        f"errors {errors}" if errors else "",
        f"last message {format_duration(worker.get('last_ping_ms_ago') or 0)} ago",
    ]
    return "; ".join(filter(None, parts))


def _short(node: object) -> str:
    return str(node)[:_NODE_LETTERS]
