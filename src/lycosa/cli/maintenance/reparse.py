"""`lycosa reparse`: parse the archive again, without fetching."""

from __future__ import annotations

from lycosa.cli.options import CollectionOption, InWorkspace, JsonOption, SinceOption
from lycosa.cli.output import print_json
from lycosa.core.units import number_of


def command(
    where: InWorkspace,
    collection: CollectionOption = "",
    since: SinceOption = 0,
    json_output: JsonOption = False,
) -> None:
    """Parse archived pages again and store changed results."""
    report = where.open().reparse(collection=collection, since=since)
    if json_output:
        print_json(report)
        return
    print(
        f"{number_of(report.pages, 'page')} parsed again; {report.changed:,} changed, "
        f"{report.text_changed:,} of them with a different text"
    )
    if report.unreadable:
        print(f"{report.unreadable:,} could not be parsed and keep their rows")
