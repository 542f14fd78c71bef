"""Searching the newest index generation of a workspace.

Start-up imports tantivy, ICU and Snowball and nothing that reads tables. A `Searcher` may be shared by threads: an answer is
made from one generation, whatever is published meanwhile.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

import tantivy

from lycosa.core.errors import WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.generation import Generation
from lycosa.index.schema import BODY, DATE, FULL, Stored, register, stored, stored_text
from lycosa.search.query import ParsedQuery, parse_query
from lycosa.search.retrieve import RELAX_SHARE, Filters, QueryBuilder, read
from lycosa.search.snippet import Highlighter, Snippet
from lycosa.store.storage import open_storage
from lycosa.text.analyze import analyzer_for

RELAX_BELOW = 3
"""With fewer pages than this that hold all words, pages that hold most of them are shown too."""
MOST_HITS = 1_000
"""Hits that one request may page to and take: `offset` + `count` is cut to it."""
WORKSPACE_FILE = "workspace.json"

_NOTHING_INDEXED = "nothing is indexed yet"


@dataclass(slots=True, frozen=True)
class SearchRequest:
    """One question. `language` (ISO 639 code), `collection` and `host` narrow it; `host` takes the hosts below it too."""

    text: str
    count: int = 10
    offset: int = 0
    language: str | None = None
    collection: str | None = None
    host: str | None = None


@dataclass(slots=True, frozen=True)
class Hit:
    """A page that was found. Times in ms since 1970 UTC. `snippet` and `marked_title`: (text, is it a match) in order."""

    url: str
    title: str
    snippet: Snippet
    language: str
    host: str
    collection: str  # several are joined by ", "
    fetched_at: int
    published_at: int | None
    score: float
    marked_title: Snippet = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class SearchResults:
    """An answer. `total` counts all pages found; `notes` say what a person should know about it."""

    query: str
    total: int
    hits: list[Hit]
    took_ms: float
    offset: int
    generation: int  # 0: there is no index
    notes: list[str]


@dataclass(slots=True, frozen=True)
class _Opened:
    """One generation, open."""

    generation: Generation
    searcher: tantivy.Searcher
    builder: QueryBuilder
    languages: tuple[str, ...]


class Searcher:
    """Answers queries from the newest generation that was there at the last `reload`.

    Raises:
        WorkspaceError: `root` is not a workspace, or its index is damaged.
    """

    def __init__(self, root: str) -> None:
        self._root = os.fspath(root)
        self._storage = open_storage(self._root)
        if self._storage.size(WORKSPACE_FILE) is None and not generations.numbers(self._storage):
            raise WorkspaceError(
                f"{self._root} is not a workspace: it has no {WORKSPACE_FILE}; name the right folder with -w DIR, "
                f"or make one with `lycosa crawl URL`"
            )
        self._opened: _Opened | None = None
        self.reload()

    @property
    def generation(self) -> int:
        """The number of the generation that answers; 0 if there is none."""
        return self._opened.generation.number if self._opened else 0

    @property
    def documents(self) -> int:
        return self._opened.searcher.num_docs if self._opened else 0

    @property
    def languages(self) -> dict[str, int]:
        """Pages by language, about."""
        return dict(self._opened.generation.info.languages) if self._opened else {}

    def reload(self) -> bool:
        """Take the newest generation if there is a newer one; True if so. Costs one listing of a small folder if not.

        Raises:
            WorkspaceError: the newest generation is damaged.
        """
        numbers = generations.numbers(self._storage)
        if not numbers or (self._opened is not None and numbers[-1] == self._opened.generation.number):
            return False
        generation = generations.newest(self._storage)
        if generation is None:
            return False
        self._opened = _open(generation)
        return True

    def search(self, request: SearchRequest) -> SearchResults:
        """Answer a query; whatever is typed, never an exception."""
        started = time.perf_counter()
        opened = self._opened
        parsed = parse_query(request.text)
        offset = max(0, min(request.offset, MOST_HITS))
        count = max(0, min(request.count, MOST_HITS - offset))
        notes = list(parsed.notes)
        total, hits = 0, list[Hit]()
        if opened is None or not opened.searcher.num_docs:
            notes.append(_NOTHING_INDEXED)
        elif parsed.empty:
            notes.append("the query is empty")
        else:
            total, hits = _answer(opened, parsed, request, offset, count, notes)
        number = opened.generation.number if opened else 0
        return SearchResults(request.text, total, hits, (time.perf_counter() - started) * 1000, offset, number, notes)


def _open(generation: Generation) -> _Opened:
    try:
        index = register(tantivy.Index.open(str(generation.path)))
        index.reload()
        searcher = index.searcher()
    except (ValueError, OSError) as error:
        raise WorkspaceError(f"{generation.path} cannot be opened: {error}; build it anew with `lycosa index --rebuild`") from None
    return _Opened(generation, searcher, QueryBuilder(index.schema, searcher), tuple(generation.info.languages) or ("",))


def _answer(
    opened: _Opened, parsed: ParsedQuery, request: SearchRequest, offset: int, count: int, notes: list[str]
) -> tuple[int, list[Hit]]:
    language = (request.language or parsed.language).lower()
    readings = read(parsed, [language] if language else opened.languages)
    filtered = bool(parsed.sites or parsed.unwanted_sites or parsed.language)
    if not any(reading.wanted or (reading.unwanted and not parsed.wanted) for reading in readings) and (parsed.wanted or not filtered):
        notes.append("the query holds no word")
        return 0, []
    filters = Filters(language, request.collection or "", (request.host or "").lower(), parsed.sites, parsed.unwanted_sites)
    order = DATE if not parsed.wanted else None  # filters alone: the newest first
    searcher, builder, limit = opened.searcher, opened.builder, max(1, count)
    total, found = _find(searcher, builder.strict(readings, filters), limit, offset, order)
    words = max((len(reading.wanted) for reading in readings), default=0)
    if total < RELAX_BELOW and words > 1:
        rest, more = 0, list[tuple[Any, tantivy.DocAddress]]()
        for share in (RELAX_SHARE, 0.0):
            if not rest:
                rest, more = _find(searcher, builder.relaxed(readings, filters, share), limit, max(0, offset - total))
        if rest:
            notes.append(_relaxed_note(total))
            total, found = total + rest, found + more
    highlighters: dict[str, Highlighter] = {}
    hits = [_hit(searcher.doc(address), 0.0 if order else float(score), parsed, highlighters) for score, address in found[:count]]
    return total, hits


def _find(
    searcher: tantivy.Searcher, query: tantivy.Query, limit: int, offset: int, order: str | None = None
) -> tuple[int, list[tuple[Any, tantivy.DocAddress]]]:
    """How many pages match in all, and the hits from `offset` on."""
    result: Any = searcher.search(query, limit, count=True, offset=offset, order_by_field=order)
    return result.count or 0, result.hits


def _relaxed_note(total: int) -> str:
    if not total:
        return "no page holds all the words; these hold some of them"
    return f"{total} {'page holds' if total == 1 else 'pages hold'} all the words; the others hold some of them"


def _hit(document: tantivy.Document, score: float, parsed: ParsedQuery, highlighters: dict[str, Highlighter]) -> Hit:
    page: Stored = stored(document)
    highlighter = highlighters.get(page.language)
    if highlighter is None:
        (reading,) = read(parsed, [page.language])
        highlighter = highlighters[page.language] = Highlighter(analyzer_for(page.language), reading.wanted)
    texts = (stored_text(document, name) for name in (BODY, FULL))
    return Hit(
        url=page.url,
        title=page.title,
        snippet=highlighter.snippet(texts, page.description),
        language=page.language,
        host=page.host,
        collection=", ".join(page.collections),
        fetched_at=page.fetched_at,
        published_at=page.published_at,
        score=score,
        marked_title=highlighter.mark(page.title),
    )
