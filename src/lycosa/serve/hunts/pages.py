"""Hunts as pages, and as `POST /api/v1/hunts`, whose results are server-sent events (WHATWG HTML
section 9.2).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from lycosa.commands.crawl_models import HuntHit
from lycosa.commands.search_models import cached_path
from lycosa.core.errors import OwnedError, UsageError
from lycosa.core.units import parse_duration_ms
from lycosa.hunt.hunt import StrategyName
from lycosa.hunt.requests import DIED, LAST_EVENTS, HuntHandle, HuntView, begin_hunt
from lycosa.hunt.session import AGENTS, Event, HuntRequest
from lycosa.hunt.strategies import DEPTH, WIDTH
from lycosa.serve.search.views import web_href
from lycosa.serve.services import WRITER, Services, ServicesDep, Writer, WriterForm
from lycosa.serve.web.i18n import Interface, message
from lycosa.serve.web.problems import (
    ERRORS,
    WRITE_ERRORS,
    error_responses,
    problem_response,
)
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_MS = 3_600_000
"""A hunt over the API has an end."""

_LOOK_S = 0.05
_ALIVE_EVERY_S = 15.0  # a comment that keeps proxies from closing the connection
_ENDS = {
    "enough": message("enough results found"),
    "max_time": message("time limit reached"),
    "max_pages": message("page limit reached"),
    "finished": message("no links left to follow"),
    "stopped": message("stopped on request"),
}


class HuntParameters(JsonBody):
    """Query, seeds and limits of a hunt."""

    query: str = Field(
        min_length=1, max_length=2_000, description="Query, in the query language of the search."
    )
    seeds: list[Annotated[str, Field(max_length=MAX_URL_LENGTH)]] = Field(
        default=[],
        max_length=100,
        description="Seed URLs. Private addresses are refused, except hosts that are seeds of the "
        "workspace.",
    )
    from_index: bool | None = Field(
        None, description="Start from matching pages of the index (default: only without `seeds`)."
    )
    time: str = Field(
        "30s",
        max_length=16,
        description="Time limit with its unit, for example `2m`; at most one hour.",
    )
    pages: int | None = Field(None, ge=1, le=100_000, description="Stop after this many pages.")
    enough: int | None = Field(
        None, ge=1, le=10_000, description="Stop after this many relevant pages."
    )
    strategy: StrategyName = Field("best", description="How links are selected.")
    agents: int = Field(AGENTS, ge=1, le=50, description="Number of concurrent requests.")
    collection: str = Field(
        "default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="Collection to store the pages in.",
    )
    scope: Literal["host", "domain", "prefix", "any"] = Field(
        "any", description="Which links to follow, relative to the seeds."
    )
    width: int = Field(
        WIDTH, ge=1, le=1_000, description="fish, shark: mean number of links followed per page."
    )
    depth: int = Field(
        DEPTH,
        ge=0,
        le=100,
        description="fish, shark: maximum number of steps without a relevant page.",
    )

    def request(self) -> HuntRequest:
        """Return the request. Raises UsageError for an invalid time, or one over an hour."""
        time_ms = parse_duration_ms(self.time)
        if not 0 < time_ms <= MAX_MS:
            raise UsageError(
                f"time {self.time!r}: the time limit of a hunt must be more than 0 and at most 1h"
            )
        return HuntRequest(
            self.query,
            tuple(self.seeds),
            self.from_index,
            self.strategy,
            time_ms,
            self.pages,
            self.enough,
            self.agents,
            self.collection,
            self.scope,
            width=self.width,
            depth=self.depth,
            typed=False,
        )


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events. `started`; `found` for each relevant page as soon as "
        "it is fetched; `progress` about once a "
        "second; last `ended` with the ranked `results`, or `failed` with a `message`. The data "
        "of each is one JSON object with its kind in `event`; the schema describes `found`. "
        "Closing the connection ends the hunt; the fetched pages are kept.",
        "content": {"text/event-stream": {"schema": TypeAdapter(HuntHit).json_schema()}},
    },
    **error_responses(
        {
            400: "The query contains no words, or a seed is not a valid URL",
            409: "The workspace is in use by a crawl or another hunt",
        }
    ),
    503: ERRORS[503],
    **WRITE_ERRORS,
}


router = APIRouter()


@router.post(
    "/api/v1/hunts",
    responses=_RESPONSES,
    response_class=StreamingResponse,
    tags=["search"],
    dependencies=[WRITER],
)
def hunt(services: ServicesDep, parameters: Annotated[HuntParameters, Body()]) -> Response:
    """Focused crawl: follow the most relevant links and stream each relevant page as soon as it
    is fetched.
    """
    try:
        handle = begin_hunt(services.root, parameters.request())
    except OwnedError as error:
        return problem_response(409, "The workspace is in use", str(error))
    return StreamingResponse(
        _stream(handle), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def _stream(hunt: HuntHandle) -> AsyncIterator[bytes]:
    """Yield the events as they arrive. The end of the connection ends the hunt."""
    silent_s = 0.0
    try:
        while True:
            alive = hunt.alive()
            events = hunt.take()
            for event in events:
                yield _encode(event)
                if event["event"] in LAST_EVENTS:
                    return
            if not alive and not events:
                yield _encode({"event": "failed", "message": DIED})
                return
            silent_s = 0.0 if events else silent_s + _LOOK_S
            if silent_s >= _ALIVE_EVERY_S:
                silent_s = 0.0
                yield b": still hunting\n\n"
            await asyncio.sleep(_LOOK_S)
    finally:
        hunt.close()


def _encode(event: Event) -> bytes:
    return f"event: {event['event']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode(
        "utf-8", "replace"
    )


@router.get("/hunt", response_class=HTMLResponse, include_in_schema=False)
def ask(
    services: ServicesDep, request: Request, q: Annotated[str, Query(max_length=2_000)] = ""
) -> HTMLResponse:
    return _page(services, request, query=q.strip())


def _page(
    services: Services, request: Request, code: int = 200, problem: str = "", query: str = ""
) -> HTMLResponse:
    return services.pages.page(
        request, "hunt.html", code, query=query, hunts=services.hunts.all(), problem=problem
    )


@router.post("/hunt", include_in_schema=False)
def begin(services: ServicesDep, request: Request, fields: WriterForm, name: Writer) -> Response:
    query = fields.get("query", "").strip()
    try:
        parameters = HuntParameters.model_validate(
            {
                "query": query,
                "seeds": fields.get("seeds", "").split(),
                "time": fields.get("time", "").strip() or "30s",
                "pages": fields.get("pages", "").strip() or None,
                "enough": fields.get("enough", "").strip() or None,
                "strategy": fields.get("strategy", "best"),
            }
        )
        hunt_id = services.hunts.begin(parameters.request(), name)
    except ValidationError as error:
        faults = (f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        return _page(services, request, 400, "; ".join(faults))
    except UsageError as error:
        return _page(services, request, 400, str(error))
    except OwnedError as error:
        return _page(services, request, 409, str(error))
    return RedirectResponse(f"/hunt/{hunt_id}", 303)


@router.get("/hunt/{hunt_id}", response_class=HTMLResponse, include_in_schema=False)
def follow(services: ServicesDep, request: Request, hunt_id: str) -> HTMLResponse:
    view = services.hunts.view(hunt_id)
    if view is None:
        raise HTTPException(404, "Unknown hunt")
    words = services.pages.words(request)
    results = [
        {
            **each,
            "href": web_href(each["url"]),
            "cached": cached_path(each["url"]),
            "via_copy": cached_path(each["via"]) if each.get("via") else "",
            "pieces": [(piece["text"], piece["match"]) for piece in each.get("fragments", [])],
        }
        for each in view.results
    ]
    return services.pages.page(
        request, "hunt_one.html", hunt=view, results=results, why=_why(view, words)
    )


@router.post("/hunt/{hunt_id}/stop", dependencies=[WRITER], include_in_schema=False)
def stop(services: ServicesDep, hunt_id: str) -> Response:
    services.hunts.stop(hunt_id)
    return RedirectResponse(f"/hunt/{hunt_id}", 303)


def _why(view: HuntView, words: Interface) -> str:
    return words.t(_ENDS[view.ended]) if view.ended in _ENDS else view.ended
