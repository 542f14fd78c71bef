"""Messages between Lycosa servers that search together: JSON over HTTP, one bounded model each.

Both ends are untrusted input to each other. A query is sent as text and parsed by the receiver.
Numbers are finite; texts have no control characters; hits with an invalid URL are dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lycosa.search.engine.reader import Address
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.federation.backend import IndexDescription
from lycosa.search.presentation.results import FACETS, MAX_HITS, Explanation, Hit, ScorePart
from lycosa.search.presentation.snippet import Snippet
from lycosa.search.query.filters import Filters
from lycosa.search.query.query import MAX_QUERY_CHARACTERS, parse_query
from lycosa.search.ranking.feedback import TERMS, Expansion
from lycosa.search.ranking.ordering import PageListing, Ranked
from lycosa.search.ranking.similar import MAX_TERMS, Likeness
from lycosa.search.ranking.statistics import TermStatistics

PROTOCOL = 3
"""Increase it when the meaning of a message changes. Other peers return complete results."""
PATH = "/api/v1/peer"

MAX_PAGES = 20_000  # of one request
MAX_LANGUAGES = 400
MAX_FREQUENCIES = 50_000
_MAX_VALUES = 2_000  # of a facet
_MAX_PIECES = 2_000
_URL = re.compile(r"(?:https?|ftp|gopher)://\S{1,4096}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _clean(text: str) -> str:
    return _CONTROLS.sub(" ", text)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[float, Field(ge=0, le=1e18), AfterValidator(_finite)]
Score = Annotated[float, Field(ge=0, le=1e9), AfterValidator(_finite)]
Rank = Annotated[float, Field(ge=-1e16, le=1e16), AfterValidator(_finite)]
"""A score, or the time in an order by date."""
Signed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Stage = Annotated[float, Field(ge=-2, le=1)]
Short = Annotated[str, Field(max_length=300), AfterValidator(_clean)]
Name = Annotated[str, Field(max_length=40, pattern=r"^[A-Za-z0-9_.-]*$")]
Long = Annotated[str, Field(max_length=20_000), AfterValidator(_clean)]
Ordinal = Annotated[int, Field(ge=0, lt=2**32)]
Place = tuple[Ordinal, Ordinal]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class LikenessMessage(_Message):
    """`lycosa.search.ranking.similar.Likeness`."""

    url: Annotated[str, Field(max_length=8_192)]
    page: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    group: Signed
    language: Name
    field_set: Name
    terms: Annotated[list[tuple[Short, Score]], Field(max_length=MAX_TERMS)]


class QueryMessage(_Message):
    """`SearchQuery`: the text of the query and the sender's options."""

    text: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)]
    language: Name = ""
    collection: Annotated[str, Field(max_length=64)] = ""
    host: Annotated[str, Field(max_length=255)] = ""
    languages: Annotated[list[Name], Field(max_length=MAX_LANGUAGES)]
    by_date: bool = False
    per_host: Annotated[int, Field(ge=0, le=1_000)] = 0
    folded: bool = True
    explain: bool = False
    now_ms: Annotated[int, Field(ge=0, le=2**53)] = 0
    like: LikenessMessage | None = None
    expansion: Annotated[list[tuple[Name, Short, Score]], Field(max_length=TERMS)] = []

    @classmethod
    def of(cls, text: str, question: SearchQuery) -> QueryMessage:
        like, added = question.like, question.expansion
        return cls(
            text=text[:MAX_QUERY_CHARACTERS],
            language=question.filters.language,
            collection=question.filters.collection,
            host=question.filters.host,
            languages=list(question.languages),
            by_date=question.by_date,
            per_host=question.per_host,
            folded=question.folded,
            explain=question.explain,
            now_ms=question.now_ms,
            expansion=[] if added is None else list(added.terms),
            like=None
            if like is None
            else LikenessMessage(
                url=like.url,
                page=like.page,
                group=like.group,
                language=like.language,
                field_set=like.field_set,
                terms=list(like.terms),
            ),
        )

    def question(self) -> SearchQuery:
        """Parse the query. Raises ValueError if it cannot be searched for."""
        parsed = parse_query(self.text)
        like = self.like
        return SearchQuery(
            parsed,
            Filters(self.language, self.collection, self.host, parsed.restrictions),
            tuple(self.languages),
            by_date=self.by_date,
            per_host=self.per_host,
            folded=self.folded,
            explain=self.explain,
            now_ms=self.now_ms,
            expansion=Expansion(tuple(self.expansion)) if self.expansion else None,
            like=None
            if like is None
            else Likeness(
                like.url, like.page, like.group, like.language, like.field_set, tuple(like.terms)
            ),
        )


