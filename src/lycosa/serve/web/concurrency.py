"""Limits on concurrent requests by kind of request: each waits its turn among those of its kind.

With one limit for all requests, slow reports would delay every search, and many searches every
change. Anonymous requests get only a part of the slots, so that they never delay signed-in users;
when too many of them wait, further ones are refused (503).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from lycosa.core.messages import Message
from lycosa.search.federation.wire import PATH as PEERS
from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import error_response


class RequestKind(StrEnum):
    """A kind of request."""

    NONE = "none"  # hardly any work: never waits
    SEARCH = "search"
    # suggestions: a fifth of a search's work, requested at each letter
    TYPING = "typing"
    PEER = "peer"  # parts of a search of another server, for which searches here may wait
    CHANGE = "change"
    REPORT = "report"  # reads tables for seconds
    OTHER = "other"


_CORES = os.cpu_count() or 1
MAX_CONCURRENT = {
    RequestKind.SEARCH: max(2, _CORES),
    RequestKind.TYPING: 2,
    RequestKind.PEER: 2 + _CORES,
    RequestKind.CHANGE: 4,
    RequestKind.REPORT: 4,
    RequestKind.OTHER: 8,
}
"""Maximum number of concurrent requests. Searches are bound by the processor: with two more of them
than cores, suggestions took 1.5 times as long, and the slowest searches a third longer (50 queries
a second, two cores). Some of the other requests read files for seconds.
"""

MAX_ANONYMOUS = {
    RequestKind.SEARCH: max(1, _CORES),
    RequestKind.TYPING: 2,
    RequestKind.PEER: 2 + _CORES,
    RequestKind.CHANGE: 2,
    RequestKind.REPORT: 1,
    RequestKind.OTHER: 6,
}
"""Maximum number of anonymous ones among them. A sign-in is an anonymous change."""

MAX_WAITING = 500
"""Anonymous requests of a kind that may wait."""

MAX_REMOTE_SEARCHES = 16
"""Concurrent searches if other servers take part: most of them wait for a response."""

_SEARCHES = frozenset(
    {"/", "/api/v1/search", "/api/v1/similar", "/api/v1/passages", "/api/v1/chunks"}
)
_TYPING = frozenset({"/suggest", "/api/v1/suggest"})
_EASY = frozenset({"/healthz", "/robots.txt", "/favicon.ico"})
_LONG = frozenset({"/api/v1/exclusions", "/crawl/exclude", "/api/v1/library/files", "/library/day"})
_REPORTS = re.compile(
    r"(?:/api/v1)?/(?:terms|sites?|changes|library|versions|crawl/explain|explain|crawl/hosts?"
    r"|hosts)(?:/|$)"
)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def request_kind(method: str, path: str) -> RequestKind:
    """Return the kind of a request."""
    if path.startswith("/static/") or path in _EASY:
        return RequestKind.NONE
    if path.startswith(f"{PEERS}/"):
        return RequestKind.PEER
    if method not in SAFE_METHODS:
        return RequestKind.OTHER if path in _LONG else RequestKind.CHANGE
    if path in _TYPING:
        return RequestKind.TYPING
    if path in _SEARCHES:
        return RequestKind.SEARCH
    return RequestKind.REPORT if _REPORTS.match(path) else RequestKind.OTHER


class ConcurrencyLimiter:
    """ASGI middleware: bounds the number of concurrent requests of each kind, first come first
    served. A slot is released when the response starts, so slow readers occupy none.

    Args:
        signed_in: whether a request has a valid token or session.
        remote_search: whether searches wait for other servers.
    """

    def __init__(
        self, app: ASGIApp, *, signed_in: Callable[[Scope], bool], remote_search: bool = False
    ) -> None:
        self._app = app
        self._signed_in = signed_in
        self._slots = {kind: asyncio.Semaphore(n) for kind, n in MAX_CONCURRENT.items()}
        self._anonymous = {kind: asyncio.Semaphore(n) for kind, n in MAX_ANONYMOUS.items()}
        if remote_search:
            self._slots[RequestKind.SEARCH] = asyncio.Semaphore(MAX_REMOTE_SEARCHES)
            self._anonymous[RequestKind.SEARCH] = asyncio.Semaphore(MAX_REMOTE_SEARCHES - 2)
        self._waiting = Counter[RequestKind]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = RequestKind.NONE
        if scope["type"] == "http":
            kind = request_kind(scope["method"], scope["path"])
        if kind is RequestKind.NONE:
            await self._app(scope, receive, send)
            return
        required = [self._slots[kind]]
        if not self._signed_in(scope):
            required.insert(0, self._anonymous[kind])
            if self._waiting[kind] >= MAX_WAITING:
                detail = Message("waiting", "Too many requests of this kind are waiting.")
                response = error_response(
                    Request(scope),
                    503,
                    message("The server is busy"),
                    detail,
                    headers={"Retry-After": "5"},
                )
                await response(scope, receive, send)
                return
        acquired: list[asyncio.Semaphore] = []

        def release() -> None:
            while acquired:
                acquired.pop().release()

        async def send_and_release(part: AsgiMessage) -> None:
            if part["type"] == "http.response.start":
                release()
            await send(part)

        try:
            self._waiting[kind] += 1
            try:
                for slots in required:
                    await slots.acquire()
                    acquired.append(slots)
            finally:
                self._waiting[kind] -= 1
            await self._app(scope, receive, send_and_release)
        finally:
            release()
