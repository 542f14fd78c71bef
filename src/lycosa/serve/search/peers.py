"""`/api/v1/peer`: this workspace's index as one of several that another Lycosa searches together.

Answers come from our own index alone, never from peers of ours: so no question goes round in
circles. Nothing is told that a search does not tell anyway. Requests are messages with bounds
(`lycosa.search.federation.wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lycosa.search.engine.indexed_pages import Address
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.search_query import SearchQuery, holds_words
from lycosa.search.federation.backend import BackendError, LocalBackend, QueryStep
from lycosa.search.federation.replica import GenerationGone
from lycosa.search.federation.wire import (
    PATH,
    FacetsMessage,
    FacetsRequest,
    FindRequest,
    HitMessage,
    HitsMessage,
    HitsRequest,
    IndexDescriptionMessage,
    IndexStatisticsMessage,
    MatchesMessage,
    QueryMessage,
    StatisticsMessage,
    StatisticsRequest,
    StepRequest,
    UrlsMessage,
    UrlsRequest,
)
from lycosa.search.ranking.statistics import TermStatistics
from lycosa.serve.search.api import ERRORS

_Asked = TypeVar("_Asked", bound=BaseModel)
_Result = TypeVar("_Result")


def create_peers(own: Callable[[], LocalBackend | None]) -> APIRouter:
    """The routes. `own`: our index; None where it is searched elsewhere, in replicas of its
    shards.
    """
    router = APIRouter(prefix=PATH, tags=["peers"], responses=ERRORS, include_in_schema=False)

    def side() -> LocalBackend:
        found = own()
        if found is None:
            raise HTTPException(404, "This server does not answer searches of other servers")
        return found

    @router.get("")
    def describe() -> Response:
        return _answer(IndexDescriptionMessage.of(_told(lambda: side().describe(0))))

    @router.post("/statistics")
    async def statistics(request: Request) -> Response:
        def act(asked: StatisticsRequest) -> BaseModel:
            described, term_statistics = side().statistics("", _question(asked.question), 0)
            return IndexStatisticsMessage(
                described=IndexDescriptionMessage.of(described),
                statistics=StatisticsMessage.of(term_statistics),
            )

        return await _carried_out(request, StatisticsRequest, act)

    @router.post("/find")
    async def find(request: Request) -> Response:
        def act(asked: FindRequest) -> BaseModel:
            return MatchesMessage.of(side().find(_step(asked, asked.everywhere), asked.limit, 0))

        return await _carried_out(request, FindRequest, act)

    @router.post("/facets")
    async def facets(request: Request) -> Response:
        def act(asked: FacetsRequest) -> BaseModel:
            return FacetsMessage.of(side().facets(_step(asked), tuple(asked.names), 0))

        return await _carried_out(request, FacetsRequest, act)

    @router.post("/hits")
    async def hits(request: Request) -> Response:
        def act(asked: HitsRequest) -> BaseModel:
            here, step = side(), _step(asked, asked.everywhere)
            _addresses(here.generation(asked.generation), [page.place for page in asked.pages])
            shown = here.hits(step, [page.ranked() for page in asked.pages], 0)
            return HitsMessage(hits=[HitMessage.of(hit) for hit in shown])

        return await _carried_out(request, HitsRequest, act)

    @router.post("/urls")
    async def urls(request: Request) -> Response:
        def act(asked: UrlsRequest) -> BaseModel:
            here = side()
            return UrlsMessage(
                keys=here.urls(
                    asked.generation, _addresses(here.generation(asked.generation), asked.places), 0
                )
            )

        return await _carried_out(request, UrlsRequest, act)

    return router


async def _carried_out(
    request: Request, kind: type[_Asked], act: Callable[[_Asked], BaseModel]
) -> Response:
    """Read a message, and do what it asks in a thread."""
    try:
        asked = kind.model_validate_json(await request.body())
    except ValidationError:
        raise HTTPException(422, "The message is not valid") from None
    return await run_in_threadpool(lambda: _answer(_told(lambda: act(asked))))


def _told(act: Callable[[], _Result]) -> _Result:
    try:
        return act()
    except GenerationGone:
        raise HTTPException(410, "The index has changed: start again") from None
    except BackendError as error:
        raise HTTPException(503, str(error)) from None
    except ValueError:
        raise HTTPException(422, "The message is not a valid search") from None


def _step(asked: StepRequest, everywhere: StatisticsMessage | None = None) -> QueryStep:
    term_statistics = everywhere.term_statistics() if everywhere is not None else TermStatistics()
    return QueryStep(asked.generation, "", _question(asked.question), asked.stage, term_statistics)


def _question(message: QueryMessage) -> SearchQuery:
    question = message.question()
    if question.like is None and not holds_words(question):
        raise ValueError("no word")
    return question


def _addresses(index: OpenIndex, places: Sequence[Address]) -> list[Address]:
    """Raises ValueError for a place where there is no page."""
    if not all(index.pages.has(place) for place in places):
        raise ValueError("no such page")
    return list(places)


def _answer(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")
