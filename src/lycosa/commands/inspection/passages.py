"""The best passages of the stored pages for a query, and all chunks of a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lycosa.captures.captures import written_at
from lycosa.chunks.ranking import (
    IndexTerms,
    PassageRanker,
    RankedChunk,
    RankedPage,
    within_budget,
)
from lycosa.chunks.split import Chunk, split_page
from lycosa.chunks.tokens import MIN_LIMIT, ChunkBudget
from lycosa.commands.search_models import (
    ChunkList,
    PageChunk,
    Passage,
    PassagesResult,
    cached_path,
)
from lycosa.core.errors import UrlError, UsageError
from lycosa.core.units import format_time
from lycosa.export.markdown.pages import MarkdownPage, pages_at
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import Hit, Searcher, SearchRequest, SearchResults
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.url.normalise import normalise, typed_url

DEFAULT_COUNT, MAX_COUNT = 10, 100
DEFAULT_TOKENS, MAX_TOKENS = 200, 4_000
MAX_PAGE_CHARACTERS = 100_000
"""Of the Markdown of a page that are searched for passages, which bounds the time of a query."""
PAGES = 20
"""Pages of the search from which passages are taken."""


@dataclass(slots=True, frozen=True)
class PassageRequest:
    """Which passages to return.

    `max_tokens`: of each passage. `budget`: tokens of all passages; 0: any. `language`,
    `collection` and `host` restrict the pages.

    Raises:
        UsageError: a number is out of range.
    """

    query: str
    count: int = DEFAULT_COUNT
    max_tokens: int = DEFAULT_TOKENS
    budget: int = 0
    language: str = ""
    collection: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_COUNT:
            raise UsageError(f"the number of passages must be from 1 to {MAX_COUNT}")
        if not MIN_LIMIT <= self.max_tokens <= MAX_TOKENS:
            raise UsageError(
                f"the maximum of tokens of a passage must be from {MIN_LIMIT} to {MAX_TOKENS}"
            )
        if self.budget < 0:
            raise UsageError(f"a budget of {self.budget} tokens is too small")


class PageSearch(Protocol):
    """Searches the pages. `index`: the index that is open in this process; None: it is elsewhere,
    and the chunks themselves are the statistics.
    """

    @property
    def index(self) -> OpenIndex | None: ...

    def search(self, request: SearchRequest) -> SearchResults: ...


class _NewestIndex:
    """The newest index of a workspace, in this process."""

    def __init__(self, root: str) -> None:
        self._searcher = Searcher(root)

    @property
    def index(self) -> OpenIndex | None:
        return self._searcher.index

    def search(self, request: SearchRequest) -> SearchResults:
        self._searcher.reload()
        return self._searcher.search(request)


class PassageFinder:
    """Finds passages in the pages of one workspace. Threads may share it.

    `source` searches its pages; None: its newest index in this process.

    Raises:
        WorkspaceError: there is no workspace, or its index is damaged.
    """

    def __init__(self, root: str, source: PageSearch | None = None) -> None:
        self._workspace = Workspace.open(root)
        self._source = source or _NewestIndex(root)

    def find(self, request: PassageRequest) -> PassagesResult:
        """Return the best passages. Every query is valid."""
        started = time.perf_counter()
        results = self._source.search(
            SearchRequest(
                request.query,
                PAGES,
                language=request.language or None,
                collection=request.collection or None,
                host=request.host or None,
                per_host=0,
                hops=0,  # passages are made from the pages of this workspace
                spelling=False,
            )
        )
        chosen = self._passages(request, [hit for hit in results if not hit.source])
        return PassagesResult(
            query=request.query,
            total=results.total,
            tokens=sum(each.tokens for each in chosen),
            took_ms=round(1000 * (time.perf_counter() - started), 3),
            generation=results.generation,
            notes=[*results.notes],
            passages=chosen,
        )

    def _passages(self, request: PassageRequest, hits: Sequence[Hit]) -> list[Passage]:
        budget = ChunkBudget(request.max_tokens)
        stored = {page.url: page for page in pages_at(self._workspace, [hit.url for hit in hits])}
        matches = [(hit.score, stored[hit.url]) for hit in hits if hit.url in stored]
        pages = [
            RankedPage(
                page.title,
                page.language,
                score,
                split_page(page.url, page.markdown[:MAX_PAGE_CHARACTERS], budget, page.language),
            )
            for score, page in matches
        ]
        index = self._source.index
        ranker = PassageRanker(
            request.query,
            analyzer_for if index is None else index.analysis.of,
            None if index is None else IndexTerms(index.documents, index.statistics.holding),
        )
        chosen = within_budget(ranker.rank(pages), request.count, request.budget)
        return [_passage(matches[each.page][1], each) for each in chosen]


def passages(root: str, query: str, **options: object) -> PassagesResult:
    """Return the best passages of a workspace. `options`: fields of `PassageRequest`.

    Raises:
        UsageError: an option is wrong.
        WorkspaceError: there is no workspace, or its index is damaged.
    """
    return PassageFinder(root).find(PassageRequest(query, **options))  # type: ignore[arg-type]


def chunks(root: str, url: str, max_tokens: int = DEFAULT_TOKENS) -> ChunkList:
    """Return the newest version of a stored page in chunks, those of `passages` with this maximum.

    Raises:
        UsageError: `url` is no URL, its page is not stored, or the maximum is too small.
        WorkspaceError: there is no workspace.
    """
    try:
        address = normalise(typed_url(url))
    except UrlError as error:
        raise UsageError(f"{url!r} is not the URL of a page: {error}") from None
    page = next(pages_at(Workspace.open(root), [address]), None)
    if page is None:
        raise UsageError(f"{address} is not a stored page: `lycosa explain URL` shows its state")
    parts = split_page(page.url, page.markdown, ChunkBudget(max_tokens), page.language)
    return ChunkList(**_citation(page), chunks=[PageChunk(**_chunk(each)) for each in parts])


def _passage(page: MarkdownPage, ranked: RankedChunk) -> Passage:
    return Passage(
        **_chunk(ranked.chunk),
        **_citation(page),
        score=round(ranked.score, 4),
        copies=ranked.copies,
    )


def _chunk(chunk: Chunk) -> dict[str, Any]:
    """Return the fields of `PageChunk`."""
    return {
        "id": chunk.id,
        "headings": chunk.headings,
        "text": chunk.text,
        "tokens": chunk.size,
        "position": chunk.position,
        "previous": chunk.previous,
        "next": chunk.next,
    }


def _citation(page: MarkdownPage) -> dict[str, Any]:
    """Return the fields of `CitedPage`."""
    at_ms = _milliseconds(page.fetched_at)
    published_at = page.published_at
    return {
        "url": page.url,
        "title": page.title,
        "language": page.language,
        "collection": page.collection,
        "fetched_at": format_time(at_ms),
        "published_at": published_at and format_time(_milliseconds(published_at)),
        "record_id": page.record_id,
        "cached": cached_path(page.url, at=written_at(at_ms)),
    }


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
