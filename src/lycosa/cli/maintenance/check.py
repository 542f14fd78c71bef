"""`lycosa check`: verify a workspace, and repair what can be repaired."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import InWorkspace, JsonOption, values_of
from lycosa.cli.output import print_json


def command(
    where: InWorkspace,
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
    json_output: JsonOption = False,
) -> None:
    """Verify the log, tables, URL states, archive and index.

    The exit code is 1 if an error is found.
    """
    result = where.open().check(deep=deep, repair=repair)
    report = result.report
    if json_output:
        repaired = {"repaired": result.done, "not_repaired": result.failed} if repair else {}
        print_json({**values_of(report), **repaired})
    else:
        for path, action in result.done:
            print(f"repaired: {path}: {action}")
        for path, why in result.failed:
            print(f"not repaired: {path}: {why}")
        for finding in report.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}; {finding.remedy}")
        print(report.summary())
    if not report.ok:
        raise typer.Exit(1)
