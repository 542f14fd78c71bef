"""`lycosa check`: verify a workspace, and repair what can be repaired."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import InWorkspace
from lycosa.cli.output import Output


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
) -> Output:
    """Verify the log, tables, URL states, archive and index.

    The exit code is 1 if an error is found.
    """
    report = where.open().maintenance.check(deep=deep, repair=repair)
    lines = [
        *(f"repaired: {path}: {action}" for path, action in report.repaired),
        *(f"not repaired: {path}: {why}" for path, why in report.not_repaired),
        *(f"{each.severity}: {each.where}: {each.what}; {each.remedy}" for each in report.findings),
        report.summary(),
    ]
    return Output(report, "\n".join(lines), failed=not report.ok)
