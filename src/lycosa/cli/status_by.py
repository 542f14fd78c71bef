"""`lycosa status --by`: tables by language, collection, type or host; for people, as JSON, as
CSV.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from lycosa.cli.common import counts, print_json
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_size, number_of

if TYPE_CHECKING:
    from lycosa.commands.models import GroupRow, GroupTable, HostTable

_ATTEMPTS = 3
_DAYS_SHOWN = 14


def print_table(
    root: str, by: str, config: Any, *, sites: bool, hosts: int, as_json: bool, as_csv: bool
) -> None:
    """Print one of the tables.

    Raises:
        UsageError: there is no such table.
        WorkError: table files were replaced repeatedly while they were read.
    """
    from lycosa.commands.inspection.status_by import WAYS, groups_of, hosts_of
    from lycosa.store.workspace import Workspace

    if by not in WAYS:
        raise UsageError(f"--by {by!r}: choose {', '.join(WAYS)}")
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other: choose one")
    if sites and by == "host":
        raise UsageError("--sites cannot be combined with --by host, which lists all hosts")
    workspace = Workspace.open(root)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            if by == "host":
                _print_hosts(
                    hosts_of(workspace, None if as_json or as_csv else hosts), as_json, as_csv
                )
            else:
                way = next(each for each in WAYS if each == by)
                _print_groups(
                    groups_of(workspace, way, config, sites=sites), as_json, as_csv, sites=sites
                )
            return
        except FileNotFoundError as error:  # a merge took a file away: read the log again
            if attempt == _ATTEMPTS:
                raise WorkError(
                    f"table files were replaced three times while they were read ({error}): try "
                    "again when no compaction runs"
                ) from None


def _print_groups(table: GroupTable, as_json: bool, as_csv: bool, *, sites: bool) -> None:
    if as_json:
        print_json(asdict(table))
        return
    if as_csv:
        from lycosa.commands.models import GroupHost, GroupRow

        if sites:
            _csv(
                [field.name for field in fields(GroupHost)],
                (asdict(site).values() for site in table.sites),
                table.by,
            )
        else:
            _csv(
                [field.name for field in fields(GroupRow)],
                (asdict(row).values() for row in table.rows),
                table.by,
            )
        return
    heads = (table.by, "pages", "sites", "size", "newest", "period", "pages/day", "bytes/day")
    _aligned([heads, *map(_cells, table.rows), _cells(table.total)])
    if sites:
        for row in table.rows:
            print(f"\n{row.name or 'unknown'}")
            _aligned(
                [
                    (site.host, f"{site.pages:,}", format_size(site.bytes))
                    for site in table.sites
                    if site.name == row.name
                ]
            )


def _cells(row: GroupRow) -> tuple[str, ...]:
    period = f"{row.first:%Y-%m-%d} to {row.newest:%Y-%m-%d}" if row.first and row.newest else ""
    newest = f"{row.newest:%Y-%m-%d %H:%M}" if row.newest else ""
    means = (f"{row.pages_a_day:,.1f}", format_size(row.bytes_a_day))
    return (
        row.name or "total",
        f"{row.pages:,}",
        f"{row.sites:,}",
        format_size(row.bytes),
        newest,
        period,
        *means,
    )


def _print_hosts(table: HostTable, as_json: bool, as_csv: bool) -> None:
    if as_json:
        document = asdict(table)
        document["new_by_day"] = {
            day.isoformat(): number for day, number in table.new_by_day.items()
        }
        print_json(document)
        return
    if as_csv:
        from lycosa.commands.models import HostSummary

        _csv(
            [field.name for field in fields(HostSummary)],
            (asdict(host).values() for host in table.hosts),
            "host",
        )
        return
    rows = [("host", "pages", "known", "size", "found", "server")]
    for host in table.hosts:
        found = f"{host.first_seen_at:%Y-%m-%d}" if host.first_seen_at else ""
        rows.append(
            (
                host.host,
                f"{host.pages:,}",
                f"{host.known:,}",
                format_size(host.bytes),
                found,
                host.server,
            )
        )
    _aligned(rows)
    print(f"\n{number_of(table.total, 'host')}")
    latest = list(table.new_by_day.items())[-_DAYS_SHOWN:]
    print(
        "hosts discovered per day: "
        + ", ".join(f"{day.isoformat()} {number:,}" for day, number in latest)
    )
    print("server software: " + counts(table.servers))


def _csv(heads: Sequence[str], rows: Iterable[Iterable[object]], first: str) -> None:
    """With a head line; the column `name` is called after what it names."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([first if head == "name" else head for head in heads])
    for row in rows:
        writer.writerow(["" if value is None else value for value in row])


def _aligned(rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, numbers to the right."""
    if not rows:
        return
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
