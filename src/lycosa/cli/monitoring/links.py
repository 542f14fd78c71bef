"""`lycosa links`: links to a URL, links of a page, and broken links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import AllOption, InWorkspace, JsonOption, SiteOption
from lycosa.cli.output import note, print_json
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.site.links import StoredLink

_MAX_LINKS = 100


def command(
    where: InWorkspace,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Links to this URL.")] = "",
    source: Annotated[str, typer.Option("--from", metavar="URL", help="Links on this page.")] = "",
    broken: Annotated[
        bool, typer.Option("--broken", help="Only links to pages that could not be fetched.")
    ] = False,
    site: SiteOption = "",
    every: AllOption = False,
    json_output: JsonOption = False,
) -> None:
    """List stored links: to a URL, from a URL, or broken links."""
    links = where.open().links(to=to, source=source, broken=broken, site=site)
    if json_output:
        print_json(links)
    else:
        shown = links if every else links[:_MAX_LINKS]
        if bool(to) != bool(source):
            for link in shown:
                url = link.target if source else link.source
                print(f"{url}  {link.kind} {link.anchor!r}  {_outcome(link)}".rstrip())
        else:
            _print_by_target(shown)
        more = ""
        if len(shown) < len(links):
            more = f", the first {len(shown)} shown; --all prints all"
        note(f"{number_of(len(links), 'link')}{more}")
    if not links:
        raise typer.Exit(1)


def _print_by_target(links: list[StoredLink]) -> None:
    target = ""
    for link in sorted(links, key=lambda link: link.target):
        if link.target != target:
            target = link.target
            print(f"{target}  {_outcome(link)}".rstrip())
        print(f"  {link.source}  {link.kind} {link.anchor!r}")


def _outcome(link: StoredLink) -> str:
    redirect = f"redirects to {link.end}" if link.end else ""
    return ", ".join(part for part in (redirect, link.answer) if part)
