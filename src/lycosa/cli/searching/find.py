"""`lycosa find`: find a text in stored pages, or in a site crawled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.crawling.progress import stop_on_signals
from lycosa.cli.options import DelayOption, IgnoreOption, InWorkspace, JsonOption, SiteOption
from lycosa.cli.output import note, print_json, print_match
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.matching.matches import StoredMatch


@dataclass(frozen=True)
class CrawlFirst:
    """The options for fetching pages before they are searched."""

    crawl: Annotated[
        bool,
        typer.Option("--crawl", help="First fetch pages whose stored copy is missing or too old."),
    ] = False
    max_age: Annotated[
        str,
        typer.Option(
            "--max-age", metavar="TIME", help="With --crawl: maximum age of a stored copy."
        ),
    ] = "1d"
    delay: DelayOption = ""
    max_pages: Annotated[
        int | None,
        typer.Option(
            "--max-pages",
            metavar="N",
            min=0,
            help="With --crawl: maximum number of pages to fetch.",
        ),
    ] = None


def command(
    where: InWorkspace,
    first: CrawlFirst,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Text to find, as it appears in the page.")
    ],
    site: SiteOption = "",
    ignore: IgnoreOption = None,
    collection: Annotated[
        str,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="Only this collection; with --crawl, store pages in it.",
        ),
    ] = "",
    json_output: JsonOption = False,
) -> None:
    """Find a text in stored pages, or in a site crawled for it."""
    workspace = where.open()
    out = _Output(json_output)
    if not first.crawl:
        if first.delay or first.max_pages is not None:
            raise UsageError("--delay and --max-pages require --crawl")
        scan = workspace.texts.find(*texts, ignore=ignore or (), site=site, collection=collection)
        for match in scan.run():
            out.show(match)
        out.end(f"{number_of(scan.pages, 'page')} searched", pages=scan.pages)
        return
    if not site:
        raise UsageError("--crawl requires --site")
    report = workspace.texts.find_in_site(
        *texts,
        site=site,
        ignore=ignore or (),
        collection=collection or "default",
        max_age=first.max_age,
        max_pages=first.max_pages,
        delay=first.delay or None,
        on_match=out.show,
        on_start=stop_on_signals,
        report=note,
    )
    show = f"show matches: lycosa watch matches {report.id}"
    facts = {"id": report.id, "fetched": report.fetched, "left": report.left}
    if report.running:
        out.end(show, **facts)
        return
    rest = ""
    if report.left:
        rest = f"; {number_of(report.left, 'page')} left: the next `lycosa crawl` continues"
    out.end(f"{number_of(report.fetched, 'page')} fetched{rest}; {show}", **facts)


class _Output:
    """Prints each match immediately, or collects all for one JSON document."""

    def __init__(self, json_output: bool) -> None:
        self._json = json_output
        self._matches: list[StoredMatch] = []
        self._pages: set[str] = set()
        self._count = 0

    def show(self, match: StoredMatch) -> None:
        self._count += 1
        self._pages.add(match.url)
        if self._json:
            self._matches.append(match)
        else:
            print_match(match)

    def end(self, where: str, **facts: object) -> None:
        if self._json:
            print_json({**facts, "matches": self._matches})
        note(
            f"{number_of(self._count, 'match', 'matches')} on "
            f"{number_of(len(self._pages), 'page')}, {where}"
        )
        if not self._count:
            raise typer.Exit(1)
