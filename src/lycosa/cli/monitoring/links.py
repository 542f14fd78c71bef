"""`lycosa links`: links to a URL, links of a page, and broken links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import AllOption, InWorkspace, SiteOption
from lycosa.cli.output import Output
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
) -> Output:
    """List stored links: to a URL, from a URL, or broken links."""
    links = where.open().sites.links(to=to, source=source, broken=broken, site=site)
    shown = links if every else links[:_MAX_LINKS]
    if bool(to) != bool(source):
        lines = [
            f"{link.target if source else link.source}  {link.kind} {link.anchor!r}  "
            f"{_outcome(link)}".rstrip()
            for link in shown
        ]
    else:
        lines = list(_by_target(shown))
    more = f", the first {len(shown)} shown; --all prints all" if len(shown) < len(links) else ""
    summary = f"{number_of(len(links), 'link')}{more}"
    return Output(links, "\n".join(lines), summary, failed=not links)


def _by_target(links: list[StoredLink]) -> Iterator[str]:
    target = ""
    for link in sorted(links, key=lambda link: link.target):
        if link.target != target:
            target = link.target
            yield f"{target}  {_outcome(link)}".rstrip()
        yield (f"  {link.source}  {link.kind} {link.anchor!r}")


def _outcome(link: StoredLink) -> str:
    redirect = f"redirects to {link.end}" if link.end else ""
    return ", ".join(part for part in (redirect, link.answer) if part)
