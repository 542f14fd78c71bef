"""`POST /api/v1/hunts`: real-time search over the API, its results as server-sent events (WHATWG HTML section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from lycosa.app.hunt_desk import LAST, Hunting
from lycosa.app.hunt_events import Event
from lycosa.app.hunting import AGENTS, HuntRequest
from lycosa.core.errors import OwnedError, UsageError
from lycosa.core.units import parse_duration_ms
from lycosa.search.hunt import StrategyName
from lycosa.search.hunt_fish import DEPTH, WIDTH
from lycosa.serve.access import WRITE_ERRORS, Access
from lycosa.serve.api import ERRORS
from lycosa.serve.problems import Problem, problem_response

LONGEST_MS = 3_600_000
"""A hunt over the API has an end."""

_LOOK_S = 0.05
_ALIVE_EVERY_S = 15.0  # a comment that keeps proxies from closing the connection

Begin = Callable[[HuntRequest], Hunting]


class HuntAsked(BaseModel):
    """What to hunt for, and when to stop."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, max_length=2_000, description="What to look for, in the query language of the search.")
    seeds: list[Annotated[str, Field(max_length=4_096)]] = Field(
        default=[],
        max_length=100,
        description="Pages to start from. They are not the operator's word: private addresses stay out of reach but the workspace's own.",
    )
    from_index: bool | None = Field(None, description="Start from what the index has; by default only where no seed is named.")
    time: str = Field("30s", max_length=16, description="How long, as in `2m`; an hour at most.")
    pages: int | None = Field(None, ge=1, le=100_000, description="Stop after this many pages.")
    enough: int | None = Field(None, ge=1, le=10_000, description="Stop after this many relevant pages.")
    strategy: StrategyName = "best"
    agents: int = Field(AGENTS, ge=1, le=50, description="Fetches at once.")
    collection: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="The collection to put the pages into.")
    scope: Literal["host", "domain", "prefix", "any"] = Field("any", description="Which links may be followed.")
    width: int = Field(WIDTH, ge=1, le=1_000, description="fish, shark: links taken of a page, on average.")
    depth: int = Field(DEPTH, ge=0, le=100, description="fish, shark: steps allowed without a relevant page.")

    def request(self) -> HuntRequest:
        """Raises UsageError for a time that is none, or too long."""
        time_ms = parse_duration_ms(self.time)
        if not 0 < time_ms <= LONGEST_MS:
            raise UsageError(f"time {self.time!r}: a hunt over the API may take up to an hour")
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


class HuntResult(BaseModel):
    """The data of an event `found`, and each of the `results` of `ended` (without `rank` and `seconds`)."""

    event: Literal["found"] = "found"
    url: str
    title: str
    score: float = Field(description="How well the page answers, 0 to 1, by what is known at that time.")
    snippet: str = Field(description="Plain text, not HTML: escape it.")
    fragments: list[dict[str, Any]] = Field(description="The snippet in pieces: `text`, and `match`, whether it matches the question.")
    language: str
    number: int = Field(description="The how many-th page of the hunt it was.")
    via: str = Field(description="The page that led to it; empty for one to start from.")
    rank: int = Field(description="Its place among those found until then.")
    seconds: float = Field(description="Since the hunt began.")


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events. `started`; `found` for each relevant page as soon as it is fetched; `progress` about once a "
        "second; last `ended` with the ranked `results`, or `failed` with a `message`. The data of each is one JSON object. "
        "Closing the connection ends the hunt; what it fetched is kept.",
        "content": {"text/event-stream": {"schema": HuntResult.model_json_schema()}},
    },
    400: {"model": Problem, "content": {"application/problem+json": {}}, "description": "The question has no words, or a seed is no URL"},
    503: ERRORS[503],
    409: {"model": Problem, "content": {"application/problem+json": {}}, "description": "A crawl or another hunt works in the workspace"},
    **WRITE_ERRORS,
}


def create_hunts(access: Access, begin: Begin) -> APIRouter:
    """The route. `begin` starts a hunt (`lycosa.app.hunts.begin_hunt`)."""
    router = APIRouter(prefix="/api/v1")

    # A coroutine: the process that hunts is to be made by a thread that stays.
    @router.post(
        "/hunts",
        responses=_RESPONSES,
        response_class=StreamingResponse,
        tags=["search"],
        dependencies=[Depends(access.writer)],
    )
    async def hunt(request: Request, asked: Annotated[HuntAsked, Body()]) -> Response:
        """Go out for a question: follow what looks relevant, and tell each page that answers as soon as it is fetched."""
        try:
            hunting = begin(asked.request())
        except OwnedError as error:
            return problem_response(409, "The workspace is in use", str(error))
        return StreamingResponse(_stream(hunting), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return router


async def _stream(hunting: Hunting) -> AsyncIterator[bytes]:
    """The events as they come; whoever leaves ends the hunt."""
    silent_s = 0.0
    try:
        while True:
            alive = hunting.alive()
            told = hunting.take()
            for event in told:
                yield _sent(event)
                if event["event"] in LAST:
                    return
            if not alive and not told:
                yield _sent({"event": "failed", "message": "the hunt died; what it fetched is archived, and the next start takes it up"})
                return
            silent_s = 0.0 if told else silent_s + _LOOK_S
            if silent_s >= _ALIVE_EVERY_S:
                silent_s = 0.0
                yield b": still hunting\n\n"
            await asyncio.sleep(_LOOK_S)
    finally:
        hunting.close()


def _sent(event: Event) -> bytes:
    return f"event: {event['event']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
