"""`lycosa reparse`: parse the archive again, without fetching."""

from __future__ import annotations

import os

import typer

from lycosa.cli.common import (
    CollectionOption,
    JsonOption,
    SetOption,
    SinceOption,
    WorkspaceOption,
    load_config,
    print_json,
    workspace_root,
)
from lycosa.core.units import number_of


def command(
    context: typer.Context,
    collection: CollectionOption = "",
    since: SinceOption = 0,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Parse archived pages again and store changed results."""
    from dataclasses import asdict

    from lycosa.commands.crawling.reparse import reparse_workspace

    root = workspace_root(context, workspace)
    report = reparse_workspace(
        root,
        load_config(context, root, overrides),
        collection or None,
        since or None,
        f"reparse-{os.getpid()}",
    )
    if json_output:
        print_json(asdict(report))
        return
    print(
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, "
        f"{report.text_changed:,} of them with a different text"
    )
    if report.unreadable:
        print(f"{report.unreadable:,} could not be parsed and keep their rows")
