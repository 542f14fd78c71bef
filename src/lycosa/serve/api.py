"""The JSON API under /api/v1: the same search as the page, the workspace's counts. Described at /api/v1/openapi.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.core.said import Said
from lycosa.core.units import format_time
from lycosa.search.engine import MOST_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.many import MOST_HOPS
from lycosa.search.results import FACETS, PER_HOST, Explanation
from lycosa.search.translated import Across, TranslatedQuery, edit
from lycosa.serve.present import cached_href
from lycosa.serve.problems import Problem
from lycosa.serve.source import Source

MAX_QUERY = 2_000
MAX_COUNT = 100
MOST_FACET_VALUES = 100

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {"application/problem+json": {}}, "description": text}
    for status, text in (
        (400, "It cannot be answered as it was asked"),
        (422, "A parameter is wrong"),
        (429, "Too many requests: try again after the seconds in Retry-After"),
        (503, "The workspace cannot be read"),
    )
}

NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "content": {"application/problem+json": {}}, "description": "It is not here"}
}


class Fragment(BaseModel):
    """A piece of a snippet."""

    text: str
    match: bool = Field(description="Whether the piece matches the query.")


class ScorePart(BaseModel):
    """What one term or phrase in one field counts."""

    field: str
    terms: list[str]
    score: float


class Explained(BaseModel):
    """A score: `words` times `prior` times `freshness`."""

    words: float = Field(description="BM25 of the words found, by field.")
    prior: float = Field(description="What links say of the page: 1 to 1.5, after `lycosa rank`.")
    freshness: float = Field(description="1.5 for a page published now, 1.25 after a week, 1 for one that gives no date.")
    parts: list[ScorePart]


class FacetValue(BaseModel):
    """One value that pages have, and how many of them."""

    value: str
    count: int


class Result(BaseModel):
    """One page that was found."""

    url: str
    title: str
    snippet: str = Field(description="Plain text, not HTML: escape it.")
    fragments: list[Fragment] = Field(description="The snippet in pieces: joined they are `snippet`.")
    language: str = Field(description="ISO 639 code identified from the text; empty: unknown.")
    host: str
    collection: str
    fetched_at: str = Field(description="UTC, ISO 8601.")
    published_at: str | None = Field(description="What the page says of itself; UTC, ISO 8601.")
    score: float
    type: str = Field(description="What kind of document it is: html, pdf, txt …")
    copies: int = Field(description="Pages with the same text that were left out for this one.")
    from_host: int = Field(description="Pages of its host that were found, among the first few hundred.")
    cached: str = Field(description="Where the archived copy of the page is shown: a path on this server, or a peer's URL; empty: nowhere.")
    source: str = Field(
        default="", description="Where it is from: empty for this server's workspace, else another one, or a peer's address."
    )
    explanation: Explained | None = Field(default=None, description="With `explain`: what the score is made of.")


class Alternative(BaseModel):
    """What a word is looked for as."""

    text: str
    weight: float = Field(description="How much it counts, up to 1.")
    origin: str = Field(description="The table that it is from; `as typed`, or `given` by parameter `translate`.")


class TranslatedWord(BaseModel):
    """A word of the query, and its translations, the heaviest first."""

    source: str
    alternatives: list[Alternative]


class Remark(BaseModel):
    """A note, and what it is made of."""

    code: str = Field(description="The same in every version; empty: the text says it all.")
    text: str = Field(description="In English.")
    values: dict[str, str | int] = Field(description="What the text speaks of.")


class Translated(BaseModel):
    """The query in one language."""

    language: str
    terms: list[TranslatedWord]


class OtherSpelling(BaseModel):
    """A query that is written otherwise."""

    query: str
    total: int = Field(description="How many pages hold all of its words.")


class Answer(BaseModel):
    """The answer to a search."""

    query: str
    total: int = Field(description="How many pages match.")
    offset: int
    took_ms: float
    generation: int = Field(description="The index generation that answered; 0: none yet.")
    notes: list[str] = Field(description="What to know about this answer, in English.")
    remarks: list[Remark] = Field([], description="The notes again, each with its code.")
    missing_shards: list[int] = Field(description="Parts of the index, counted from 0, whose pages are not in this answer.")
    hits: list[Result]
    translations: list[Translated] = Field(description="With `across`: how the query was asked in each language, its own first.")
    did_you_mean: OtherSpelling | None = Field(default=None, description="Another spelling, if the query finds little and that one more.")
    facets: dict[str, list[FacetValue]] = Field(default={}, description="The values of what was asked to be counted, most pages first.")


def create_router(source: Source, status: Callable[[], Mapping[str, object]]) -> APIRouter:
    """The routes of version 1."""
    router = APIRouter(prefix="/api/v1")

    @router.get("/search", responses=ERRORS, tags=["search"])
    def search(
        q: Annotated[str, Query(min_length=1, max_length=MAX_QUERY, description="What to search for.")],
        n: Annotated[int, Query(ge=1, le=MAX_COUNT, description="How many results.")] = 10,
        offset: Annotated[int, Query(ge=0, le=MOST_HITS, description="How many results to skip.")] = 0,
        lang: Annotated[str, Query(max_length=16, description="Only pages in this language.")] = "",
        collection: Annotated[str, Query(max_length=64, description="Only pages of this collection.")] = "",
        site: Annotated[str, Query(max_length=255, description="Only pages of this host.")] = "",
        sort: Annotated[Literal["", "relevance", "date"], Query(description="`date`: the newest first.")] = "",
        per_host: Annotated[
            int, Query(ge=0, le=MAX_COUNT, description="Results of a host that come before those of other hosts; 0: hosts do not matter.")
        ] = PER_HOST,
        fold: Annotated[bool, Query(description="Of pages with the same text show one.")] = True,
        facets: Annotated[
            str, Query(max_length=100, description=f"What to count all pages found by, separated by commas: {', '.join(FACETS)}.")
        ] = "",
        explain: Annotated[bool, Query(description="Say what each score is made of.")] = False,
        hops: Annotated[
            int | None, Query(ge=0, le=MOST_HOPS, description="How far peers are asked too, at most as `search.hops` says; 0: none is.")
        ] = None,
        spelling: Annotated[bool, Query(description="Say another spelling of a query that finds little.")] = True,
        across: Annotated[
            str, Query(max_length=255, description="Ask in these languages too (ISO 639 codes with commas between), or in `all`.")
        ] = "",
        source_language: Annotated[str, Query(alias="from", max_length=3, description="The query's language, if it is known.")] = "",
        translate: Annotated[
            list[str] | None, Query(max_length=256, description="What to ask for instead of a word in a language: `de:house=Haus|Gebäude`.")
        ] = None,
    ) -> Answer:
        """Search the index. The query's language is described in docs/query.md."""
        request = SearchRequest(
            q,
            count=n,
            offset=offset,
            language=lang or None,
            collection=collection or None,
            host=site or None,
            order=sort,
            per_host=per_host,
            folded=fold,
            facets=tuple(name.strip() for name in facets.split(",") if name.strip()),
            explain=explain,
            hops=hops,
            spelling=spelling,
        )
        if across:
            request = replace(request, across=across_of(across, source_language, translate or []))
        return answer(source.search(request))

    @router.get("/status", responses={503: ERRORS[503]}, tags=["workspace"])
    def workspace_status() -> dict[str, Any]:
        """The workspace's counts, as `lycosa status --json` prints them."""
        return dict(status())

    return router


