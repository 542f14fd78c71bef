"""`lycosa export`: hand the collection on."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root
from lycosa.cli.reparse import date_ms
from lycosa.core.units import format_size, parse_size

app = typer.Typer(help="Hand the collection on: WARC files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _export() -> None:
    """Hand the collection on."""  # a callback keeps `warc` a sub-command while it is the only one


@app.command()
def warc(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="Where the files go.")],
    language: Annotated[str, typer.Option("--lang", metavar="XX", help="Only pages in this language.")] = "",
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="Only this collection.")] = "",
    host: Annotated[str, typer.Option("--host", help="Only this host.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="DATE", help="Only what was fetched since, as in 2026-11-21.")] = "",
    max_size: Annotated[str, typer.Option("--max-size", metavar="SIZE", help="Size at which a new file is begun.")] = "1GB",
    responses_only: Annotated[bool, typer.Option("--responses-only", help="Leave out request and metadata records.")] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Copy the committed captures into standard WARC files with a CDXJ index."""
    from lycosa.export.warc import Selection, export_warc
    from lycosa.store.workspace import Workspace

    chosen = Selection(language, collection, host, date_ms(since) or 0)
    opened = Workspace.open(workspace_root(context, workspace))
    report = export_warc(opened, target, chosen, max_file_bytes=parse_size(max_size), responses_only=responses_only)
    if json_output:
        print_json(
            {
                "files": [str(path) for path in report.files],
                "index": str(report.index) if report.index else None,
                "captures": report.captures,
                "kept": report.kept,
                "without_record": report.without_record,
                "bytes": report.bytes,
            }
        )
        return
    for path in report.files:
        print(path)
    print(
        f"{report.captures:,} captures in {len(report.files)} files, {format_size(report.bytes)}"
        + (f"; {report.kept} files were there already" if report.kept else "")
    )
