"""`lycosa search`: ranked results with title, URL, snippet, language and date."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import (
    CollectionOption,
    InWorkspaces,
    LanguageOption,
    PeersOption,
    SiteOption,
    values_of,
)
from lycosa.cli.output import Output, note
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.core.units import number_of
from lycosa.processes.terminal import styled

if TYPE_CHECKING:
    from lycosa.api.results import Results
    from lycosa.commands.search_models import PassagesResult, SearchHit

_MAX_TRANSLATIONS = 4  # of a word; --json has all
_MAX_FACET_VALUES = 20


@dataclass(frozen=True)
class TranslationOptions:
    """A search in other languages."""

    across: Annotated[
        bool,
        typer.Option("--across", help="Translate the query and search all languages of the index."),
    ] = False
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="XX[,XX]", help="Translate the query and search these languages."
        ),
    ] = ""
    source_language: Annotated[
        str,
        typer.Option(
            "--from", metavar="XX", help="Language of the query, if it is not identified correctly."
        ),
    ] = ""
    translate: Annotated[
        list[str] | None,
        typer.Option(
            "--translate",
            metavar="XX:WORD=A|B",
            help="Use these translations of a word; repeatable.",
        ),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, named as the parameters of `Workspace.search`."""

    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", min=1, max=1000, help="Number of results."),
    ] = 10
    language: LanguageOption = ""
    site: SiteOption = ""
    collection: CollectionOption = ""
    order: Annotated[
        str,
        typer.Option(
            "--sort", metavar="date", help="Sort by date, newest first (default: by relevance)."
        ),
    ] = ""
    per_host: Annotated[
        int,
        typer.Option(
            "--per-host",
            metavar="N",
            min=0,
            help="Maximum number of results per host before those of other hosts; 0: no limit.",
        ),
    ] = 2
    copies: Annotated[
        bool, typer.Option("--copies", help="Also show pages with the same text.")
    ] = False
    spelling: Annotated[
        bool,
        typer.Option(
            "--spelling/--no-spelling", help="Suggest another spelling when there are few results."
        ),
    ] = True
    feedback: Annotated[
        str,
        typer.Option(
            "--feedback",
            metavar="auto|on|off",
            help="Add terms of the first results to a query that is a sentence.",
        ),
    ] = "auto"
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score is computed.")] = (
        False
    )
    peers: PeersOption = None
    local: Annotated[
        bool,
        typer.Option("--alone", help="Ignore the workspaces and peers configured in [search]."),
    ] = False


@dataclass(frozen=True)
class PassageOptions:
    """A search for passages."""

    passages: Annotated[
        bool,
        typer.Option("--passages", help="Show the best passages of the pages, with their sources."),
    ] = False
    max_tokens: Annotated[
        int,
        typer.Option(
            "--max-tokens",
            metavar="N",
            help="Maximum number of tokens of a passage, estimated (default 200).",
            show_default=False,
        ),
    ] = 0
    budget: Annotated[
        int,
        typer.Option(
            "--budget", metavar="N", help="Maximum number of tokens of all passages; 0: any."
        ),
    ] = 0
    ranking: Annotated[
        str,
        typer.Option(
            "--ranking",
            metavar="keyword|vector|hybrid",
            help="Rank passages by words, by vectors or by both (default: both with an encoder).",
            show_default=False,
        ),
    ] = ""


def command(
    where: InWorkspaces,
    options: SearchOptions,
    translation: TranslationOptions,
    passage_options: PassageOptions,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help='Words, "phrases", -excluded, OR, prefix*, site:HOST, lang:xx (query language).',
        ),
    ],
    page: Annotated[
        int, typer.Option("--page", metavar="N", min=1, help="Result page, from 1.")
    ] = 1,
    facets: Annotated[
        str,
        typer.Option(
            "--facets",
            metavar="NAMES",
            help="Count all results by language,host,collection,type,date.",
        ),
    ] = "",
) -> Output:
    """Search the crawled pages."""
    if passage_options.passages:
        no_translation = TranslationOptions()
        shared = SearchOptions(options.count, options.language, options.site, options.collection)
        if (
            replace(options, peers=options.peers or None) != shared
            or replace(translation, translate=translation.translate or None) != no_translation
            or page > 1
            or facets
            or where.roots[1:]
        ):
            raise UsageError(
                "--passages goes with -n, --lang, --site, --collection, --max-tokens, --budget and "
                "--ranking only, in one workspace"
            )
        return _passages(where, options, passage_options, " ".join(query))
    if passage_options != PassageOptions():
        raise UsageError("--max-tokens, --budget and --ranking need --passages")
    across = None
    if translation.across or translation.into:
        across = translation.into.split(",")
    values = {**values_of(options), "peers": options.peers or ()}
    results = where.open().search(
        " ".join(query),
        offset=(page - 1) * options.count,
        facets=[name.strip() for name in facets.split(",") if name.strip()],
        across=across,
        source_language=translation.source_language,
        translate=translation.translate or (),
        workspaces=where.roots[1:],
        **values,
    )
    return Output(results, lambda: _print(results), failed=not results.hits)


