"""`lycosa search`: ranked results with title, URL, snippet, language and date."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root
from lycosa.core.units import format_time

if TYPE_CHECKING:
    from lycosa.search.engine import Hit, SearchResults


def command(
    context: typer.Context,
    query: Annotated[list[str], typer.Argument(help='Words; "phrases"; -without; site:HOST; lang:xx.')],
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="Results to show.")] = 10,
    page: Annotated[int, typer.Option("--page", min=1, help="Which page of results.")] = 1,
    language: Annotated[str, typer.Option("--lang", metavar="XX", help="Only pages in this language.")] = "",
    site: Annotated[str, typer.Option("--site", metavar="HOST", help="Only pages of this host.")] = "",
    collection: Annotated[str, typer.Option("--collection", metavar="NAME", help="Only pages of this collection.")] = "",
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Search what was crawled."""
    from lycosa.search.engine import Searcher, SearchRequest

    root = workspace_root(context, workspace)
    request = SearchRequest(
        " ".join(query), count=count, offset=(page - 1) * count, language=language or None, collection=collection or None, host=site or None
    )
    results = Searcher(root).search(request)
    if json_output:
        print_json(_document(results))
    else:
        _print(results)
    if not results.hits:
        raise typer.Exit(1)


def _document(results: SearchResults) -> dict[str, object]:
    return {
        "query": results.query,
        "total": results.total,
        "offset": results.offset,
        "took_ms": round(results.took_ms, 2),
        "generation": results.generation,
        "notes": results.notes,
        "missing_shards": list(results.missing_shards),
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
                "published_at": format_time(hit.published_at) if hit.published_at is not None else None,
                "score": round(hit.score, 4),
            }
            for hit in results.hits
        ],
    }


def _print(results: SearchResults) -> None:
    colour = sys.stdout.isatty()
    for number, hit in enumerate(results.hits, results.offset + 1):
        _print_hit(number, hit, colour)
    for line in results.notes:
        print(line, file=sys.stderr)
    shown = f"{results.offset + 1} to {results.offset + len(results.hits)} of " if results.hits else ""
    print(f"{shown}{results.total:,} results in {results.took_ms:.0f} ms", file=sys.stderr)


def _print_hit(number: int, hit: Hit, colour: bool) -> None:
    def paint(code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    snippet = "".join(paint("1;33", text) if match else text for text, match in hit.snippet)
    date = format_time(hit.published_at if hit.published_at is not None else hit.fetched_at)[:10]
    print(f"{number:>2}. {paint('1', _plain(hit.title) or hit.url)}")
    print(f"    {paint('32', hit.url)}  {hit.language or '?'}  {date}")
    print(f"    {_plain(snippet, colour)}\n")


def _plain(text: str, colour: bool = False) -> str:
    """Text from strangers on a terminal: control characters out, our own colours in."""
    return "".join(character for character in text if character.isprintable() or (colour and character == "\x1b"))
