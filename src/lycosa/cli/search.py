"""`lycosa search`: ranked results with title, URL, snippet, language and date."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import (
    DEFAULT_WORKSPACE,
    CollectionOption,
    JsonOption,
    LanguageOption,
    SetOption,
    SiteOption,
    load_config,
    print_json,
    workspace_roots,
)
from lycosa.cli.translate import document as translation_document
from lycosa.core.errors import UsageError
from lycosa.core.units import format_time, number_of
from lycosa.processes.terminal import styled

if TYPE_CHECKING:
    from lycosa.config.settings import Config
    from lycosa.search.crosslingual.translated import Across
    from lycosa.search.crosslingual.vectors import FlatIndex
    from lycosa.search.engine.searcher import Hit, SearchRequest, SearchResults

SHOWN = 4
"""Translations of a word that people are shown; --json has all."""

_FACET_VALUES = 20  # that are printed
_OTHERS = re.compile(rb"^[^#\n]*\b(?:peers|workspaces)\b", re.MULTILINE)


def command(
    context: typer.Context,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help='Words, "phrases", -excluded, OR, prefix*, site:HOST, lang:xx (docs/query.md).',
        ),
    ],
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", min=1, max=1000, help="Number of results.")
    ] = 10,
    page: Annotated[
        int, typer.Option("--page", metavar="N", min=1, help="Result page, from 1.")
    ] = 1,
    language: LanguageOption = "",
    site: SiteOption = "",
    collection: CollectionOption = "",
    across: Annotated[
        bool,
        typer.Option("--across", help="Translate the query and search all languages of the index."),
    ] = False,
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="XX[,XX]", help="Translate the query and search these languages."
        ),
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="XX", help="Language of the query, if it is not identified correctly."
        ),
    ] = "",
    translations: Annotated[
        list[str] | None,
        typer.Option(
            "--translate",
            metavar="XX:WORD=A|B",
            help="Use these translations of a word; repeatable.",
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            "--sort", metavar="date", help="Sort by date, newest first (default: by relevance)."
        ),
    ] = "",
    per_host: Annotated[
        int,
        typer.Option(
            "--per-host",
            metavar="N",
            min=0,
            help="Maximum number of results per host before those of other hosts; 0: no limit.",
        ),
    ] = 2,
    copies: Annotated[
        bool, typer.Option("--copies", help="Also show pages with the same text.")
    ] = False,
    facets: Annotated[
        str,
        typer.Option(
            "--facets",
            metavar="NAMES",
            help="Count all results by language,host,collection,type,date.",
        ),
    ] = "",
    spelling: Annotated[
        bool,
        typer.Option(
            "--spelling/--no-spelling", help="Suggest another spelling when there are few results."
        ),
    ] = True,
    feedback: Annotated[
        str,
        typer.Option(
            "--feedback",
            metavar="auto|on|off",
            help="Add terms of the first results to a query that is a sentence.",
        ),
    ] = "auto",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each score is computed.")
    ] = False,
    workspaces: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            "--workspace",
            metavar="DIR",
            help="Workspace directory (default ./lycosa-data); repeatable.",
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer", metavar="URL", help="Also search another Lycosa server; repeatable."
        ),
    ] = None,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Ignore the workspaces and peers configured in [search]."),
    ] = False,
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Search the crawled pages."""
    from lycosa.core.errors import UsageError
    from lycosa.search.engine.searcher import Searcher, SearchRequest
    from lycosa.search.presentation.results import FACETS
    from lycosa.search.ranking.feedback import MODES
    from lycosa.url.site_name import site_name

    roots = workspace_roots(context, workspaces)
    root = roots[0]
    names = tuple(name.strip() for name in facets.split(",") if name.strip())
    if unknown := [name for name in names if name not in FACETS]:
        raise UsageError(f"--facets {unknown[0]}: unknown facet; choose from {', '.join(FACETS)}")
    if order not in ("", "date", "relevance"):
        raise UsageError(f"--sort {order}: choose date or relevance")
    if feedback not in MODES:
        raise UsageError(f"--feedback {feedback}: choose {', '.join(MODES)}")
    request = SearchRequest(
        " ".join(query),
        count=count,
        offset=(page - 1) * count,
        language=language or None,
        collection=collection or None,
        host=site_name(site).host if site else None,
        order=order,
        per_host=per_host,
        folded=not copies,
        facets=names,
        explain=explain,
        feedback=feedback,
        spelling=spelling,
    )
    if across or into:
        request = replace(request, across=_across(into, source, translations or []))
    vectors = (
        _vectors(load_config(context, root, overrides), root)
        if request.across is not None
        else None
    )
    if len(roots) > 1 or peers or (not alone and _names_others(context, root, overrides)):
        only_peers = peers and roots == [DEFAULT_WORKSPACE] and not _is_there(root)
        config = load_config(context, None if only_peers else root, overrides)
        results = _together(
            config, [] if only_peers else roots, peers or [], request, vectors, alone=alone
        )
    else:
        results = Searcher(root, vectors).search(request)
    if json_output:
        print_json(_document(results))
    else:
        _print(results)
    if not results.hits:
        raise typer.Exit(1)


def _names_others(context: typer.Context, root: str, overrides: list[str] | None) -> bool:
    """Whether the configuration may name other workspaces or peers: reading it takes longer than
    most searches.
    """
    from lycosa.index.generation import storage_of

    if overrides or (context.obj and context.obj[1]):
        return True
    return _OTHERS.search(storage_of(root).read("lycosa.toml") or b"") is not None


