"""Limits on concurrent requests by kind of request: each waits its turn among those of its kind.

A lane lets so many in as can use the processor side by side, in the order in which they came. With
one lane for everything a few slow reports would hold back every search, and a crowd of searches
every change; Python answers forty at once slower than four. Requests without a token or session get
a part of the places, so that anonymous readers never hold back those who have signed in; when very
many of them wait, further ones are refused (503).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lycosa.search.federation.wire import PATH as PEERS
from lycosa.serve.web.problems import problem_response


class Lane(StrEnum):
    """A kind of request."""

    NONE = "none"  # hardly any work: never waits
    SEARCH = "search"
    # suggestions: a fifth of a search's work, for somebody who waits at each letter
    TYPING = "typing"
    PEER = "peer"  # parts of another Lycosa's search: it may be one that our own searches wait for
    CHANGE = "change"
    REPORT = "report"  # reads tables for seconds
    OTHER = "other"


_CORES = os.cpu_count() or 1
AT_ONCE = {
    Lane.SEARCH: max(2, _CORES),
    Lane.TYPING: 2,
    Lane.PEER: 2 + _CORES,
    Lane.CHANGE: 4,
    Lane.REPORT: 4,
    Lane.OTHER: 8,
}
"""How many are worked at once. Searches are bound by the processor: with two more of them than
cores suggestions took half as long again, and the slowest searches a third (50 questions a second,
two cores). Of the others some read files for seconds.
"""

ANONYMOUS = {
    Lane.SEARCH: max(1, _CORES),
    Lane.TYPING: 2,
    Lane.PEER: 2 + _CORES,
    Lane.CHANGE: 2,
    Lane.REPORT: 1,
    Lane.OTHER: 6,
}
"""How many of them may be anonymous. A sign-in is an anonymous change."""

MAX_WAITING = 500
"""Anonymous requests of a kind that may wait."""

AT_ONCE_ASKING = 16
"""Searches at once where others are asked too, over the network: then most of them wait for an
answer.
"""

_SEARCHES = frozenset({"/", "/api/v1/search", "/api/v1/similar"})
_TYPING = frozenset({"/suggest", "/api/v1/suggest"})
_EASY = frozenset({"/healthz", "/robots.txt", "/favicon.ico"})
_LONG = frozenset({"/api/v1/exclusions", "/crawl/exclude", "/api/v1/library/files", "/library/day"})
_REPORTS = re.compile(
    r"(?:/api/v1)?/(?:terms|sites?|changes|library|versions|crawl/explain|explain|crawl/hosts?|hosts)(?:/|$)"
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})


def lane_of(method: str, path: str) -> Lane:
    """Which lane a request is in."""
    if path.startswith("/static/") or path in _EASY:
        return Lane.NONE
    if path.startswith(f"{PEERS}/"):
        return Lane.PEER
    if method not in READING:
        return Lane.OTHER if path in _LONG else Lane.CHANGE
    if path in _TYPING:
        return Lane.TYPING
    if path in _SEARCHES:
        return Lane.SEARCH
    return Lane.REPORT if _REPORTS.match(path) else Lane.OTHER


class Lanes:
    """ASGI middleware. A place is given back when the answer begins: what is sent slowly, or for
    long, holds nobody up.

    Args:
        signed_in: whether a request comes with a valid token or session.
        asking: whether a search waits for others over the network.
    """

    def __init__(
        self, app: ASGIApp, *, signed_in: Callable[[Scope], bool], asking: bool = False
    ) -> None:
        self._app = app
        self._signed_in = signed_in
        places = {**AT_ONCE, Lane.SEARCH: AT_ONCE_ASKING} if asking else AT_ONCE
        anonymous = {**ANONYMOUS, Lane.SEARCH: AT_ONCE_ASKING - 2} if asking else ANONYMOUS
        # it lets in who came first
        self._places = {lane: asyncio.Semaphore(count) for lane, count in places.items()}
        self._anonymous = {lane: asyncio.Semaphore(count) for lane, count in anonymous.items()}
        self._waiting = Counter[Lane]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lane = lane_of(scope["method"], scope["path"]) if scope["type"] == "http" else Lane.NONE
        if lane is Lane.NONE:
            await self._app(scope, receive, send)
            return
        taken = [self._places[lane]]
        if not self._signed_in(scope):
            taken.insert(0, self._anonymous[lane])
            if self._waiting[lane] >= MAX_WAITING:
                detail = "Too many requests of this kind are waiting."
                await problem_response(
                    503, "The server is busy", detail, headers={"Retry-After": "5"}
                )(scope, receive, send)
                return
        held: list[asyncio.Semaphore] = []

        def release() -> None:
            while held:
                held.pop().release()

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                release()
            await send(message)

        try:
            self._waiting[lane] += 1
            try:
                for places in taken:
                    await places.acquire()
                    held.append(places)
            finally:
                self._waiting[lane] -= 1
            await self._app(scope, receive, send_on)
        finally:
            release()
