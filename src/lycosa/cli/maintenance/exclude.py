"""`lycosa exclude`: exclude sites, and delete their stored data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import InWorkspace
from lycosa.cli.output import Output, counts, table
from lycosa.core.units import format_size, number_of

if TYPE_CHECKING:
    from lycosa.commands.models import ExclusionReport


def command(
    where: InWorkspace,
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SITE",
            help="Host, URL, domain:NAME (with its subdomains) or prefix:URL (default: list all).",
        ),
    ] = None,
    purge: Annotated[
        bool,
        typer.Option("--purge/--keep", help="Also delete stored pages, records and index entries."),
    ] = False,
) -> Output:
    """Exclude sites permanently from crawling and search."""
    report = where.open().maintenance.exclude(*(rules or ()), purge=purge)
    failed = purge and bool(report.pending)
    return Output(report, _text(report, listing=not rules), failed=failed)


def _text(report: ExclusionReport, *, listing: bool) -> str:
    deleted = (
        f"{counts(report.rows) or 'no rows'}; {number_of(report.records, 'archived record')}; "
        f"{format_size(report.bytes_deleted)} in total"
    )
    rows = [
        ("excluded", ", ".join(report.rules)),
        *([("deleted", deleted)] if report.purged else []),
        *(("not yet", f"{path}: {why}") for path, why in report.pending.items()),
    ]
    end = ""
    if report.purged and report.pending:
        end = "\n\nNot everything could be deleted yet: run the command again later."
    elif report.purged:
        end = "\n\nDeleted from this workspace. Copies and exports are not affected."
    elif not listing:
        end = (
            "\n\nThe pages are no longer fetched, found or shown. They are still on disk: add "
            "--purge to delete them."
        )
    return table(rows) + end
