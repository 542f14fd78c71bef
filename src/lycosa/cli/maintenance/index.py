"""`lycosa index`: bring the search index up to the log, or rebuild it."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import EngineOptions, InWorkspace, values_of
from lycosa.cli.output import Output, note
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    engine: EngineOptions,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the index from the tables.")
    ] = False,
) -> Output:
    """Update the search index and the vectors of chunks."""
    report = where.open().maintenance.index(rebuild=rebuild, **values_of(engine))
    text = (
        f"generation {report.generation}: {number_of(report.documents, 'document')}, up to log "
        f"entry {report.log_entry}"
    )
    vectors = report.vectors
    if vectors is None:
        return Output(report, text)
    text += (
        f"\nvectors: {number_of(vectors.chunks, 'chunk')} of {number_of(vectors.pages, 'page')}, "
        f"{vectors.encoded:,} encoded, {vectors.removed:,} removed"
    )
    if vectors.problem:
        note(f"{number_of(vectors.waiting, 'page')} without vectors: {vectors.problem}")
    return Output(report, text, failed=bool(vectors.problem))
