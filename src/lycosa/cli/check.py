"""`lycosa check`: verify a workspace."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root


def command(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every archived record.")] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Verify the log, the files, the states of URLs and what the archive holds. Exit code 1 if something is wrong."""
    from dataclasses import asdict

    from lycosa.store.check import verify
    from lycosa.store.workspace import Workspace

    report = verify(Workspace.open(workspace_root(context, workspace)), deep=deep)
    if json_output:
        print_json({**asdict(report), "counts": dict(report.counts)})  # asdict makes another Counter of a Counter
    else:
        for finding in report.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}; {finding.remedy}")
        print(report.summary())
    if not report.ok:
        raise typer.Exit(1)
