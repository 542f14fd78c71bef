"""`lycosa rank`: link ranks, anchor texts and duplicates of all pages."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import EngineOptions, InWorkspace, values_of
from lycosa.cli.output import Output, table
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    engine: EngineOptions,
    show: Annotated[
        int, typer.Option("--show", min=0, metavar="N", help="Number of duplicates to list.")
    ] = 0,
) -> Output:
    """Compute link ranks, duplicates and translations.

    The next index update applies them.
    """
    workspace = where.open()
    info = workspace.maintenance.rank(**values_of(engine))
    copies = workspace.maintenance.duplicates(show) if show else []
    rows = [
        (str(copy["url"]), f"duplicate of {copy['canonical_of']} ({copy['collection']})")
        for copy in copies
    ]
    lines = [
        f"generation {info.generation}, as of log entry {info.log_entry}: "
        f"{number_of(info.duplicates, 'duplicate page')} reached by redirects",
        f"{number_of(info.grouped, 'near-duplicate page')} in {number_of(info.groups, 'group')}; "
        "a search shows one page per group",
        table(rows, "  "),
    ]
    return Output({**values_of(info), "copies": copies}, "\n".join(filter(None, lines)))
