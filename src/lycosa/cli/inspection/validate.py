"""`lycosa validate`: errors of an HTML document against the standard."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.input import is_file, read_input
from lycosa.cli.options import AllOption, InWorkspace
from lycosa.cli.output import Output
from lycosa.core.units import number_of

_MAX_ERRORS = 50


def command(
    where: InWorkspace,
    source: Annotated[
        str, typer.Argument(metavar="URL|FILE", help="Archived URL, file, or - for standard input.")
    ],
    every: AllOption = False,
) -> Output:
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
    faults = checked.faults
    shown = faults if every else faults[:_MAX_ERRORS]
    lines = [f"{each.line}:{each.column}  {each.code}  {each.message}" for each in shown]
    if len(shown) < len(faults):
        lines.append(f"and {len(faults) - _MAX_ERRORS:,} more; --all prints them")
    common = Counter(each.code for each in faults).most_common(5)
    kinds = ", ".join(f"{code} {count}" for code, count in common)
    fetched = f", fetched {checked.fetched_at:%Y-%m-%d %H:%M} UTC" if checked.fetched_at else ""
    summary = f"{checked.source}{fetched}: {number_of(len(faults), 'error')}"
    summary += f" ({kinds})" if kinds else ""
    return Output(checked, "\n".join(lines), summary, failed=bool(faults))
