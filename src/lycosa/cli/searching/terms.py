"""`lycosa terms`: count words, and find those that become more frequent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import InWorkspace, PageFilter, date_option, values_of
from lycosa.cli.output import Output
from lycosa.core.dataclass import dataclass
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.search.query.term_statistics import TermsReport


@dataclass(frozen=True)
class TermOptions:
    """The options, named as the parameters of `WorkspaceStatistics.terms`."""

    until: Annotated[int, date_option("--until", "Only pages fetched before this date.")] = 0
    rising: Annotated[
        bool, typer.Option("--rising", help="Only words that are more frequent in recent pages.")
    ] = False
    period: Annotated[
        str,
        typer.Option("--period", metavar="TIME", help="Maximum age of a recent page."),
    ] = "7d"
    stop_words: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Include stop words: function words, and words spread evenly over the pages.",
        ),
    ] = False
    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", min=1, max=100_000, help="Number of words."),
    ] = 50


def command(where: InWorkspace, pages: PageFilter, options: TermOptions) -> Output:
    """Count words in stored pages by language, site and time."""
    report = where.open().statistics.terms(**values_of(pages), **values_of(options))
    width = max((len(term.text) for term in report.terms), default=4)
    head = f"{'word':<{width}}  lang  {'pages':>9}  {'count':>9}  {'recent':>8}"
    lines = [head + ("  surprise" if options.rising else "")]
    for term in report.terms:
        line = (
            f"{term.text:<{width}}  {term.language or '?':<4}  {term.documents:>9,}  "
            f"{term.total:>9,}  {term.recent:>8,}"
        )
        lines.append(line + (f"  {term.surprise:>8,.1f}" if options.rising else ""))
    recent = f", {report.recent_pages:,} of them recent (since {report.recent_since[:10]})"
    missed = (
        f"\ntoo many words to count: some words on up to {number_of(report.missed, 'page')} "
        "are missing"
    )
    text = "\n".join(lines) if report.terms else _reason(report, options)
    summary = number_of(report.pages, "page") + (recent if report.pages else "")
    return Output(report, text, summary + (missed if report.missed else ""))


def _reason(report: TermsReport, options: TermOptions) -> str:
    """Return why the list is empty."""
    if not report.pages:
        return "no page matches: crawl with `lycosa crawl URL`, or choose other filters"
    if not options.rising:
        return "no words besides stop words: --all includes them"
    if report.pages == report.recent_pages:
        return (
            f"no rising words: all pages are recent (--period {options.period}), so there are no "
            "earlier ones to compare with; choose a shorter --period"
        )
    return (
        "no rising words: no word is on a significantly larger share of the recent pages than of "
        "the earlier ones, and on at least 3 of them"
    )
