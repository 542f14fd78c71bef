"""`lycosa compact`: compact small files, and delete obsolete ones."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import EngineOptions, InWorkspace, values_of
from lycosa.cli.output import Output
from lycosa.core.units import format_size, number_of


def command(
    where: InWorkspace,
    engine: EngineOptions,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Compact all files of each table (default: only many small files)."
        ),
    ] = False,
) -> Output:
    """Compact small files and delete obsolete ones.

    A running crawl does this automatically.
    """
    result = where.open().maintenance.compact(full=full, **values_of(engine))
    merged, swept = result.merged, result.swept
    text = (
        f"{number_of(merged.files_before, 'file')} became {merged.files_after:,}; "
        f"{number_of(merged.rows_dropped, 'outdated row')} dropped, "
        f"{format_size(merged.bytes_read)} read, {format_size(merged.bytes_written)} written\n"
        f"deleted: {number_of(swept.files, 'replaced file')}, "
        f"{number_of(swept.entries, 'log entry', 'log entries')}, {format_size(swept.bytes)}"
    )
    return Output(result, text)
