"""Tables of `lycosa status --by`: as text, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Any

from lycosa.cli.output import counts, print_json
from lycosa.commands.models import GroupHost, GroupRow, GroupTable, HostSummary, HostTable
from lycosa.core.units import format_size, number_of

_MAX_DAYS = 14


def print_groups(groups: GroupTable, form: str, *, sites: bool) -> None:
    """Print a table by language, collection or type; `form`: text, json or csv."""
    if form == "json":
        print_json(groups)
        return
    if form == "csv":
        rows = groups.sites if sites else groups.rows
        _print_csv(GroupHost if sites else GroupRow, rows, groups.by)
        return
    heads = (groups.by, "pages", "sites", "size", "newest", "period", "pages/day", "bytes/day")
    _print_aligned([heads, *map(_cells, groups.rows), _cells(groups.total)])
    for row in groups.rows if sites else ():
        print(f"\n{row.name or 'unknown'}")
        _print_aligned(
            [
                (site.host, f"{site.pages:,}", format_size(site.bytes))
                for site in groups.sites
                if site.name == row.name
            ]
        )


def _cells(row: GroupRow) -> tuple[str, ...]:
    period = f"{row.first:%Y-%m-%d} to {row.newest:%Y-%m-%d}" if row.first and row.newest else ""
    newest = f"{row.newest:%Y-%m-%d %H:%M}" if row.newest else ""
    return (
        row.name or "total",
        f"{row.pages:,}",
        f"{row.sites:,}",
        format_size(row.bytes),
        newest,
        period,
        f"{row.pages_a_day:,.1f}",
        format_size(row.bytes_a_day),
    )


def print_hosts(hosts: HostTable, form: str) -> None:
    """Print a table by host; `form`: text, json or csv."""
    if form == "json":
        print_json(hosts)
        return
    if form == "csv":
        _print_csv(HostSummary, hosts.hosts, "host")
        return
    rows = [("host", "pages", "known", "size", "first seen", "server")]
    for host in hosts.hosts:
        first = f"{host.first_seen_at:%Y-%m-%d}" if host.first_seen_at else ""
        size = format_size(host.bytes)
        rows.append((host.host, f"{host.pages:,}", f"{host.known:,}", size, first, host.server))
    _print_aligned(rows)
    latest = list(hosts.new_by_day.items())[-_MAX_DAYS:]
    by_day = ", ".join(f"{day} {number:,}" for day, number in latest)
    print(f"\n{number_of(hosts.total, 'host')}")
    print(f"hosts discovered per day: {by_day}")
    print(f"server software: {counts(hosts.servers)}")


def _print_csv(kind: type, rows: Sequence[Any], name: str) -> None:
    """Print CSV with a header; the column `name` has the name of the property."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = [field.name for field in fields(kind)]
    writer.writerow([name if column == "name" else column for column in columns])
    for row in rows:
        writer.writerow(["" if value is None else value for value in astuple(row)])


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    """Print columns, the first aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