def _is_there(root: str) -> bool:
    from lycosa.index.generation import storage_of
    from lycosa.search.engine.searcher import WORKSPACE_FILE

    return storage_of(root).size(WORKSPACE_FILE) is not None


def _together(
    config: Config,
    roots: list[str],
    peers: list[str],
    request: SearchRequest,
    vectors: FlatIndex | None,
    *,
    alone: bool,
) -> SearchResults:
    from contextlib import closing

    from lycosa.search.federation.federated_search import open_federated_search

    if alone:
        config = config.model_copy(
            update={"search": config.search.model_copy(update={"workspaces": (), "peers": ()})}
        )
    with closing(open_federated_search(roots, peers, config, vectors=vectors)) as many:
        return many.search(request)


def _vectors(config: Config, root: str) -> FlatIndex | None:
    """The vectors that the configured encoder computed for the pages; None without an encoder."""
    named = config.index.encoder
    if not named:
        return None
    from lycosa.search.crosslingual.vectors import FlatIndex, load_encoder
    from lycosa.store.storage.storage import open_storage

    return FlatIndex(open_storage(root), load_encoder(named))


def _across(into: str, source: str, translations: list[str]) -> Across:
    """Raises UsageError for a translation that is none."""
    from lycosa.search.crosslingual.translated import Across, edit

    edits = []
    for given in translations:
        understood = edit(given)
        if understood is None:
            raise UsageError(
                f"--translate {given!r} does not have the form XX:WORD=A|B, for "
                "example de:house=Haus|Gebäude"
            )
        edits.append(understood)
    return Across(
        tuple(code.strip().lower() for code in into.split(",") if code.strip()),
        source.lower(),
        tuple(edits),
    )


def _document(results: SearchResults) -> dict[str, object]:
    return {
        "query": results.query,
        "total": results.total,
        "offset": results.offset,
        "took_ms": round(results.took_ms, 2),
        "generation": results.generation,
        "notes": results.notes,
        "missing_shards": list(results.missing_shards),
        "did_you_mean": None
        if (other := results.did_you_mean) is None
        else {"query": other.query, "total": other.total},
        "translations": [translation_document(query) for query in results.translations],
        "expansion": list(results.expansion),
        "hits": [
            {
                "url": hit.url,
                "title": hit.title,
                "snippet": "".join(text for text, _ in hit.snippet),
                "matches": [text for text, match in hit.snippet if match],
                "language": hit.language,
                "host": hit.host,
                "collection": hit.collection,
                "fetched_at": format_time(hit.fetched_at),
                "published_at": format_time(hit.published_at)
                if hit.published_at is not None
                else None,
                "score": round(hit.score, 4),
                "type": hit.type,
                "copies": hit.copies,
                "from_host": hit.from_host,
                **({"source": hit.source} if hit.source else {}),
                **({"explanation": asdict(hit.explanation)} if hit.explanation is not None else {}),
            }
            for hit in results.hits
        ],
        "facets": {name: dict(values) for name, values in results.facets.items()},
    }


def _print(results: SearchResults) -> None:
    for query in results.translations[1:]:
        words = "; ".join(
            f"{term.source}: {', '.join(one.surface for one in term.alternatives[:SHOWN])}"
            for term in query.terms
        )
        print(f"{query.language}  {words}", file=sys.stderr)
    left = Counter(hit.host for hit in results.hits)
    for number, hit in enumerate(results.hits, results.offset + 1):
        left[hit.host] -= 1
        _print_hit(
            number,
            hit,
            more=0
            if left[hit.host]
            else hit.from_host - sum(hit.host == other.host for other in results.hits),
        )
    for name, values in results.facets.items():
        print(
            f"{name}: "
            + ", ".join(
                f"{value} {count:,}" for value, count in list(values.items())[:_FACET_VALUES]
            )
        )
    if results.expansion and any(hit.explanation for hit in results.hits):
        print(f"terms added by feedback: {', '.join(results.expansion)}")
    if results.did_you_mean is not None:
        print(
            f"Did you mean: {results.did_you_mean.query} ({results.did_you_mean.total:,})",
            file=sys.stderr,
        )
    for line in results.notes:
        print(line, file=sys.stderr)
    shown = (
        f"{results.offset + 1} to {results.offset + len(results.hits)} of " if results.hits else ""
    )
    print(
        f"{shown}{number_of(results.total, 'result')} in {results.took_ms:.0f} ms", file=sys.stderr
    )


def _print_hit(number: int, hit: Hit, more: int) -> None:
    """`more`: pages of its host that were found and are not shown."""

    snippet = "".join(styled("match", text) if match else text for text, match in hit.snippet)
    date = format_time(hit.published_at if hit.published_at is not None else hit.fetched_at)[:10]
    print(f"{number:>2}. {styled('bold', hit.title or hit.url)}")
    print(
        f"    {styled('link', hit.url)}  {hit.language or '?'}  "
        f"{date}{f'  from {hit.source}' if hit.source else ''}"
    )
    print(f"    {snippet}")
    if hit.copies:
        print(f"    {hit.copies:,} more with the same text")
    if more > 0:
        print(f"    {more:,} more from this site: site:{hit.host}")
    if hit.explanation is not None:
        told = hit.explanation
        print(
            f"    {hit.score:.3f} = words {told.words:.3f} × prior {told.prior:.3f} × freshness "
            f"{told.freshness:.3f}"
        )
        for part in sorted(told.parts, key=lambda part: -part.score):
            print(f"      {part.score:8.3f}  {part.field}: {' '.join(part.terms)}")
    print()