def _passages(
    where: InWorkspaces, options: SearchOptions, passage_options: PassageOptions, query: str
) -> Output:
    limit = {"max_tokens": passage_options.max_tokens} if passage_options.max_tokens else {}
    result = where.open().texts.passages(
        query,
        count=options.count,
        language=options.language,
        collection=options.collection,
        site=options.site,
        budget=passage_options.budget,
        ranking=passage_options.ranking,
        **limit,
    )
    return Output(result, lambda: _print_passages(result), failed=not result.passages)


def _print_passages(result: PassagesResult) -> None:
    for number, passage in enumerate(result.passages, 1):
        place = " › ".join((passage.title or passage.url, *passage.headings))
        date = (passage.published_at or passage.fetched_at)[:10]
        print(f"{number:>2}. {styled('bold', place)}")
        print(f"    {styled('link', passage.url)}  {passage.language or '?'}  {date}")
        print(f"    {passage.cached}\n")
        print("\n".join(f"    {line}".rstrip() for line in passage.text.split("\n")))
        if passage.copies:
            print(f"    {passage.copies:,} more with nearly the same text")
        print()
    for line in result.notes:
        note(line)
    print(
        f"{number_of(len(result.passages), 'passage')}, about {result.tokens:,} tokens, from "
        f"{number_of(result.total, 'page')} in {result.took_ms:.0f} ms",
        file=sys.stderr,
    )


def _print(results: Results) -> None:
    for query in results.translations[1:]:
        words = "; ".join(
            f"{term.source}: "
            + ", ".join(each.text for each in term.alternatives[:_MAX_TRANSLATIONS])
            for term in query.terms
        )
        note(f"{query.language}  {words}")
    shown = Counter(hit.host for hit in results.hits)
    last = {hit.host: number for number, hit in enumerate(results.hits)}
    for number, hit in enumerate(results.hits):
        more = hit.from_host - shown[hit.host] if last[hit.host] == number else 0
        _print_hit(results.offset + number + 1, hit, more)
    for name, values in results.facets.items():
        counted = (f"{each.value} {each.count:,}" for each in values[:_MAX_FACET_VALUES])
        print(f"{name}: " + ", ".join(counted))
    if results.expansion and any(hit.explanation for hit in results.hits):
        print(f"terms added by feedback: {', '.join(results.expansion)}")
    if results.did_you_mean is not None:
        note(f"Did you mean: {results.did_you_mean.query} ({results.did_you_mean.total:,})")
    for line in results.notes:
        note(line)
    span = f"{results.offset + 1} to {results.offset + len(results)} of " if results.hits else ""
    print(
        f"{span}{number_of(results.total, 'result')} in {results.took_ms:.0f} ms", file=sys.stderr
    )


def _print_hit(number: int, hit: SearchHit, more: int) -> None:
    """Print a result. `more`: pages of its host that match and are not shown."""
    snippet = "".join(
        styled("match", part.text) if part.match else part.text for part in hit.fragments
    )
    date = (hit.published_at or hit.fetched_at)[:10]
    source = f"  from {hit.source}" if hit.source else ""
    print(f"{number:>2}. {styled('bold', hit.title or hit.url)}")
    print(f"    {styled('link', hit.url)}  {hit.language or '?'}  {date}{source}")
    print(f"    {snippet}")
    if hit.copies:
        print(f"    {hit.copies:,} more with the same text")
    if more > 0:
        print(f"    {more:,} more from this site: site:{hit.host}")
    if hit.explanation is not None:
        score = hit.explanation
        print(
            f"    {hit.score:.3f} = words {score.words:.3f} × prior {score.prior:.3f} × freshness "
            f"{score.freshness:.3f}"
        )
        for part in sorted(score.parts, key=lambda part: -part.score):
            print(f"      {part.score:8.3f}  {part.field}: {' '.join(part.terms)}")
    print()
