"""`lycosa check`: verify a workspace, and mend what can be mended."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root


def command(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every archived record and every stored text.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Delete leftover files and rebuild derived data: CDXJ, index, link graph.",
        ),
    ] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Verify the log, tables, URL states, archive and index.

    The exit code is 1 if an error is found.
    """
    from dataclasses import asdict

    from lycosa.commands.maintenance.check import check_workspace
    from lycosa.commands.maintenance.repair import Repaired, repair_workspace

    root = workspace_root(context, workspace)
    repaired = (
        repair_workspace(root, deep=deep) if repair else Repaired(check_workspace(root, deep=deep))
    )
    report = repaired.report
    if json_output:
        changes = {"repaired": repaired.done, "not_repaired": repaired.failed} if repair else {}
        # asdict makes another Counter of a Counter
        print_json({**asdict(report), "counts": dict(report.counts), **changes})
    else:
        for where, done in repaired.done:
            print(f"repaired: {where}: {done}")
        for where, why in repaired.failed:
            print(f"not repaired: {where}: {why}")
        for finding in report.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}; {finding.remedy}")
        print(report.summary())
    if not report.ok:
        raise typer.Exit(1)
