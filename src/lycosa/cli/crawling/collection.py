"""`lycosa collection`: list, pause, resume, copy and purge collections."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer

from lycosa.cli.options import InWorkspace, completion
from lycosa.cli.output import Output, counts, omitted, table
from lycosa.core.units import format_size, number_of

app = typer.Typer(help="List, pause, resume, copy or purge collections.", no_args_is_help=True)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the collection.", autocompletion=completion("collections")
    ),
]


@app.command("list")
def list_(where: InWorkspace) -> Output:
    """List collections with their pages and sizes."""
    summaries = where.open().collections.list()
    rows = []
    for each in summaries:
        language = f" ({each.language})" if each.language else ""
        on_disk = f", {format_size(each.on_disk)} in tables of its own" if each.on_disk else ""
        text = (
            f"{number_of(each.pages, 'page')} of {number_of(each.sites, 'site')}, "
            f"{format_size(each.bytes)}{on_disk}; URLs: {counts(each.urls) or 'none'}"
            f"{'; paused' if each.paused else ''}{'' if each.configured else '; not configured'}"
        )
        rows.append((f"{each.name}{language}", text))
    return Output(summaries, table(rows) or "no collections yet")


@app.command()
def copy(
    where: InWorkspace,
    name: NameArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Target workspace. It must not contain this collection."
        ),
    ],
) -> Output:
    """Copy a collection and its archive into another workspace."""
    report = where.open().collections.copy(name, target)
    text = (
        f"copied rows: {counts(report.rows)}; "
        f"{number_of(report.exchanges, 'archived capture')}, {format_size(report.bytes)}"
        f"{omitted([record.reason for record in report.unreadable], 'record')}\n"
        f"next: lycosa -w {quote(target)} index"
    )
    return Output(report, text, failed=bool(report.unreadable))


@app.command()
def pause(where: InWorkspace, name: NameArgument) -> None:
    """Pause a collection until it is resumed.

    A running crawl stops fetching for it within seconds.
    """
    where.open().collections.pause(name)
    print(f"{name} is paused: a running crawl stops fetching for it within 10 seconds")


@app.command()
def resume(where: InWorkspace, name: NameArgument) -> None:
    """Resume a paused collection."""
    where.open().collections.resume(name)
    print(f"{name} is resumed")


@app.command()
def purge(where: InWorkspace, name: NameArgument) -> Output:
    """Delete a collection that was removed from the configuration.

    Deletes its rows and the archived records that no other collection uses. No crawl may be
    running.
    """
    report = where.open().collections.purge(name)
    lines = [
        f"deleted: {counts(report.rows) or 'no rows'}; "
        f"{number_of(report.records, 'archived record')}; "
        f"{format_size(report.bytes_deleted)} in total",
        *(f"not yet: {path}: {why}" for path, why in report.pending),
    ]
    return Output(report, "\n".join(lines), failed=bool(report.pending))
