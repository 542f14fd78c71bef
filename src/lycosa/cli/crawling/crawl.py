"""`lycosa crawl`: crawl and index to the end; a second call resumes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.crawling.progress import MAX_FAILURES, ProgressBar, ProgressLines, stop_on_signals
from lycosa.cli.options import (
    DEFAULT_WORKSPACE,
    DelayOption,
    EngineWorkers,
    IntoOption,
    InWorkspace,
    JsonOption,
    NoIndexOption,
    QuietOption,
    SeedsOption,
    typed_seeds,
    values_of,
)
from lycosa.cli.output import counts, note, print_json, status_counts, table
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkError
from lycosa.core.units import format_duration, format_size, number_of

if TYPE_CHECKING:
    from lycosa.commands.crawl_models import CrawlReport

_ENDS = {
    "finished": "Finished: no URLs are due",
    "max_pages": "Stopped at --max-pages",
    "max_time": "Stopped at --max-time",
    "stopped": "Stopped on request. The same command resumes the crawl",
}


@dataclass(frozen=True)
class CrawlOptions(EngineWorkers):
    """The options of a crawl, named as the parameters of `Workspace.crawl`."""

    max_pages: Annotated[
        int | None,
        typer.Option("--max-pages", metavar="N", min=0, help="Stop after this many new pages."),
    ] = None
    max_time: Annotated[
        str,
        typer.Option("--max-time", metavar="TIME", help="Stop after this time, for example 10m."),
    ] = ""
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=0,
            help="Maximum number of links from a seed; 0: only the seeds.",
        ),
    ] = None
    delay: DelayOption = ""
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="Crawl order: breadth-first, depth-first, server-first or best-first.",
        ),
    ] = ""
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL|unvisited",
            help="Fetch only known unvisited URLs: those found through this URL, or all "
            "(`unvisited`).",
        ),
    ] = ""
    scope: Annotated[
        str,
        typer.Option("--scope", metavar="host|domain|prefix|any", help="Which links to follow."),
    ] = ""
    collection: IntoOption = "default"


def command(
    where: InWorkspace,
    options: CrawlOptions,
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL", help="Seed URLs. Without one, the crawl is resumed."),
    ] = None,
    seeds: SeedsOption = "",
    no_index: NoIndexOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Crawl sites, archive them and index them.

    Without a URL, an interrupted crawl is resumed.
    """
    workspace = where.open()
    typed = typed_seeds(urls, seeds)
    show: ProgressLines | None = None
    if not quiet:
        show = ProgressBar() if sys.stderr.isatty() and not json_output else ProgressLines()
    try:
        report = workspace.crawl(
            *typed,
            **values_of(options),
            index=not no_index,
            on_progress=show.update if show else None,
            on_start=stop_on_signals,
        )
    finally:
        if show:
            show.close()
    if json_output:
        print_json(report)
    elif not quiet:
        _print(report, typed)
    config = workspace.config()
    if report.public_pages > config.crawl.remind_pages and not config.fetch.contact:
        note(
            "set fetch.contact to a URL or mail address, so that webmasters can reach you: --set "
            "fetch.contact=you@example.org"
        )
    if report.has_nothing:
        raise WorkError(f"nothing was fetched: {_failures(report)}")


def _failures(report: CrawlReport) -> str:
    shown = list(report.failures.items())[:MAX_FAILURES]
    more = len(report.failures) - len(shown)
    return "; ".join(f"{url}: {why}" for url, why in shown) + (f"; and {more} more" if more else "")


def _print(report: CrawlReport, seeds: Sequence[str]) -> None:
    damaged = counts(report.damaged)
    rows = [
        (
            "pages",
            f"{report.pages:,} in {format_duration(round(report.seconds * 1000))} "
            f"({report.pages_per_second:,.1f}/s)",
        ),
        (
            "fetched",
            f"{number_of(report.visits, 'request')}, {format_size(report.bytes)}, "
            f"{number_of(report.hosts, 'host')}",
        ),
        ("URLs", counts(report.states) or "none"),
        ("status", status_counts(report.statuses)),
        ("languages", counts(report.languages)),
        (
            "recovered",
            f"{report.replayed:,} archived captures of an interrupted run"
            if report.replayed
            else "",
        ),
        (
            "damaged",
            f"{damaged} (unreadable parts of the archive; their URLs are fetched again)"
            if damaged
            else "",
        ),
        ("errors", counts(report.errors)),
        ("links refused", counts(report.refused)),
        ("deferred", counts(report.left_for_later)),
    ]
    print(
        "Finished: the remaining URLs are due later (see 'deferred')"
        if report.ended == "finished" and report.left_for_later
        else _ENDS.get(report.ended, report.ended)
    )
    print(table([row for row in rows if row[1]], "  "))
    where = "" if report.workspace == DEFAULT_WORKSPACE else f" -w {quote(report.workspace)}"
    if not report.has_nothing and (report.pages or report.states.get("visited")):
        print(f"\nNext: lycosa{where} search WORDS   or   lycosa{where} serve")
    elif seeds and not report.visits:
        print(f"\nNext: lycosa{where} explain {quote(seeds[0])}")
