"""`lycosa collection`: list collections, pause and resume one, copy one into another workspace,
purge one.
"""

from __future__ import annotations

from typing import Annotated

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
from lycosa.core.units import format_size, number_of

app = typer.Typer(
    help="List, pause, resume, copy or purge collections.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")]


@app.command("list")
def list_(
    context: typer.Context,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """List collections with their pages and sizes."""
    from dataclasses import asdict

    from lycosa.commands.maintenance.collections import list_collections
    from lycosa.store.workspace import Workspace

    root = workspace_root(context, workspace)
    listed = list_collections(Workspace.open(root), load_config(context, root, overrides))
    if json_output:
        print_json([asdict(each) for each in listed])
        return
    rows = []
    for each in listed:
        known = ("; paused" if each.paused else "") + (
            "" if each.configured else "; not configured"
        )
        language = f" ({each.language})" if each.language else ""
        apart = f", {format_size(each.on_disk)} in tables of its own" if each.on_disk else ""
        states = counts(each.urls) or "none"
        what = (
            f"{number_of(each.pages, 'page')} of {number_of(each.sites, 'site')}, "
            f"{format_size(each.bytes)}{apart}; URLs: {states}{known}"
        )
        rows.append((f"{each.name}{language}", what))
    print(table(rows, "") if rows else "no collections yet")


@app.command()
def copy(
    context: typer.Context,
    name: NameArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Target workspace. It must not contain this collection."
        ),
    ],
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Copy a collection and its archive into another workspace."""
    from dataclasses import asdict

    from lycosa.commands.maintenance.collections import copy_to

    report = copy_to(workspace_root(context, workspace), name, target)
    if json_output:
        # asdict makes another Counter of a Counter
        print_json({**asdict(report), "rows": dict(report.rows)})
        return
    print(
        f"copied rows: {counts(report.rows)}; "
        f"{number_of(report.exchanges, 'archived capture')}, {format_size(report.bytes)}"
    )
    print(f"next: lycosa -w {target} index")


@app.command()
def pause(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Pause a collection until it is resumed.

    A running crawl stops fetching for it within seconds.
    """
    from lycosa.crawl.session.pausing import set_paused

    set_paused(workspace_root(context, workspace), name, paused=True)
    print(f"{name} is paused: a running crawl stops fetching for it within 10 seconds")


@app.command()
def resume(context: typer.Context, name: NameArgument, workspace: WorkspaceOption = "") -> None:
    """Resume a paused collection."""
    from lycosa.crawl.session.pausing import set_paused

    set_paused(workspace_root(context, workspace), name, paused=False)
    print(f"{name} is resumed")


@app.command()
def purge(
    context: typer.Context,
    name: NameArgument,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Delete a collection that was removed from the configuration.

    Deletes its rows and the archived records that no other collection uses. No crawl may be
    running.
    """
    from dataclasses import asdict

    from lycosa.commands.maintenance.collections import purge as purge_one

    root = workspace_root(context, workspace)
    report = purge_one(root, name, load_config(context, root, overrides))
    if json_output:
        # asdict makes another Counter of a Counter
        print_json({**asdict(report), "rows": dict(report.rows)})
    else:
        removed = counts(report.rows) or "no rows"
        print(
            f"deleted: {removed}; {number_of(report.records, 'archived record')}; "
            f"{format_size(report.bytes_deleted)} in total"
        )
        for where, why in report.pending:
            print(f"not yet: {where}: {why}")
    if report.pending:
        raise typer.Exit(1)
