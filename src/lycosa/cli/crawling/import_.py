"""`lycosa import`: import archives of other crawlers into a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import IntoOption, InWorkspace, NoIndexOption, OutputOptions
from lycosa.cli.output import Output, counts, note, table
from lycosa.core.errors import WorkError
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.crawl.recovery.import_archives import Imported

_NOTE_EVERY = 10_000  # captures


class _Notes:
    """Prints a line for every 10,000 captures."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, report: Imported) -> None:
        if report.captures - self._shown >= _NOTE_EVERY:
            self._shown = report.captures
            note(
                f"{number_of(report.captures, 'capture')} read, {report.imported:,} imported, "
                f"{number_of(report.pages, 'page')}"
            )


def command(
    where: InWorkspace,
    output: OutputOptions,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="WARC, WACZ or ARC files, or directories with such files or with pages.",
        ),
    ],
    collection: IntoOption = "default",
    base: Annotated[
        str, typer.Option("--base", metavar="URL", help="For a directory of pages: its URL.")
    ] = "",
    in_scope: Annotated[
        bool,
        typer.Option("--in-scope", help="Import only pages within the scope of the collection."),
    ] = False,
    no_index: NoIndexOption = False,
) -> None:
    """Import archives into a collection.

    Captures are archived, parsed and indexed like crawled pages. Existing captures are skipped.
    """
    report = where.open().archive.import_files(
        *files,
        collection=collection,
        base=base,
        in_scope=in_scope,
        index=not no_index,
        on_progress=None if output.json_output or output.quiet else _Notes().show,
    )
    rows = [
        ("captures", f"{report.captures:,} in {number_of(report.files, 'file')}"),
        ("imported", f"{report.imported:,}, {number_of(report.pages, 'page')}"),
        (
            "truncated",
            f"{report.truncated:,} larger than fetch.max_body" if report.truncated else "",
        ),
        ("already stored", f"{report.already_there:,}" if report.already_there else ""),
        ("skipped", counts(report.left_out)),
        ("other records", counts(report.others)),
    ]
    printed = Output(report, table([row for row in rows if row[1]], "  "))
    printed.print(as_json=output.json_output, quiet=output.quiet)
    if report.damaged:
        messages = "\n".join(report.damaged.values())
        raise WorkError(
            f"{messages}\nthe captures that can be read are imported; repair the file and run the "
            "command again (nothing is imported twice)"
        )
