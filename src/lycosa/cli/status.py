"""`lycosa status`: counts by state, host, language and collection; rate; errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    counts,
    load_config,
    print_json,
    table,
    workspace_root,
)
from lycosa.core.errors import UsageError
from lycosa.core.units import format_duration, format_size, number_of

_NODE_LETTERS = 8


def command(
    context: typer.Context,
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
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="With --by: print CSV.")] = False,
) -> None:
    """Show the state of a workspace and its crawl."""
    root = workspace_root(context, workspace)
    if by:
        from lycosa.cli.status_by import print_table

        config = load_config(context, root, overrides)
        print_table(root, by, config, sites=sites, hosts=hosts, as_json=json_output, as_csv=csv)
        return
    if sites or csv:
        raise UsageError(
            "--sites and --csv require --by: add --by language, collection, type or host"
        )
    from dataclasses import asdict

    from lycosa.commands.inspection.status import workspace_status

    status = asdict(workspace_status(root))
    if json_output:
        print_json(status)
        return
    _print(status, hosts)


def _print(status: Mapping[str, Any], hosts: int) -> None:
    running = status["running"]
    urls = status["urls"]
    rows = [
        ("workspace", status["workspace"]),
        ("running", _running(running, status["cluster"])),
        *_live(status["live"]),
        *_cluster(status["cluster"]),
        (
            "URLs",
            f"{urls['total']:,}: "
            + counts({name: number for name, number in urls.items() if name != "total"}),
        ),
    ]
    if status["waiting"]:
        rows.append(("waiting", counts(status["waiting"])))
    if status["operations"]:
        rows.append(
            (
                "sitemaps, feeds",
                counts(
                    {
                        f"{each['operation']} {each['state']}": each["urls"]
                        for each in status["operations"]
                    }
                ),
            )
        )
    rows += [
        ("pages", f"{status['pages']:,}"),
        ("languages", counts(status["languages"])),
        ("fetched", f"{number_of(status['visits'], 'request')}, {format_size(status['bytes'])}"),
        (
            "status",
            counts(
                {
                    "no response" if code == "0" else code: number
                    for code, number in status["statuses"].items()
                }
            ),
        ),
    ]
    if status["errors"]:
        rows.append(("errors", counts(status["errors"])))
    reasons = {f"{entry['state']} {entry['reason']}": entry["urls"] for entry in status["reasons"]}
    if reasons:
        rows.append(("reasons", counts(reasons)))
    if status["refused_links"]:
        rows.append(("links refused", counts(status["refused_links"])))
    for trap in status["traps"]:
        stopped = f", {number_of(trap['parts'], 'part')} of hosts stopped" if trap["parts"] else ""
        rows.append((f"trap {trap['rule']}", f"{trap['urls']:,} URLs not fetched{stopped}"))
    if status["exclusions"]:
        rows.append(("excluded", ", ".join(status["exclusions"])))
    if status["last_visit"]:
        rows.append(("last fetch", f"{status['last_visit']:%Y-%m-%d %H:%M:%S} UTC"))
    if status["pages_per_second"]:
        rows.append(
            (
                "rate",
                f"{status['pages_per_second']:,} requests/s, mean from the first to "
                "the last request",
            )
        )
    rows.append(("index", _index(status)))
    for entry in status["collections"]:
        rows.append((f"collection {entry['collection']}", _collection(entry)))
    print(table(rows, ""))
    _print_hosts(status["hosts"], hosts)


def _running(owner: Mapping[str, Any] | None, cluster: Mapping[str, Any] | None) -> str:
    """Who crawls here."""
    if cluster is not None and not cluster["silent"] and not cluster["over"]:
        return "a cluster"
    return (
        f"process {owner['pid']} ({owner['command']}) since {owner['since']}"
        if owner
        else "no crawl is running"
    )


def _live(live: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What a daemon says of this moment."""
    if live is None:
        return []
    rows = [("now", "no worker at the moment")]
    if "pages" in live:
        rows = [
            (
                "now",
                f"{live['rate']:,} pages/s; {number_of(live['pages'], 'page')} since "
                f"{live['since']}; queue {live['queue']:,}, "
                f"{live['in_flight']:,} in flight, {number_of(live['hosts'], 'host')}; errors "
                f"{counts(live['errors']) or 'none'}",
            )
        ]
    if live["message"]:
        rows.append(("  message", live["message"]))
    resting = [name for name, each in (live.get("collections") or {}).items() if each["resting"]]
    if resting:
        rows.append(("  inactive", ", ".join(resting)))
    if live.get("last_commit"):
        rows.append(
            (
                "  last commit",
                f"entry {live['last_commit']['entry']} at {live['last_commit']['at']}",
            )
        )
    rows.extend((f"  left out: {name}", reason) for name, reason in (live.get("bad") or {}).items())
    return rows


