"""`lycosa index`: bring the search index up to the log, or rebuild it."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import EngineOptions, InWorkspace, values_of
from lycosa.cli.output import Output
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    engine: EngineOptions,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the index from the tables.")
    ] = False,
) -> Output:
    """Update the search index."""
    report = where.open().maintenance.index(rebuild=rebuild, **values_of(engine))
    text = (
        f"generation {report.generation}: {number_of(report.documents, 'document')}, up to log "
        f"entry {report.log_entry}"
    )
    return Output(report, text)
