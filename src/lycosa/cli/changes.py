"""`lycosa changes`: pages that are new, gone or changed since a time, with the difference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    SiteOption,
    WorkspaceOption,
    date_ms,
    load_config,
    note,
    print_json,
    workspace_root,
)
from lycosa.core.units import parse_duration_ms

if TYPE_CHECKING:
    from lycosa.site.changes import PageChange

_SHOWN, _LINES = 20, 12


def command(
    context: typer.Context,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="DATE|TIME",
            help="Start: a date, for example 2026-11-21, or an age, for example 7d.",
        ),
    ] = "7d",
    site: SiteOption = "",
    no_diff: Annotated[
        bool, typer.Option("--no-diff", help="List only the pages, without text differences.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Print all pages and complete differences.")
    ] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """List new, removed and changed pages with text differences."""
    from dataclasses import asdict

    from lycosa.site.changes import changes_of

    root = workspace_root(context, workspace)
    start = datetime.fromtimestamp(date_ms(since) / 1000, UTC) if "-" in since else _ago(since)
    found = changes_of(
        root, load_config(context, root, overrides), start, site, differences=not no_diff
    )
    if json_output:
        print_json([asdict(change) for change in found])
        return
    for kind in ("new", "gone", "changed"):
        _print([change for change in found if change.kind == kind], kind, every=every)
    note(f"since {start:%Y-%m-%d %H:%M} UTC")


def _ago(text: str) -> datetime:
    return datetime.now(UTC) - timedelta(milliseconds=parse_duration_ms(text))


def _print(found: list[PageChange], kind: str, *, every: bool) -> None:
    print(f"{kind}: {len(found):,}")
    for change in found if every else found[:_SHOWN]:
        print(f"  {change.at:%Y-%m-%d %H:%M}  {change.url}  {change.reason or change.title}")
        shown = change.difference if every else change.difference[:_LINES]
        for line in shown:
            print(f"    {line if every else line[:160]}")
        if len(shown) < len(change.difference):
            print(f"    and {len(change.difference) - len(shown):,} more lines")
    if not every and len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN:,} more")
