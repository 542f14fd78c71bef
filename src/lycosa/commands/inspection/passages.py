"""The best passages of the stored pages for a query, and all chunks of a page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lycosa.captures.captures import NO_COPY, NoVersion, written_at
from lycosa.chunks.ranking import (
    IndexTerms,
    PassageRanker,
    RankedChunk,
    RankedPage,
    fused,
    parts_of,
    within_budget,
)
from lycosa.chunks.split import Chunk, split_page
from lycosa.chunks.tokens import MIN_LIMIT, ChunkBudget
from lycosa.commands.inspection.chunked_pages import ChunkedPage, ChunkedPages, Split
from lycosa.commands.inspection.search import open_vectors
from lycosa.commands.search_models import (
    ChunkList,
    PageChunk,
    Passage,
    PassagesResult,
    cached_path,
)
from lycosa.config.settings import Config
from lycosa.core.errors import EncoderError, UrlError, UsageError
from lycosa.core.messages import Message
from lycosa.core.units import format_time, milliseconds
from lycosa.crawl.session.planning import require_collection
from lycosa.crawl.session.workspace_config import read_config
from lycosa.export.markdown.pages import MarkdownPage, pages_at
from lycosa.search.crosslingual.across import encoder_note, request_filters
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.searcher import Hit, NewestIndex, SearchRequest, SearchResults
from lycosa.search.presentation.answer import PHRASE_AS_WORDS
from lycosa.search.query.query import ParsedQuery, clauses, parse_query, with_words_of
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.url.normalise import normalise, typed_url
from lycosa.vectors.nearest import NearChunk, near_chunks
from lycosa.vectors.store import ChunkStore

DEFAULT_COUNT, MAX_COUNT = 10, 100
DEFAULT_TOKENS, MAX_TOKENS = 200, 4_000
PAGES = 20
"""Pages of the search from which passages are taken."""
NEAREST = 30
"""Least number of chunks with the nearest vectors that are ranked."""
FUSED = 100
"""Passages found by words that are merged with those found by vectors."""
KEYWORD, VECTOR, HYBRID = RANKINGS = ("keyword", "vector", "hybrid")
PAGES_BY_RANKING = {KEYWORD: PAGES, HYBRID: PAGES // 2, VECTOR: 1}
"""Pages of the search that are read. A hybrid search reads those of the nearest chunks, too."""
NO_PASSAGE = Message(
    "no_passage", "no passage of these pages contains a word of the query and fits into the budget"
)


@dataclass(slots=True, frozen=True)
class PassageRequest:
    """Which passages to return.

    `max_tokens`: of each passage. `budget`: tokens of all passages; 0: any. `language`,
    `collection` and `host` restrict the pages. `ranking`: of `RANKINGS`; "": hybrid if there is an
    encoder, else keyword.

    Raises:
        UsageError: a number is out of range, or there is no such ranking.
    """

    query: str
    count: int = DEFAULT_COUNT
    max_tokens: int = DEFAULT_TOKENS
    budget: int = 0
    language: str = ""
    collection: str = ""
    host: str = ""
    ranking: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_COUNT:
            raise UsageError(f"the number of passages must be from 1 to {MAX_COUNT}")
        if not MIN_LIMIT <= self.max_tokens <= MAX_TOKENS:
            raise UsageError(
                f"the maximum of tokens of a passage must be from {MIN_LIMIT} to {MAX_TOKENS}"
            )
        if self.ranking not in ("", *RANKINGS):
            raise UsageError(f"unknown ranking {self.ranking!r}: choose {', '.join(RANKINGS)}")

    def of_pages(self, count: int) -> SearchRequest:
        """Return the search for the pages from which passages are made."""
        return SearchRequest(
            self.query,
            count,
            language=self.language or None,
            collection=self.collection or None,
            host=self.host or None,
            per_host=0,
            hops=0,  # passages are made from the pages of this workspace
            spelling=False,
            snippets=False,
        )


class PageSearch(Protocol):
    """Searches the pages. `index`: the index that is open in this process; None: it is elsewhere,
    and the chunks themselves are the statistics.
    """

    @property
    def index(self) -> OpenIndex | None: ...

    def search(self, request: SearchRequest) -> SearchResults: ...


@dataclass(slots=True, frozen=True)
class _Near:
    """The chunks of a store that are nearest to a query, nearest first, on the first `pages`."""

    store: ChunkStore
    chunks: Sequence[NearChunk]
    pages: int

    @property
    def urls(self) -> list[str]:
        """The URLs of the first pages."""
        places = list(dict.fromkeys(each.place for each in self.chunks))[: self.pages]
        return self.store.pages["url"].gather(places).to_list()

    def ranked(
        self, pages: Mapping[str, ChunkedPage], numbers: Mapping[str, int], max_tokens: int
    ) -> list[RankedChunk]:
        """Return the nearest chunks, or of pages that are split otherwise or have a newer version,
        the chunks with their text.
        """
        ranked: dict[str, RankedChunk] = {}
        for each in self.chunks:
            stored = self.store.chunk_of(each.place, each.row)
            page = pages.get(stored.url)
            if page is None:
                continue
            is_same = (
                self.store.info.chunk_tokens == max_tokens
                and self.store.pages["fetched_at"][each.place] == page.page.fetched_at
            )
            for chunk in [stored] if is_same else parts_of(stored.text, page.chunks):
                ranked.setdefault(chunk.id, RankedChunk(numbers[stored.url], chunk, 0.0))
        return list(ranked.values())


class PassageFinder:
    """Finds passages in the pages of one workspace. Threads may share it.

    Args:
        source: searches its pages; None: its newest index in this process.
        config: names the encoder; None: the settings of the workspace.

    Raises:
        WorkspaceError: there is no workspace, or its index is damaged.
    """

    def __init__(
        self, root: str, source: PageSearch | None = None, config: Config | None = None
    ) -> None:
        workspace = Workspace.open(root)
        self._workspace = workspace
        self._config = config or read_config(root)
        self._pages = ChunkedPages(workspace)
        self._source = source or NewestIndex(root)
        self._vectors = open_vectors(workspace.storage, self._config)

    @property
    def encoder_failures(self) -> int:
        """Number of queries that the encoder has not encoded."""
        return 0 if self._vectors is None else self._vectors.failures

    def find(self, request: PassageRequest) -> PassagesResult:
        """Return the best passages. Every query is valid. If the encoder fails, they are ranked by
        words.

        Raises:
            UsageError: vectors are requested, and no encoder is configured; or there is no
                collection of the requested name.
        """
        started = time.perf_counter()
        ranking = request.ranking or (KEYWORD if self._vectors is None else HYBRID)
        results = self._source.search(request.of_pages(PAGES_BY_RANKING[ranking]))
        if request.collection and not results.total:
            require_collection(self._workspace, self._config, request.collection)
        notes = [*results.notes]
        near = None
        if ranking != KEYWORD:
            try:
                near = self._near(request)
            except EncoderError as error:
                ranking = KEYWORD
                results = self._source.search(request.of_pages(PAGES))
                notes.append(encoder_note(error))
        absent = {
            note.values["phrase"]
            for note in results.notes
            if isinstance(note, Message) and note.code == PHRASE_AS_WORDS
        }
        query = with_words_of(parse_query(request.query), lambda each: each.quoted in absent)
        is_ranked = ranking != VECTOR and query.required  # passages are ranked by their words
        hits = [hit for hit in results if not hit.source] if is_ranked else []
        pages, chosen = self._passages(request, query, hits, near, results.generation)
        if results.total and not chosen:
            notes.append(NO_PASSAGE)
        return PassagesResult(
            query=request.query,
            ranking=ranking,
            total=results.total,
            tokens=sum(each.chunk.size for each in chosen),
            took_ms=round(1000 * (time.perf_counter() - started), 3),
            generation=results.generation,
            notes=notes,
            passages=[_passage(pages[each.page].page, each) for each in chosen],
        )

    def _near(self, request: PassageRequest) -> _Near:
        """Return the nearest chunks of pages that match the filters. Raises EncoderError."""
        if self._vectors is None:
            raise UsageError(
                f"the ranking {request.ranking} needs an encoder: set encoder.source in lycosa.toml"
            )
        index = self._source.index
        if index is None:
            raise EncoderError("the index is on other machines")
        store = self._vectors.store()
        parsed = parse_query(request.query)
        text = " ".join(clause.text for clause in clauses(parsed.required))
        if not text:
            return _Near(store, [], 0)
        filters = request_filters(parsed, request.of_pages(0))
        chunks = near_chunks(
            store,
            self._vectors.vector(text, store),
            max(NEAREST, 2 * request.count),
            lambda ids: index.matching(ids, parsed, filters),
        )
        return _Near(store, chunks, max(PAGES // 2, request.count))

    def _passages(
        self,
        request: PassageRequest,
        query: ParsedQuery,
        hits: Sequence[Hit],
        near: _Near | None,
        generation: int,
    ) -> tuple[list[ChunkedPage], list[RankedChunk]]:
        """Return pages, and the chosen passages with the numbers of their pages."""
        index = self._source.index
        analyzer_of = analyzer_for if index is None else index.analysis.of
        store = None if self._vectors is None else self._vectors.newest()
        split = Split(request.max_tokens, analyzer_of, generation, store)
        urls = {} if near is None else dict.fromkeys(near.urls, 0)
        urls |= {hit.url: hit.fetched_at for hit in hits}
        by_url = self._pages.get(urls, split)
        pages = list(by_url.values())
        numbers = {url: number for number, url in enumerate(by_url)}
        ranker = PassageRanker(
            query,
            analyzer_of,
            None if index is None else IndexTerms(index.documents, index.statistics.holding),
        )
        chosen = [hit for hit in hits if hit.url in by_url]
        by_words = ranker.rank([_ranked_page(by_url[hit.url], hit.score) for hit in chosen])
        ranked = [
            RankedChunk(numbers[chosen[each.page].url], each.chunk, each.score) for each in by_words
        ]
        if near is not None:
            ranked = fused(ranked[:FUSED], near.ranked(by_url, numbers, request.max_tokens))
        return pages, within_budget(ranked, request.count, request.budget)


def chunks(root: str, url: str, max_tokens: int = DEFAULT_TOKENS) -> ChunkList:
    """Return the newest version of a stored page in chunks, those of `passages` with this maximum.

    Raises:
        UsageError: `url` is no URL, or the maximum is too small.
        NoVersion: its page is not stored.
        WorkspaceError: there is no workspace.
    """
    try:
        address = normalise(typed_url(url))
    except UrlError as error:
        raise UsageError(f"{url!r} is not the URL of a page: {error}") from None
    page = next(pages_at(Workspace.open(root), [address]), None)
    if page is None:
        raise NoVersion(address, NO_COPY)
    parts = split_page(page.url, page.markdown, ChunkBudget(max_tokens), page.language)
    return ChunkList(**_citation(page), chunks=[PageChunk(**_chunk(each)) for each in parts])


def _ranked_page(page: ChunkedPage, score: float) -> RankedPage:
    return RankedPage(page.page.title, page.page.language, score, page.chunks, page.terms)


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
    at_ms = milliseconds(page.fetched_at)
    published_at = page.published_at
    return {
        "url": page.url,
        "title": page.title,
        "language": page.language,
        "collection": page.collection,
        "fetched_at": format_time(at_ms),
        "published_at": published_at and format_time(milliseconds(published_at)),
        "record_id": page.record_id,
        "cached": cached_path(page.url, at=written_at(at_ms)),
    }
