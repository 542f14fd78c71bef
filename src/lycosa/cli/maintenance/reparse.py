"""`lycosa reparse`: parse the archive again, without fetching."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import CollectionOption, InWorkspace, SinceOption
from lycosa.cli.output import Output, note
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    collection: CollectionOption = "",
    since: SinceOption = 0,
    fields: Annotated[
        bool, typer.Option("--fields", help="Extract items only; leave text, links and index.")
    ] = False,
) -> Output:
    """Parse archived pages again and store changed results."""
    report = where.open().archive.reparse(
        collection=collection, since=since, fields_only=fields, report=note
    )
    if fields:
        return Output(
            report,
            f"items of {number_of(report.pages, 'page')} extracted again; {report.changed:,} "
            "pages changed",
        )
    lines = [
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, "
        f"{report.text_changed:,} of them with a different text",
        f"{report.unreadable:,} could not be parsed and keep their rows",
    ]
    return Output(report, "\n".join(lines if report.unreadable else lines[:1]))
