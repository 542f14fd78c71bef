"""`lycosa validate URL|FILE`: what an HTML document breaks of the standard."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    WorkspaceOption,
    is_file,
    load_config,
    note,
    print_json,
    read_input,
    workspace_root,
)
from lycosa.core.units import number_of

_SHOWN = 50


def command(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="URL|FILE", help="Archived URL, file, or - for standard input.")
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Print all errors instead of the first 50.")
    ] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Validate a page against the HTML standard.

    Prints code, line and column of each error. The exit code is 1 if there are errors.
    """
    from collections import Counter
    from dataclasses import asdict

    from lycosa.site.validate import Validated, html_faults, validate_archived

    if is_file(source):
        content = read_input(source)
        checked = Validated(source, None, len(content), html_faults(content))
    else:
        root = workspace_root(context, workspace)
        checked = validate_archived(root, load_config(context, root, overrides), source)
    if json_output:
        print_json(asdict(checked))
    else:
        for fault in checked.faults if every else checked.faults[:_SHOWN]:
            print(f"{fault.line}:{fault.column}  {fault.code}  {fault.message}")
        if len(checked.faults) > _SHOWN and not every:
            print(f"and {len(checked.faults) - _SHOWN:,} more; --all prints them")
        kinds = ", ".join(
            f"{code} {count}"
            for code, count in Counter(fault.code for fault in checked.faults).most_common(5)
        )
        fetched = f", fetched {checked.fetched_at:%Y-%m-%d %H:%M} UTC" if checked.fetched_at else ""
        note(
            f"{checked.source}{fetched}: {number_of(len(checked.faults), 'error')}"
            + (f" ({kinds})" if kinds else "")
        )
    if checked.faults:
        raise typer.Exit(1)