def _cluster(cluster: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What a cluster's coordinator said last; of one that is silent, since when."""
    if cluster is None:
        return []
    if cluster["over"]:
        return [
            (
                "cluster",
                f"the last one, led by {cluster.get('leader')}, ended at {cluster['written_at']}",
            )
        ]
    if cluster["silent"]:
        since = format_duration(cluster["heard_ms_ago"] // 1000 * 1000)
        what = "its workers stop automatically; start the cluster again to continue"
        return [
            (
                "cluster",
                f"no message from {cluster.get('leader')} for {since} (since "
                f"{cluster['written_at']}): {what}",
            )
        ]
    nodes, workers = cluster["nodes"], cluster["workers"]
    dead = sum(not node.get("alive") for node in nodes)
    lost = f" ({dead} dead)" if dead else ""
    rows = [
        (
            "cluster",
            f"engine {cluster.get('engine')}, led by {cluster.get('leader')}: "
            f"{number_of(len(nodes), 'node')}{lost}, "
            f"{number_of(len(workers), 'worker')}, {cluster.get('partitions', 0)} partitions "
            f"({cluster.get('unassigned', 0)} unassigned), "
            f"log entry {cluster.get('log_head')}",
        )
    ]
    if cluster.get("dashboard"):
        rows.append(("  dashboard", str(cluster["dashboard"])))
    if cluster.get("granted"):
        rows.append(("  page quota", counts(cluster["granted"]) + " pages"))
    for node in nodes:
        where = f"{node['address']}, " if node.get("address") else ""
        life = "" if node.get("alive") else "dead; "
        holds = (
            f"{number_of(node['workers'], 'worker')}, "
            f"{number_of(node['partitions'], 'partition')}, {node['rate']:,} pages/s"
        )
        rows.append(
            (
                f"  node {_short(node.get('name'))}",
                f"{life}{where}{node.get('cpus', 0):g} CPUs, {holds}",
            )
        )
    rows.extend((f"  worker {worker.get('worker')}", _worker(worker)) for worker in workers)
    return rows


def _worker(worker: Mapping[str, Any]) -> str:
    progress = worker.get("progress") or {}
    parts = [
        f"on {_short(worker.get('node'))}: {number_of(worker.get('partitions') or 0, 'partition')}"
    ]
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
    """A node's name as people tell it apart: Ray's are 56 hexadecimal digits."""
    return str(node)[:_NODE_LETTERS]


def _index(status: Mapping[str, Any]) -> str:
    index = status["index"]
    if not index:
        return "none: run `lycosa index` to build it"
    behind = status["log_entry"] - index["log_entry"]
    late = f", behind by {behind} log entries" if behind > 0 else ""
    return f"{number_of(index['documents'], 'document')}, generation {index['generation']}{late}"


def _collection(entry: Mapping[str, Any]) -> str:
    states = counts(
        {state: entry.get(state, 0) for state in ("known", "visited", "gone", "excluded")}
    )
    parts = [f"{number_of(entry.get('pages', 0), 'page')}; URLs: {states}"]
    if "strategy" in entry:
        parts.append(
            f"{entry['strategy']}, recrawl {entry['recrawl']}, priority {entry['priority']:g}"
        )
    if entry.get("due_again"):
        parts.append(f"{entry['due_again']:,} due again")
    if entry.get("paused"):
        parts.append("paused")
    elif entry.get("schedule"):
        parts.append(f"only {entry['schedule']} UTC ({'now' if entry['open_now'] else 'not now'})")
    return "; ".join(parts)


def _print_hosts(hosts: Mapping[str, Any], most: int) -> None:
    shown = hosts["largest"][:most]
    if not shown:
        return
    print(f"\n{number_of(hosts['total'], 'host')}; the largest:")
    rows = []
    for row in shown:
        pause = f"pause {format_duration(row['delay'] or 0)}" + (
            f", {number_of(row['fails'], 'consecutive failure')}" if row["fails"] else ""
        )
        visited = f"{row['visited']:,} of {row['known'] + row['visited']:,} URLs visited"
        rows.append(
            (
                row["host"],
                f"{number_of(row['pages'], 'page')}, {visited}, "
                f"{format_size(row['bytes'])}, {pause}",
            )
        )
    print(table(rows))
