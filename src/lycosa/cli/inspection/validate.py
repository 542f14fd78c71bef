"""`lycosa validate`: errors of an HTML document against the standard."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.input import is_file, read_input
from lycosa.cli.options import AllOption, InWorkspace, JsonOption
from lycosa.cli.output import note, print_json
from lycosa.core.units import number_of

_MAX_ERRORS = 50


def command(
    where: InWorkspace,
    source: Annotated[
        str, typer.Argument(metavar="URL|FILE", help="Archived URL, file, or - for standard input.")
    ],
    every: AllOption = False,
    json_output: JsonOption = False,
) -> None:
    """Validate a page against the HTML standard.

    Prints code, line and column of each error. The exit code is 1 if there are errors.
    """
    from collections import Counter

    from lycosa.site.validate import Validated, html_faults, validate_archived

    if is_file(source):
        content = read_input(source)
        checked = Validated(source, None, len(content), html_faults(content))
    else:
        checked = validate_archived(where.root, where.config(), source)
    if json_output:
        print_json(checked)
    else:
        for fault in checked.faults if every else checked.faults[:_MAX_ERRORS]:
            print(f"{fault.line}:{fault.column}  {fault.code}  {fault.message}")
        if len(checked.faults) > _MAX_ERRORS and not every:
            print(f"and {len(checked.faults) - _MAX_ERRORS:,} more; --all prints them")
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
