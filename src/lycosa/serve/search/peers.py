"""`/api/v1/peer`: this workspace's index as one of several that another Lycosa searches together.

Responses are from our own index, never from our peers, so requests cannot loop. They contain
nothing that a search does not return. Requests are bounded messages
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

from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.reader import Address
from lycosa.search.engine.search_query import SearchQuery, holds_words
from lycosa.search.federation.backend import BackendError, GenerationGone, LocalBackend, QueryStep
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
from lycosa.serve.services import Services, ServicesDep
from lycosa.serve.web.problems import ERRORS

_Message = TypeVar("_Message", bound=BaseModel)
_Result = TypeVar("_Result")


router = APIRouter(prefix=PATH, tags=["peers"], responses=ERRORS, include_in_schema=False)


@router.get("")
def describe(services: ServicesDep) -> Response:
    return _answer(
        IndexDescriptionMessage.of(_with_status_codes(lambda: _own_index(services).describe(0)))
    )


@router.post("/statistics")
async def statistics(services: ServicesDep, request: Request) -> Response:
    def act(message: StatisticsRequest) -> BaseModel:
        described, term_statistics = _own_index(services).statistics(
            "", _question(message.question), 0
        )
        return IndexStatisticsMessage(
            described=IndexDescriptionMessage.of(described),
            statistics=StatisticsMessage.of(term_statistics),
        )

    return await _respond(request, StatisticsRequest, act)


@router.post("/find")
async def find(services: ServicesDep, request: Request) -> Response:
    def act(message: FindRequest) -> BaseModel:
        return MatchesMessage.of(
            _own_index(services).find(_step(message, message.everywhere), message.limit, 0)
        )

    return await _respond(request, FindRequest, act)


@router.post("/facets")
async def facets(services: ServicesDep, request: Request) -> Response:
    def act(message: FacetsRequest) -> BaseModel:
        return FacetsMessage.of(
            _own_index(services).facets(_step(message), tuple(message.names), 0)
        )

    return await _respond(request, FacetsRequest, act)


@router.post("/hits")
async def hits(services: ServicesDep, request: Request) -> Response:
    def act(message: HitsRequest) -> BaseModel:
        here, step = _own_index(services), _step(message, message.everywhere)
        _addresses(here.generation(message.generation), [page.place for page in message.pages])
        shown = here.hits(step, [page.ranked() for page in message.pages], 0)
        return HitsMessage(hits=[HitMessage.of(hit) for hit in shown])

    return await _respond(request, HitsRequest, act)


@router.post("/urls")
async def urls(services: ServicesDep, request: Request) -> Response:
    def act(message: UrlsRequest) -> BaseModel:
        here = _own_index(services)
        return UrlsMessage(
            keys=here.urls(
                message.generation,
                _addresses(here.generation(message.generation), message.places),
                0,
            )
        )

    return await _respond(request, UrlsRequest, act)


def _own_index(services: Services) -> LocalBackend:
    index = services.source.own
    if index is None:
        raise HTTPException(404, "This server does not answer searches of other servers")
    return index


async def _respond(
    request: Request, kind: type[_Message], act: Callable[[_Message], BaseModel]
) -> Response:
    """Read a message, and process it in a thread."""
    try:
        message = kind.model_validate_json(await request.body())
    except ValidationError:
        raise HTTPException(422, "The message is not valid") from None
    return await run_in_threadpool(lambda: _answer(_with_status_codes(lambda: act(message))))


def _with_status_codes(act: Callable[[], _Result]) -> _Result:
    try:
        return act()
    except GenerationGone:
        raise HTTPException(410, "The index has changed: start again") from None
    except BackendError as error:
        raise HTTPException(503, str(error)) from None
    except ValueError:
        raise HTTPException(422, "The message is not a valid search") from None


def _step(message: StepRequest, everywhere: StatisticsMessage | None = None) -> QueryStep:
    term_statistics = everywhere.term_statistics() if everywhere is not None else TermStatistics()
    return QueryStep(
        message.generation, "", _question(message.question), message.stage, term_statistics
    )


def _question(message: QueryMessage) -> SearchQuery:
    question = message.question()
    if question.like is None and not holds_words(question):
        raise ValueError("no word")
    return question


def _addresses(index: OpenIndex, places: Sequence[Address]) -> list[Address]:
    """Return the addresses. Raises ValueError if one is not that of a page."""
    if not all(index.pages.has(place) for place in places):
        raise ValueError("no such page")
    return list(places)


def _answer(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")
