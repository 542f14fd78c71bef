"""`lycosa reparse`: parse the archive again, without fetching."""

from __future__ import annotations

from lycosa.cli.options import CollectionOption, InWorkspace, SinceOption
from lycosa.cli.output import Output
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    collection: CollectionOption = "",
    since: SinceOption = 0,
) -> Output:
    """Parse archived pages again and store changed results."""
    report = where.open().archive.reparse(collection=collection, since=since)
    lines = [
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, "
        f"{report.text_changed:,} of them with a different text",
        f"{report.unreadable:,} could not be parsed and keep their rows",
    ]
    return Output(report, "\n".join(lines if report.unreadable else lines[:1]))
