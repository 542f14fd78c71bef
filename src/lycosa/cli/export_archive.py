"""`lycosa export wacz` and `lycosa export mirror`: copies for a player, and for a browser without
any network.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    CollectionOption,
    JsonOption,
    LanguageOption,
    QuietOption,
    SinceOption,
    SiteOption,
    WorkspaceOption,
    print_json,
    workspace_root,
)
from lycosa.core.errors import UsageError
from lycosa.core.units import format_size, number_of


def register(app: typer.Typer) -> None:
    """Add these to `lycosa export`."""
    app.command()(wacz)
    app.command()(mirror)


def wacz(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="FILE", help="File to write, NAME.wacz.")],
    language: LanguageOption = "",
    collection: CollectionOption = "",
    site: SiteOption = "",
    since: SinceOption = 0,
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="Title shown by players.")
    ] = "",
    responses_only: Annotated[
        bool, typer.Option("--responses-only", help="Leave out request and metadata records.")
    ] = False,
    workspace: WorkspaceOption = "",
    quiet: QuietOption = False,
    json_output: JsonOption = False,
) -> None:
    """Export captures as one WACZ file for web-archive players."""
    from lycosa.export.archives.wacz import export_wacz
    from lycosa.export.archives.warc import WarcSelection
    from lycosa.store.workspace import Workspace
    from lycosa.url.site_name import site_name

    if not target.endswith(".wacz"):
        raise UsageError(f"{target}: the file name must end in .wacz")
    chosen = WarcSelection(language, collection, site_name(site) if site else None, since)
    report = export_wacz(
        Workspace.open(workspace_root(context, workspace)),
        target,
        chosen,
        title=title,
        responses_only=responses_only,
    )
    if json_output:
        path = str(report.path) if report.path else None
        print_json(
            {
                "path": path,
                "captures": report.captures,
                "pages": report.pages,
                "bytes": report.bytes,
            }
        )
    elif quiet:
        return
    elif report.path is None:
        print("nothing to export: no capture matches")
    else:
        print(
            f"{report.path}: {number_of(report.captures, 'capture')}, "
            f"{number_of(report.pages, 'page')}, {format_size(report.bytes)}"
        )


def mirror(
    context: typer.Context,
    site: Annotated[
        str, typer.Argument(metavar="SITE", help="Host, host:port or URL of the site.")
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Target directory; the start page is DIR/HOST/index.html."
        ),
    ],
    collection: Annotated[
        str,
        typer.Option(
            "--collection", metavar="NAME", help="Collection, if several contain the host."
        ),
    ] = "",
    workspace: WorkspaceOption = "",
    quiet: QuietOption = False,
    json_output: JsonOption = False,
) -> None:
    """Export a site as an offline mirror.

    Crawl with `requisites = true` to include images, style sheets, scripts and fonts.
    """
    from lycosa.export.mirror.mirror import export_mirror
    from lycosa.store.workspace import Workspace

    report = export_mirror(
        Workspace.open(workspace_root(context, workspace)), site, target, collection=collection
    )
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
    if quiet:
        return
    print(
        f"{number_of(report.files, 'file')}, {report.pages:,} of them pages, "
        f"{format_size(report.bytes)}"
    )
    if report.unreadable:
        print(
            f"{number_of(len(report.unreadable), 'file')} omitted, because decoding failed; the "
            f"first: {report.unreadable[0]}"
        )
    print(f"open {report.start}")
