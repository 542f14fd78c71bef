"""`/api/v1/peer`: this workspace's index as one of several that another Lycosa searches together.

Responses are from our own index, never from our peers, so requests cannot loop. They contain
nothing that a search does not return. Requests are bounded messages
(`lycosa.search.federation.wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter
from pydantic import BaseModel
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

router = APIRouter(prefix=PATH, tags=["peers"], responses=ERRORS, include_in_schema=False)


@router.get("")
def describe(services: ServicesDep) -> Response:
    return _answer(lambda: IndexDescriptionMessage.of(_own_index(services).describe(0)))


@router.post("/statistics")
def statistics(services: ServicesDep, message: StatisticsRequest) -> Response:
    def act() -> BaseModel:
        described, term_statistics = _own_index(services).statistics(
            "", _question(message.question), 0
        )
        return IndexStatisticsMessage(
            described=IndexDescriptionMessage.of(described),
            statistics=StatisticsMessage.of(term_statistics),
        )

    return _answer(act)


@router.post("/find")
def find(services: ServicesDep, message: FindRequest) -> Response:
    def act() -> BaseModel:
        step = _step(message, message.everywhere)
        return MatchesMessage.of(_own_index(services).find(step, message.limit, 0))

    return _answer(act)


@router.post("/facets")
def facets(services: ServicesDep, message: FacetsRequest) -> Response:
    names = tuple(message.names)
    return _answer(lambda: FacetsMessage.of(_own_index(services).facets(_step(message), names, 0)))


@router.post("/hits")
def hits(services: ServicesDep, message: HitsRequest) -> Response:
    def act() -> BaseModel:
        here, step = _own_index(services), _step(message, message.everywhere)
        _addresses(here.generation(message.generation), [page.place for page in message.pages])
        shown = here.hits(step, [page.ranked() for page in message.pages], 0)
        return HitsMessage(hits=[HitMessage.of(hit) for hit in shown])

    return _answer(act)


@router.post("/urls")
def urls(services: ServicesDep, message: UrlsRequest) -> Response:
    def act() -> BaseModel:
        here = _own_index(services)
        places = _addresses(here.generation(message.generation), message.places)
        return UrlsMessage(keys=here.urls(message.generation, places, 0))

    return _answer(act)


def _own_index(services: Services) -> LocalBackend:
    index = services.source.own
    if index is None:
        raise HTTPException(404, "This server does not answer searches of other servers")
    return index


def _answer(act: Callable[[], BaseModel]) -> Response:
    """Return the message that `act` makes, its errors as statuses."""
    try:
        return Response(act().model_dump_json(), media_type="application/json")
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
