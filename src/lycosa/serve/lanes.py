"""Who is answered when many ask at once: nobody is refused, each waits its turn among those who want the same kind of thing.

A lane lets so many in as can use the processor side by side, in the order in which they came. With one lane for everything a few slow
reports would hold back every search, and a crowd of searches every change; Python answers forty at once slower than four.
"""

from __future__ import annotations

import asyncio
import os
from enum import StrEnum

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lycosa.search.peers_wire import PATH as PEERS


class Lane(StrEnum):
    """A kind of request."""

    NONE = "none"  # hardly any work: never waits
    SEARCH = "search"
    TYPING = "typing"  # suggestions: a fifth of a search's work, for somebody who waits at each letter
    PEER = "peer"  # parts of another Lycosa's search: it may be one that our own searches wait for
    CHANGE = "change"
    OTHER = "other"


_CORES = os.cpu_count() or 1
AT_ONCE = {Lane.SEARCH: max(2, _CORES), Lane.TYPING: 2, Lane.PEER: 2 + _CORES, Lane.CHANGE: 4, Lane.OTHER: 8}
"""How many are worked at once. Searches are bound by the processor: with two more of them than cores suggestions took half as long
again, and the slowest searches a third (50 questions a second, two cores). Of the others some read files for seconds."""

AT_ONCE_ASKING = 16
"""Searches at once where others are asked too, over the network: then most of them wait for an answer."""

_SEARCHES = frozenset({"/", "/api/v1/search", "/api/v1/similar"})
_TYPING = frozenset({"/suggest", "/api/v1/suggest"})
_EASY = frozenset({"/healthz", "/robots.txt", "/favicon.ico"})
_LONG = frozenset({"/api/v1/exclusions", "/crawl/exclude", "/api/v1/files", "/library/day"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def lane_of(method: str, path: str) -> Lane:
    """Which lane a request is in."""
    if path.startswith("/static/") or path in _EASY:
        return Lane.NONE
    if path.startswith(f"{PEERS}/"):
        return Lane.PEER
    if method not in _READING:
        return Lane.OTHER if path in _LONG else Lane.CHANGE
    if path in _TYPING:
        return Lane.TYPING
    return Lane.SEARCH if path in _SEARCHES else Lane.OTHER


class Lanes:
    """ASGI middleware. A place is given back when the answer begins: what is sent slowly, or for long, holds nobody up.

    `asking`: whether a search waits for others over the network.
    """

    def __init__(self, app: ASGIApp, *, asking: bool = False) -> None:
        self._app = app
        places = {**AT_ONCE, Lane.SEARCH: AT_ONCE_ASKING} if asking else AT_ONCE
        self._places = {lane: asyncio.Semaphore(count) for lane, count in places.items()}  # it lets in who came first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lane = lane_of(scope["method"], scope["path"]) if scope["type"] == "http" else Lane.NONE
        if lane is Lane.NONE:
            await self._app(scope, receive, send)
            return
        places = self._places[lane]
        held = True

        async def send_on(message: Message) -> None:
            nonlocal held
            if held and message["type"] == "http.response.start":
                held = False
                places.release()
            await send(message)

        await places.acquire()
        try:
            await self._app(scope, receive, send_on)
        finally:
            if held:
                places.release()
