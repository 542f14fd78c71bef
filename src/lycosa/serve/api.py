"""The JSON API under /api/v1: the same search as the page, the workspace's counts. Described at /api/v1/openapi.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.core.units import format_time
from lycosa.search.engine import MOST_HITS, Hit, SearchRequest, SearchResults
from lycosa.serve.problems import Problem
from lycosa.serve.source import Source

MAX_QUERY = 2_000
MAX_COUNT = 100

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "content": {"application/problem+json": {}}, "description": text}
    for status, text in ((422, "A parameter is wrong"), (503, "The workspace cannot be read"))
}


class Fragment(BaseModel):
    """A piece of a snippet."""

    text: str
    match: bool = Field(description="Whether the piece matches the query.")


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


class Answer(BaseModel):
    """The answer to a search."""

    query: str
    total: int = Field(description="How many pages match.")
    offset: int
    took_ms: float
    generation: int = Field(description="The index generation that answered; 0: none yet.")
    notes: list[str] = Field(description="What to know about this answer.")
    missing_shards: list[int] = Field(description="Parts of the index, counted from 0, whose pages are not in this answer.")
    hits: list[Result]


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
    ) -> Answer:
        """Search the index."""
        return answer(
            source.search(SearchRequest(q, count=n, offset=offset, language=lang or None, collection=collection or None, host=site or None))
        )

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
        missing_shards=list(results.missing_shards),
        hits=[_result(hit) for hit in results.hits],
    )


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
    )
