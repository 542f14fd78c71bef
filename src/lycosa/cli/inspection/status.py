"""`lycosa status`: counts by state, host, language and collection; rate; errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.inspection.live import cluster_rows, live_rows
from lycosa.cli.options import InWorkspace, JsonOption
from lycosa.cli.output import counts, print_json, table
from lycosa.core.errors import UsageError
from lycosa.core.units import format_duration, format_size, number_of

if TYPE_CHECKING:
    from lycosa.commands.models import CollectionStatus, LargestHosts, WorkspaceStatus

_STATES = ("known", "visited", "gone", "excluded")


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
        from lycosa.cli.inspection.groups import print_groups, print_hosts

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
    status = workspace.status()
    if json_output:
        print_json(status)
        return
    print(table([row for row in _rows(status) if row[1]]))
    _print_hosts(status.hosts, hosts)


def _rows(status: WorkspaceStatus) -> list[tuple[str, str]]:
    """Return the lines; those with an empty value are not shown."""
    urls = {name: number for name, number in status.urls.items() if name != "total"}
    rows = [
        ("workspace", status.workspace),
        ("running", _running(status)),
        *live_rows(status.live),
        *cluster_rows(status.cluster),
        ("URLs", f"{status.urls['total']:,}: {counts(urls)}"),
        ("waiting", counts(status.waiting)),
        (
            "sitemaps, feeds",
            counts({f"{each.operation} {each.state}": each.urls for each in status.operations}),
        ),
        ("pages", f"{status.pages:,}"),
        ("languages", counts(status.languages)),
        ("fetched", f"{number_of(status.visits, 'request')}, {format_size(status.bytes)}"),
        ("status", counts(_statuses(status))),
        ("errors", counts(status.errors)),
        (
            "reasons",
            counts({f"{each.state} {each.reason}": each.urls for each in status.reasons}),
        ),
        ("links refused", counts(status.refused_links)),
    ]
    for trap in status.traps:
        stopped = f", {number_of(trap.parts, 'part')} of hosts stopped" if trap.parts else ""
        rows.append((f"trap {trap.rule}", f"{trap.urls:,} URLs not fetched{stopped}"))
    rows.append(("excluded", ", ".join(status.exclusions)))
    if status.last_visit:
        rows.append(("last fetch", f"{status.last_visit:%Y-%m-%d %H:%M:%S} UTC"))
    if status.pages_per_second:
        rate = f"{status.pages_per_second:,} requests/s, mean from the first to the last request"
        rows.append(("rate", rate))
    rows.append(("index", _index(status)))
    rows += [(f"collection {each.collection}", _collection(each)) for each in status.collections]
    return rows


def _statuses(status: WorkspaceStatus) -> dict[str, int]:
    return {
        "no response" if code == "0" else code: number for code, number in status.statuses.items()
    }


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


def _collection(entry: CollectionStatus) -> str:
    states = counts({state: getattr(entry, state) for state in _STATES})
    parts = [f"{number_of(entry.pages, 'page')}; URLs: {states}"]
    if entry.strategy:
        parts.append(f"{entry.strategy}, recrawl {entry.recrawl}, priority {entry.priority:g}")
    if entry.due_again:
        parts.append(f"{entry.due_again:,} due again")
    if entry.paused:
        parts.append("paused")
    elif entry.schedule:
        parts.append(f"only {entry.schedule} UTC ({'now' if entry.open_now else 'not now'})")
    return "; ".join(parts)


def _print_hosts(hosts: LargestHosts, count: int) -> None:
    rows = []
    for host in hosts.largest[:count]:
        pause = f"pause {format_duration(host.delay or 0)}"
        if host.fails:
            pause += f", {number_of(host.fails, 'consecutive failure')}"
        rows.append(
            (
                host.host,
                f"{number_of(host.pages, 'page')}, {host.visited:,} of "
                f"{host.known + host.visited:,} URLs visited, {format_size(host.bytes)}, {pause}",
            )
        )
    if rows:
        print(f"\n{number_of(hosts.total, 'host')}; the largest:")
        print(table(rows, "  "))
