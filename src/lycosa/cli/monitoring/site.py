"""`lycosa site`, `links` and `changes`: audit of a site, stored links, changed pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import (
    AllOption,
    InWorkspace,
    PeriodOption,
    SiteOption,
    completion,
    start_of,
)
from lycosa.cli.output import Output, note
from lycosa.core.dataclass import dataclass
from lycosa.core.units import number_of, parse_duration_ms, parse_size

if TYPE_CHECKING:
    from lycosa.site.changes import PageChange
    from lycosa.site.links import StoredLink

_MAX_LINKS = 100
_MAX_PAGES = 20
_MAX_LINES = 12
_MAX_WIDTH = 160


@dataclass(frozen=True)
class Files:
    """Files to write."""

    csv: Annotated[
        str,
        typer.Option(
            "--csv", metavar="DIR", help="Write each list as a CSV file to this directory."
        ),
    ] = ""
    svg: Annotated[
        str,
        typer.Option(
            "--svg", metavar="FILE", help="Write a drawing of the site structure to this file."
        ),
    ] = ""


def site(
    where: InWorkspace,
    files: Files,
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST",
            help="Host, host:port or URL of the site.",
            autocompletion=completion("hosts"),
        ),
    ],
    every: AllOption = False,
    slow: Annotated[
        str,
        typer.Option(
            "--slow", metavar="TIME", help="Response time from which a page is listed as slow."
        ),
    ] = "1s",
    large: Annotated[
        str,
        typer.Option("--large", metavar="SIZE", help="Size from which a page is listed as large."),
    ] = "1MB",
) -> Output:
    """Audit a site: structure, broken links, redirects, duplicates, orphans."""
    from lycosa.site.output import site_text, write_csv
    from lycosa.site.picture import write_picture
    from lycosa.site.report import Thresholds

    limits = Thresholds(parse_duration_ms(slow), parse_size(large))
    sites = where.open().sites
    report = sites.audit(host, slow=limits.slow_ms / 1000, large_bytes=limits.large_bytes)
    if files.csv:
        for path in write_csv(report, files.csv):
            note(f"wrote {path}")
    if files.svg:
        write_picture(report, files.svg)
        note(f"wrote {files.svg}")
    text = "" if files.csv or files.svg else site_text(report, limits, every=every)
    return Output(report, text)


def links(
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


def changes(
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
