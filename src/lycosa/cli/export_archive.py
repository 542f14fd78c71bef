"""`lycosa export wacz` and `lycosa export mirror`: copies for a player, and for a browser without any network."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root
from lycosa.cli.reparse import date_ms
from lycosa.core.errors import UsageError
from lycosa.core.units import format_size


def register(app: typer.Typer) -> None:
    """Add these to `lycosa export`."""
    app.command()(wacz)
    app.command()(mirror)


def wacz(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="FILE", help="The file to write, NAME.wacz.")],
    language: Annotated[str, typer.Option("--lang", metavar="XX", help="Only pages in this language.")] = "",
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="Only this collection.")] = "",
    host: Annotated[str, typer.Option("--host", help="Only this host.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="DATE", help="Only what was fetched since, as in 2026-11-21.")] = "",
    title: Annotated[str, typer.Option("--title", help="What a player shows as its name.")] = "",
    responses_only: Annotated[bool, typer.Option("--responses-only", help="Leave out request and metadata records.")] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Write the committed captures as one WACZ file, which any web-archive player replays (replayweb.page, pywb)."""
    from lycosa.export.wacz import export_wacz
    from lycosa.export.warc import Selection
    from lycosa.store.workspace import Workspace

    if not target.endswith(".wacz"):
        raise UsageError(f"{target}: players know a WACZ by its name, so it must end in .wacz")
    chosen = Selection(language, collection, host, date_ms(since) or 0)
    report = export_wacz(Workspace.open(workspace_root(context, workspace)), target, chosen, title=title, responses_only=responses_only)
    if json_output:
        path = str(report.path) if report.path else None
        print_json({"path": path, "captures": report.captures, "pages": report.pages, "bytes": report.bytes})
    elif report.path is None:
        print("nothing to export: no capture is chosen")
    else:
        print(f"{report.path}: {report.captures:,} captures, {report.pages:,} pages, {format_size(report.bytes)}")


def mirror(
    context: typer.Context,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Whose pages.")],
    target: Annotated[str, typer.Argument(metavar="DIR", help="Where the copy goes: DIR/HOST/index.html.")],
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection that holds it, if several do.")] = "",
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Write a copy of a site that works offline from disk; crawl with `requisites = true` for its images, styles, scripts and fonts."""
    from lycosa.export.mirror import export_mirror
    from lycosa.store.workspace import Workspace

    report = export_mirror(Workspace.open(workspace_root(context, workspace)), host, target, collection=collection)
    if json_output:
        print_json(
            {
                "start": str(report.start),
                "files": report.files,
                "pages": report.pages,
                "bytes": report.bytes,
                "redirects": report.redirects,
                "unreadable": report.unreadable,
            }
        )
        return
    print(f"{report.files:,} files, {report.pages:,} of them pages, {format_size(report.bytes)}")
    if report.unreadable:
        print(f"{len(report.unreadable):,} could not be decoded and are left out, the first: {report.unreadable[0]}")
    print(f"open {report.start}")
