"""`lycosa changes`: new, removed and changed pages, with text differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.monitoring.matches import start_of
from lycosa.cli.options import AllOption, InWorkspace, PeriodOption, SiteOption
from lycosa.cli.output import Output

if TYPE_CHECKING:
    from lycosa.site.changes import PageChange

_MAX_PAGES = 20
_MAX_LINES = 12
_MAX_WIDTH = 160


def command(
    where: InWorkspace,
    since: PeriodOption = "7d",
    site: SiteOption = "",
    no_diff: Annotated[
        bool, typer.Option("--no-diff", help="List only the pages, without text differences.")
    ] = False,
    every: AllOption = False,
) -> Output:
    """List new, removed and changed pages with text differences."""
    start = start_of(since)
    changes = where.open().sites.changes(start, site=site, differences=not no_diff)

    def show() -> None:
        for kind in ("new", "gone", "changed"):
            _print([change for change in changes if change.kind == kind], kind, every=every)

    return Output(changes, show, f"since {start:%Y-%m-%d %H:%M} UTC")


def _print(changes: list[PageChange], kind: str, *, every: bool) -> None:
    print(f"{kind}: {len(changes):,}")
    for change in changes if every else changes[:_MAX_PAGES]:
        print(f"  {change.at:%Y-%m-%d %H:%M}  {change.url}  {change.reason or change.title}")
        shown = change.difference if every else change.difference[:_MAX_LINES]
        for line in shown:
            print(f"    {line if every else line[:_MAX_WIDTH]}")
        if len(shown) < len(change.difference):
            print(f"    and {len(change.difference) - len(shown):,} more lines")
    if not every and len(changes) > _MAX_PAGES:
        print(f"  and {len(changes) - _MAX_PAGES:,} more")