class IndexDescriptionMessage(_Message):
    """`IndexDescription`."""

    protocol: int
    generation: Count
    documents: Count
    languages: Annotated[dict[Name, Count], Field(max_length=MAX_LANGUAGES)]
    versions: Annotated[dict[Short, Short], Field(max_length=200)]

    @classmethod
    def of(cls, described: IndexDescription) -> IndexDescriptionMessage:
        return cls(
            protocol=PROTOCOL,
            generation=described.generation,
            documents=described.documents,
            languages=dict(list(described.languages.items())[:MAX_LANGUAGES]),
            versions=dict(described.versions),
        )

    def described(self) -> IndexDescription:
        return IndexDescription(self.generation, self.documents, self.languages, self.versions)


class StatisticsMessage(_Message):
    """`TermStatistics`."""

    documents: Count
    counted: Count
    frequencies: Annotated[list[tuple[Name, Short, Count]], Field(max_length=MAX_FREQUENCIES)]
    lengths: Annotated[dict[Name, Amount], Field(max_length=1_000)]
    having: Annotated[dict[Name, Count], Field(max_length=1_000)]

    @classmethod
    def of(cls, term_statistics: TermStatistics) -> StatisticsMessage:
        frequencies = [
            (name, term, count) for (name, term), count in term_statistics.frequencies.items()
        ]
        return cls(
            documents=term_statistics.documents,
            counted=term_statistics.counted,
            frequencies=frequencies,
            lengths=dict(term_statistics.lengths),
            having=dict(term_statistics.having),
        )

    def term_statistics(self) -> TermStatistics:
        """Convert; a document frequency is at most the number of documents."""
        counted = max(self.documents, self.counted)
        return TermStatistics(
            self.documents,
            counted,
            {(name, term): min(count, counted) for name, term, count in self.frequencies},
            self.lengths,
            {name: min(count, counted) for name, count in self.having.items()},
        )


class IndexStatisticsMessage(_Message):
    """Response to `statistics`."""

    described: IndexDescriptionMessage
    statistics: StatisticsMessage


class MatchesMessage(_Message):
    """Response to `find`: pages as (score, segment, document, host, group)."""

    total: Count
    pages: Annotated[
        list[tuple[Rank, Ordinal, Ordinal, Signed, Signed]], Field(max_length=MAX_PAGES)
    ]

    @classmethod
    def of(cls, matches: PageListing[Address]) -> MatchesMessage:
        return cls(
            total=matches.total,
            pages=[
                (page.score, *page.place, page.host, page.group)
                for page in matches.pages[:MAX_PAGES]
            ],
        )

    def matches(self) -> PageListing[Address]:
        best = [
            Ranked(score, (segment, document), host, group)
            for score, segment, document, host, group in self.pages
        ]
        return PageListing(max(self.total, len(best)), best)


class StatisticsRequest(_Message):
    """Request the term statistics of a query."""

    question: QueryMessage


class StepRequest(StatisticsRequest):
    """Base of later requests: the generation, and the stage of the query."""

    generation: Count
    stage: Stage


