"""`lycosa links`: who links to a URL, what a page links to, and what leads nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SiteOption,
    WorkspaceOption,
    note,
    print_json,
    workspace_root,
)
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.site.links import StoredLink

_SHOWN = 100


def command(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Links to this URL.")] = "",
    source: Annotated[str, typer.Option("--from", metavar="URL", help="Links on this page.")] = "",
    broken: Annotated[
        bool, typer.Option("--broken", help="Only links to pages that could not be fetched.")
    ] = False,
    site: SiteOption = "",
    every: Annotated[
        bool, typer.Option("--all", help="Print all links instead of the first 100.")
    ] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """List stored links: to a URL, from a URL, or broken links."""
    from dataclasses import asdict

    from lycosa.site.links import links_of

    if not (to or source or broken):
        raise UsageError("choose --to URL, --from URL or --broken")
    found = links_of(workspace_root(context, workspace), to, source, broken=broken, site=site)
    if json_output:
        print_json([asdict(link) for link in found])
    else:
        _show(found, to, source, every=every)
    if not found:
        raise typer.Exit(1)


def _show(found: list[StoredLink], to: str, source: str, *, every: bool) -> None:
    shown = found if every else found[:_SHOWN]
    if to and not source:
        _print(shown, by_source=False)
    elif source and not to:
        _print(shown, by_source=True)
    else:
        shown = sorted(shown, key=lambda link: link.target)
        for number, link in enumerate(shown):
            if not number or shown[number - 1].target != link.target:
                print(f"{link.target}  {_outcome(link)}".rstrip())
            print(f"  {link.source}  {link.kind} {link.anchor!r}")
    note(
        f"{number_of(len(found), 'link')}"
        + (f", the first {len(shown)} shown; --all prints all" if len(shown) < len(found) else "")
    )


def _print(links: list[StoredLink], *, by_source: bool) -> None:
    for link in links:
        print(
            f"{link.target if by_source else link.source}  {link.kind} {link.anchor!r}  "
            f"{_outcome(link)}".rstrip()
        )


def _outcome(link: StoredLink) -> str:
    parts = [f"redirects to {link.end}"] if link.end else []
    return ", ".join([*parts, link.answer] if link.answer else parts)
