"""`lycosa terms`: the words that the pages hold, and those that rise."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    CollectionOption,
    JsonOption,
    LanguageOption,
    SinceOption,
    SiteOption,
    WorkspaceOption,
    date_ms,
    note,
    print_json,
    workspace_root,
)
from lycosa.core.units import format_time, number_of, parse_duration_ms


def command(
    context: typer.Context,
    language: LanguageOption = "",
    site: SiteOption = "",
    collection: CollectionOption = "",
    since: SinceOption = 0,
    until: Annotated[
        str, typer.Option("--until", metavar="DATE", help="Only pages fetched before this date.")
    ] = "",
    rising: Annotated[
        bool, typer.Option("--rising", help="Only words that are more frequent in recent pages.")
    ] = False,
    period: Annotated[
        str,
        typer.Option("--period", metavar="TIME", help="Maximum age of a recent page."),
    ] = "7d",
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Include stop words: function words, and words spread evenly over the pages.",
        ),
    ] = False,
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, max=100_000, help="Number of words.")
    ] = 50,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Count words in stored pages by language, site and time."""
    from dataclasses import asdict

    from lycosa.commands.inspection.terms import workspace_terms
    from lycosa.search.query.term_statistics import TermsRequest
    from lycosa.url.site_name import site_name

    request = TermsRequest(
        count=count,
        language=language,
        host=site_name(site).host if site else "",
        collection=collection,
        since=since or None,
        until=date_ms(until) or None,
        rising=rising,
        period_ms=parse_duration_ms(period),
        stop_words=every,
    )
    report = workspace_terms(workspace_root(context, workspace), request)
    if json_output:
        print_json({**asdict(report), "recent_since": format_time(report.recent_since)})
        return
    width = max((len(term.text) for term in report.terms), default=4)
    print(
        f"{'word':<{width}}  lang  {'pages':>9}  {'count':>9}  {'recent':>8}"
        + ("  surprise" if rising else "")
    )
    for term in report.terms:
        line = (
            f"{term.text:<{width}}  {term.language or '?':<4}  {term.documents:>9,}  "
            f"{term.total:>9,}  {term.recent:>8,}"
        )
        print(line + (f"  {term.surprise:>8,.1f}" if rising else ""))
    note(
        f"{number_of(report.pages, 'page')}, {report.recent_pages:,} of them recent (since "
        f"{format_time(max(report.recent_since, 0))[:10]})"
    )
    if report.missed:
        note(
            f"too many words to count: some words on up to {number_of(report.missed, 'page')} "
            "are missing"
        )
