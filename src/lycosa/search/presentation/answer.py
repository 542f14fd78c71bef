"""Answer a search request from one index or several: parse the query, search its stages, and make
snippets and facets.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from lycosa.core.messages import Message
from lycosa.index.shards.shards import by_count
from lycosa.search.engine.search_query import (
    REQUIRE_ALL,
    SENTENCE,
    SearchQuery,
    holds_words,
    parts_of,
    readings_of,
    stages_of,
)
from lycosa.search.presentation.results import FACETS, MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.query.filters import Filters, link_targets
from lycosa.search.query.query import (
    Clause,
    ParsedQuery,
    clauses,
    parse_query,
    with_words_of,
)
from lycosa.search.query.syntax import BY_DATE
from lycosa.search.ranking.feedback import (
    AUTO,
    MAX_SINGLE_ANSWER_WORDS,
    OFF,
    ON,
    PAGES,
    PageTerms,
    expansion,
    strength,
)
from lycosa.search.ranking.ordering import PageListing, Ranked
from lycosa.search.ranking.sentence import MAX_PARTS_WITH_REQUIRED, MAX_TERMS, sentence_terms
from lycosa.search.ranking.similar import Likeness
from lycosa.search.suggest.spelling import (
    FEW,
    Spelling,
    SpellingCandidates,
    SpellingRequest,
    other_spelling,
)
from lycosa.text.function_words import QUESTION_MARKS

Place = TypeVar("Place")

RELAX_BELOW = 3
"""If fewer pages than this contain all words, pages with most of them are shown too."""

MAX_RELAXED_PHRASES = 8
"""Phrases of a query without results that are looked up, each by a search."""

PHRASE_AS_WORDS = "phrase_as_words"
"""Code of the note about a phrase whose words were searched for instead."""

MANY = 100
"""From this number of pages on, a spelling is not searched: the number itself is used."""

NOTHING_INDEXED = Message("nothing_indexed", "no page is indexed yet")
HOUR_MS = 3_600_000


class AnswerSource(Protocol[Place]):
    """An open index, or several as one. A place identifies a page in it."""

    @property
    def number(self) -> int:
        """Number of its generation."""
        ...

    @property
    def documents(self) -> int: ...

    @property
    def languages(self) -> tuple[str, ...]: ...

    def page(self, query: SearchQuery, stage: float, offset: int, count: int) -> PageListing[Place]:
        """Return the number of matches, and `count` of them from `offset` on, best first."""
        ...

    def facets(
        self, query: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> Mapping[str, Mapping[str, int]]:
        """Return the number of matches per facet value."""
        ...

    def hits(
        self, query: SearchQuery, stage: float, pages: Sequence[Ranked[Place]]
    ) -> list[Hit]: ...

    def spelling_candidates(self, request: SpellingRequest) -> SpellingCandidates:
        """Return the indexed words that equal or resemble the requested ones."""
        ...

    def feedback_terms(self, pages: Sequence[Ranked[Place]]) -> list[PageTerms]:
        """Return the heaviest terms of each page."""
        ...

    def likeness(self, url: str) -> Likeness | None:
        """Return the query for pages similar to one; None if its URL is not indexed."""
        ...


def answer(source: AnswerSource[Place] | None, request: SearchRequest) -> SearchResults:
    """Answer a query. Every input is valid. Without a source no page is indexed yet."""
    started = time.perf_counter()
    parsed = parse_query(request.text)
    offset = max(0, min(request.offset, MAX_HITS))
    count = max(0, min(request.count, MAX_HITS - offset))
    notes = list(parsed.notes)
    strict, total, hits, facets, added = (
        0,
        0,
        list[Hit](),
        dict[str, dict[str, int]](),
        tuple[str, ...](),
    )
    if source is None or not source.documents:
        notes.append(NOTHING_INDEXED)
    elif parsed.empty:
        notes.append(Message("empty_query", "the query is empty"))
    else:
        query = _search_query(source, parsed, request)
        if query.like is not None or not parsed.similar:
            query = _with_feedback(source, query, request)
            added = (
                ()
                if query.expansion is None
                else tuple(term for _, term, _ in query.expansion.terms)
            )
            strict, total, hits, facets = _answer(source, query, request, offset, count, notes)
        else:
            notes.append(
                Message("similar_unknown", "similar: {url} is not indexed", url=parsed.similar)
            )
    spelling = (
        spelling_of(source, parsed, request, strict) if source is not None and not offset else None
    )
    number = source.number if source is not None else 0
    took = (time.perf_counter() - started) * 1000
    return SearchResults(
        request.text,
        total,
        hits,
        took,
        offset,
        number,
        notes,
        facets=facets,
        did_you_mean=spelling,
        expansion=added,
    )


def _search_query(
    source: AnswerSource[Place], parsed: ParsedQuery, request: SearchRequest
) -> SearchQuery:
    language = request.only_language
    filters = Filters(language, request.collection or "", request.only_site, parsed.restrictions)
    by_date = (request.order or parsed.order) == BY_DATE or not (parsed.required or parsed.similar)
    like = (
        next((like for url in link_targets(parsed.similar) if (like := source.likeness(url))), None)
        if parsed.similar
        else None
    )
    if like is not None and not (language or parsed.languages):
        filters = replace(filters, language=like.language)
    return SearchQuery(
        parsed,
        filters,
        (language,) if language else parsed.languages or source.languages,
        by_date=by_date,
        per_host=0 if by_date or filters.one_site else max(0, request.per_host),
        folded=request.folded,
        explain=request.explain,
        now_ms=int(time.time() * 1000) // HOUR_MS * HOUR_MS,
        like=like,
        snippets=request.snippets,
    )


def _with_feedback(
    source: AnswerSource[Place], query: SearchQuery, request: SearchRequest
) -> SearchQuery:
    """Return the query with terms of its first results, if it is a sentence and feedback is on."""
    if (
        request.feedback == OFF
        or query.by_date
        or not holds_words(query)
        or stages_of(query)[0] != SENTENCE
    ):
        return query
    if request.feedback == AUTO and _has_one_answer(source, query, request.text):
        return query
    pages = source.page(
        replace(query, per_host=0, folded=True, explain=False), SENTENCE, 0, PAGES
    ).pages
    amount = 1.0 if request.feedback == ON else strength([page.score for page in pages])
    if not pages or amount <= 0:
        return query
    scored = zip((page.score for page in pages), source.feedback_terms(pages), strict=True)
    return replace(query, expansion=expansion(scored, amount))


def _has_one_answer(source: AnswerSource[Place], query: SearchQuery, text: str) -> bool:
    """Return whether a question probably has one page as its answer, which terms of other pages
    would displace.
    """
    words = parts_of(query)
    if words <= MAX_SINGLE_ANSWER_WORDS and text.rstrip().endswith(QUESTION_MARKS):
        return True
    return words <= MAX_PARTS_WITH_REQUIRED and source.page(query, REQUIRE_ALL, 0, 1).total > 0


def matching(source: AnswerSource[Place], parsed: ParsedQuery, request: SearchRequest) -> int:
    """Return how many pages contain all words of a query, within the filters of the request."""
    query = _search_query(source, parsed, replace(request, explain=False))
    return source.page(query, REQUIRE_ALL, 0, 1).total if holds_words(query) else 0


def spelling_of(
    source: AnswerSource[Place], parsed: ParsedQuery, request: SearchRequest, total: int
) -> Spelling | None:
    """Return another spelling of a query whose words few (`total`) pages contain."""
    if not request.spelling or not parsed.required or not source.documents:
        return None
    if total >= FEW and (
        request.text.isascii() or parts_of(_search_query(source, parsed, request)) < 2
    ):
        return None

    def matches(text: str, pages: int) -> int:
        if pages >= MANY and not (request.host or request.collection):
            return pages
        return matching(source, parse_query(text), request)

    return other_spelling(
        request.text,
        parsed,
        request.only_language,
        total,
        source.spelling_candidates,
        matches,
    )


def _answer(
    source: AnswerSource[Place],
    query: SearchQuery,
    request: SearchRequest,
    offset: int,
    count: int,
    notes: list[str],
) -> tuple[int, int, list[Hit], dict[str, dict[str, int]]]:
    """Return the number of pages with all words, that of all results, the hits, and the facets."""
    if not holds_words(query):
        notes.append(Message("no_word", "the query contains no word"))
        return 0, 0, [], {}
    limit = max(1, count)
    first = stages_of(query)[0]
    if first == SENTENCE and any(
        sentence_terms(reading, lambda _: 0).left_out for reading in readings_of(query)
    ):
        notes.append(
            Message("rarest_words", "only the {n} rarest words of the query were used", n=MAX_TERMS)
        )
    total, pages = source.page(query, first, offset, limit)
    if not total and (absent := _absent_phrases(source, query)):
        notes += [
            Message(
                PHRASE_AS_WORDS,
                "no page contains the phrase {phrase}; its words were searched for instead",
                phrase=phrase.quoted,
            )
            for phrase in absent
        ]
        parsed = with_words_of(query.parsed, absent.__contains__)
        return 0, *_answer(source, replace(query, parsed=parsed), request, offset, count, notes)[1:]
    strict = total
    hits = source.hits(query, first, pages[:count])
    stages = [first]
    if total < RELAX_BELOW and first == REQUIRE_ALL:
        for share in stages_of(query)[1:]:
            rest, more = source.page(query, share, max(0, offset - total), limit)
            if rest:
                notes.append(_relaxed_note(total))
                hits += source.hits(query, share, more[: count - len(hits)])
                total += rest
                stages.append(share)
                break
    names = tuple(name for name in FACETS if name in request.facets)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for stage in stages if names else []:
        for name, values in source.facets(query, stage, names).items():
            counts[name].update(values)
    return strict, total, hits, {name: by_count(values) for name, values in counts.items()}


def _absent_phrases(source: AnswerSource[Place], query: SearchQuery) -> list[Clause]:
    """Return the required phrases of several words that no page contains within the filters."""

    def alone(clause: Clause) -> SearchQuery:
        parsed = replace(query.parsed, required=(clause,), excluded=())
        return replace(query, parsed=parsed, expansion=None)

    phrases = dict.fromkeys(each for each in clauses(query.parsed.required) if each.phrase)
    return [
        phrase
        for phrase in itertools.islice(phrases, MAX_RELAXED_PHRASES)
        if parts_of(alone(replace(phrase, phrase=False))) > 1
        and not source.page(alone(phrase), REQUIRE_ALL, 0, 1).total
    ]


def _relaxed_note(total: int) -> Message:
    if not total:
        return Message("some_words", "no page contains all the words; these contain some of them")
    return Message(
        "some_words_after",
        "{n, plural, one {# page contains all the words; the others contain some of them} "
        "other {# pages contain all the words; the others contain some of them}}",
        n=total,
    )