def answer(results: SearchResults) -> Answer:
    """Search results as the API's document."""
    return Answer(
        query=results.query,
        total=results.total,
        offset=results.offset,
        took_ms=round(results.took_ms, 3),
        generation=results.generation,
        notes=list(results.notes),
        remarks=[_remark(note) for note in results.notes],
        missing_shards=list(results.missing_shards),
        hits=[_result(hit) for hit in results.hits],
        translations=[_translated(query) for query in results.translations],
        did_you_mean=None if (other := results.did_you_mean) is None else OtherSpelling(query=other.query, total=other.total),
        facets={
            name: [FacetValue(value=value, count=count) for value, count in list(values.items())[:MOST_FACET_VALUES]]
            for name, values in results.facets.items()
        },
    )


def across_of(languages: str, source: str, translate: list[str]) -> Across:
    """The parameters of a search across languages; edits of another form than `de:house=Haus|Gebäude` are passed over."""
    named = () if languages == "all" else tuple(code.strip().lower() for code in languages.split(",") if code.strip())
    return Across(named, source.lower(), tuple(understood for given in translate if (understood := edit(given)) is not None))


def _remark(note: str) -> Remark:
    if not isinstance(note, Said):
        return Remark(code="", text=note, values={})
    values = {name: value if isinstance(value, int) else str(value) for name, value in note.values.items()}
    return Remark(code=note.code, text=note, values=values)


def _translated(query: TranslatedQuery) -> Translated:
    terms = [
        TranslatedWord(
            source=term.source,
            alternatives=[Alternative(text=one.surface, weight=round(one.weight, 3), origin=one.origin) for one in term.alternatives],
        )
        for term in query.terms
    ]
    return Translated(language=query.language, terms=terms)


def _result(hit: Hit) -> Result:
    return Result(
        url=hit.url,
        title=hit.title,
        snippet="".join(text for text, _ in hit.snippet),
        fragments=[Fragment(text=text, match=match) for text, match in hit.snippet],
        language=hit.language,
        host=hit.host,
        collection=hit.collection,
        fetched_at=format_time(hit.fetched_at),
        published_at=None if hit.published_at is None else format_time(hit.published_at),
        score=hit.score,
        type=hit.type,
        copies=hit.copies,
        from_host=hit.from_host,
        cached=cached_href(hit.url, hit.source),
        source=hit.source,
        explanation=_explained(hit.explanation) if hit.explanation is not None else None,
    )


def _explained(found: Explanation) -> Explained:
    parts = [ScorePart(field=part.field, terms=list(part.terms), score=part.score) for part in found.parts]
    return Explained(words=found.words, prior=found.prior, freshness=found.freshness, parts=parts)
