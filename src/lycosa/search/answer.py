"""From a request to an answer, the same for one index and for many: parse once, all words first, then most of them, then snippets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, TypeVar

from lycosa.search.opened import STAGES, STRICT, Question, holds_words, words_of
from lycosa.search.query import ParsedQuery, parse_query
from lycosa.search.results import MOST_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.retrieve import Filters

Place = TypeVar("Place")

RELAX_BELOW = 3
"""With fewer pages than this that hold all words, pages that hold most of them are shown too."""

NOTHING_INDEXED = "nothing is indexed yet"


class Source(Protocol[Place]):
    """What answers: one opened index, or shards far away. A place is where it finds a page again."""

    @property
    def number(self) -> int:
        """Of the generation that answers."""
        ...

    @property
    def documents(self) -> int: ...

    @property
    def languages(self) -> tuple[str, ...]: ...

    def page(self, question: Question, stage: float, offset: int, count: int) -> tuple[int, Sequence[tuple[float, Place]]]:
        """How many pages match in all, and so many from `offset` on, the best first."""
        ...

    def hits(self, question: Question, found: Sequence[tuple[float, Place]]) -> list[Hit]: ...


def answer(source: Source[Place] | None, request: SearchRequest) -> SearchResults:
    """Answer a query; whatever is typed, never an exception of ours. Without a source nothing is indexed yet."""
    started = time.perf_counter()
    parsed = parse_query(request.text)
    offset = max(0, min(request.offset, MOST_HITS))
    count = max(0, min(request.count, MOST_HITS - offset))
    notes = list(parsed.notes)
    total, hits = 0, list[Hit]()
    if source is None or not source.documents:
        notes.append(NOTHING_INDEXED)
    elif parsed.empty:
        notes.append("the query is empty")
    else:
        total, hits = _answer(source, _question(source, parsed, request), offset, count, notes)
    number = source.number if source is not None else 0
    return SearchResults(request.text, total, hits, (time.perf_counter() - started) * 1000, offset, number, notes)


def _question(source: Source[Place], parsed: ParsedQuery, request: SearchRequest) -> Question:
    language = (request.language or parsed.language).lower()
    filters = Filters(language, request.collection or "", (request.host or "").lower(), parsed.sites, parsed.unwanted_sites)
    return Question(parsed, filters, (language,) if language else source.languages)


def _answer(source: Source[Place], question: Question, offset: int, count: int, notes: list[str]) -> tuple[int, list[Hit]]:
    if not holds_words(question):
        notes.append("the query holds no word")
        return 0, []
    limit = max(1, count)
    total, found = source.page(question, STRICT, offset, limit)
    if total < RELAX_BELOW and words_of(question) > 1:
        rest, more = 0, list[tuple[float, Place]]()
        for share in STAGES[1:]:
            if not rest:
                rest, listed = source.page(question, share, max(0, offset - total), limit)
                more = list(listed)
        if rest:
            notes.append(_relaxed_note(total))
            total, found = total + rest, [*found, *more]
    return total, source.hits(question, found[:count])


def _relaxed_note(total: int) -> str:
    if not total:
        return "no page holds all the words; these hold some of them"
    return f"{total} {'page holds' if total == 1 else 'pages hold'} all the words; the others hold some of them"
