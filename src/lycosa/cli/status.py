"""`lycosa status`: counts by state, host, language and collection; rate; errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, counts, print_json, table, workspace_root
from lycosa.core.units import format_duration, format_size


def command(
    context: typer.Context,
    hosts: Annotated[int, typer.Option("--hosts", min=0, help="How many hosts to list.")] = 5,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Show what a workspace holds."""
    from lycosa.app.status import workspace_status

    status = workspace_status(workspace_root(context, workspace))
    if json_output:
        print_json(status)
        return
    _print(status, hosts)


def _print(status: Mapping[str, Any], hosts: int) -> None:
    running = status["running"]
    urls = status["urls"]
    rows = [
        ("workspace", status["workspace"]),
        ("running", f"process {running['pid']} ({running['command']}) since {running['since']}" if running else "nobody crawls here now"),
        ("URLs", f"{urls['total']:,}: " + counts({name: number for name, number in urls.items() if name != "total"})),
        ("pages", f"{status['pages']:,}"),
        ("languages", counts(status["languages"])),
        ("fetched", f"{status['visits']:,} exchanges, {format_size(status['bytes'])}"),
        ("status", counts({"no answer" if code == "0" else code: number for code, number in status["statuses"].items()})),
    ]
    if status["errors"]:
        rows.append(("errors", counts(status["errors"])))
    reasons = {f"{entry['state']} {entry['reason']}": entry["urls"] for entry in status["reasons"]}
    if reasons:
        rows.append(("reasons", counts(reasons)))
    if status["refused_links"]:
        rows.append(("links refused", counts(status["refused_links"])))
    if status["last_visit"]:
        rows.append(("last fetch", f"{status['last_visit']:%Y-%m-%d %H:%M:%S} UTC"))
    if status["pages_per_second"]:
        rows.append(("rate", f"{status['pages_per_second']:,} exchanges a second from first to last"))
    index = status["index"]
    behind = (
        ""
        if index is None or index["log_entry"] >= status["log_entry"]
        else f", behind by {status['log_entry'] - index['log_entry']} log entries"
    )
    rows.append(
        (
            "index",
            f"{index['documents']:,} documents, generation {index['generation']}{behind}"
            if index
            else "none yet: `lycosa index` builds it",
        )
    )
    for entry in status["collections"]:
        states = counts(
            {key: value for key, value in entry.items() if key not in ("collection", "pages", "newest") and isinstance(value, int)}
        )
        rows.append((f"collection {entry['collection']}", f"{entry.get('pages', 0):,} pages; URLs: {states}"))
    print(table(rows, ""))
    shown = status["hosts"]["largest"][:hosts]
    if shown:
        print(f"\n{status['hosts']['total']:,} hosts; the largest:")
        print(
            table(
                [
                    (
                        row["host"],
                        f"{row['pages']:,} pages, {row['visited']:,} of {row['known']:,} URLs visited, {format_size(row['bytes'])}, "
                        f"pause {format_duration(row['delay'] or 0)}" + (f", {row['fails']} failures in a row" if row["fails"] else ""),
                    )
                    for row in shown
                ]
            )
        )