class FindRequest(StepRequest):
    """Request the best pages, scored with the term statistics of all backends."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGES)]
    everywhere: StatisticsMessage


class FacetsRequest(StepRequest):
    """Request the number of pages per facet value."""

    names: Annotated[
        list[Literal["language", "host", "collection", "type", "date"]],
        Field(max_length=len(FACETS)),
    ]


class ShownPage(_Message):
    """A page whose hit is requested."""

    score: Rank
    place: Place
    copies: Count = 0
    from_host: Count = 1

    @classmethod
    def of(cls, page: Ranked[Address]) -> ShownPage:
        return cls(score=page.score, place=page.place, copies=page.copies, from_host=page.from_host)

    def ranked(self) -> Ranked[Address]:
        return Ranked(self.score, self.place, 0, 0, self.copies, self.from_host)


class HitsRequest(StepRequest):
    """Request the hits of pages."""

    pages: Annotated[list[ShownPage], Field(max_length=MAX_HITS)]
    everywhere: StatisticsMessage


class UrlsRequest(_Message):
    """Request the URL keys of pages."""

    generation: Count
    places: Annotated[list[Place], Field(max_length=MAX_PAGES)]


class UrlsMessage(_Message):
    """Response to `urls`."""

    keys: Annotated[list[Signed], Field(max_length=MAX_PAGES)]


class FacetsMessage(_Message):
    """Response to `facets`."""

    facets: dict[Name, Annotated[dict[Short, Count], Field(max_length=_MAX_VALUES)]]

    @classmethod
    def of(cls, counted: Mapping[str, Mapping[str, int]]) -> FacetsMessage:
        return cls(
            facets={
                name: dict(list(values.items())[:_MAX_VALUES]) for name, values in counted.items()
            }
        )


class PartMessage(_Message):
    """`ScorePart`."""

    field: Name
    terms: Annotated[list[Short], Field(max_length=100)]
    score: Score


class ExplanationMessage(_Message):
    """`Explanation`."""

    words: Score
    prior: Score
    freshness: Score
    parts: Annotated[list[PartMessage], Field(max_length=1_000)]


Pieces = Annotated[list[tuple[Long, bool]], Field(max_length=_MAX_PIECES)]


class HitFacts(_Message):
    """The fields of `Hit` that are the same in the public API."""

    url: Annotated[str, Field(max_length=4_200)]
    title: Long = ""
    language: Name = ""
    host: Short = ""
    collection: Long = ""
    score: Score = 0.0
    type: Name = ""
    copies: Count = 0
    from_host: Count = 1

    def hit_with(
        self, snippet: Snippet, fetched_at: int, published_at: int | None, **others: Any
    ) -> Hit | None:
        """Return the hit; None if its URL is not one of a page."""
        if _URL.fullmatch(self.url) is None or not self.url.isprintable():
            return None
        return Hit(
            self.url,
            self.title,
            snippet,
            self.language,
            self.host,
            self.collection,
            fetched_at,
            published_at,
            self.score,
            type=self.type,
            copies=self.copies,
            from_host=self.from_host,
            **others,
        )


class HitMessage(HitFacts):
    """`Hit`."""

    snippet: Pieces
    fetched_at: Annotated[int, Field(ge=-(2**53), le=2**53)]
    published_at: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    marked_title: Pieces = []
    explanation: ExplanationMessage | None = None

    @classmethod
    def of(cls, hit: Hit) -> HitMessage:
        explanation = hit.explanation
        return cls(
            url=hit.url,
            title=hit.title[:20_000],
            snippet=hit.snippet,
            language=hit.language,
            host=hit.host,
            collection=hit.collection,
            fetched_at=hit.fetched_at,
            published_at=hit.published_at,
            score=max(0.0, hit.score),
            marked_title=hit.marked_title,
            type=hit.type,
            copies=hit.copies,
            from_host=hit.from_host,
            explanation=None
            if explanation is None
            else ExplanationMessage(
                words=explanation.words,
                prior=explanation.prior,
                freshness=explanation.freshness,
                parts=[
                    PartMessage(
                        field=part.field, terms=list(part.terms), score=max(0.0, part.score)
                    )
                    for part in explanation.parts
                ],
            ),
        )

    def hit(self) -> Hit | None:
        """Convert; None if the URL is invalid."""
        explanation = self.explanation
        return self.hit_with(
            list(self.snippet),
            self.fetched_at,
            self.published_at,
            marked_title=list(self.marked_title),
            explanation=None
            if explanation is None
            else Explanation(
                explanation.words,
                explanation.prior,
                explanation.freshness,
                tuple(
                    ScorePart(part.field, tuple(part.terms), part.score)
                    for part in explanation.parts
                ),
            ),
        )


class HitsMessage(_Message):
    """Response to `hits`, in the order of the request."""

    hits: Annotated[list[HitMessage], Field(max_length=MAX_HITS)]
