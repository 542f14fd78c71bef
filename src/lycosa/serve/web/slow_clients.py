"""Limits for clients that send or read slowly: time for connections, memory for responses."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import error_response

STALL_S = 30.0
"""A connection ends after one to two times this long without a complete request, or in which its
client received less than `STALL_BYTES` of a large response.
"""

STALL_BYTES = 64 * 1024

SMALL_BYTES = 256 * 1024
MAX_UNSENT_BYTES = 256 * 2**20
"""Memory for the responses of all connections, without the first `SMALL_BYTES` of each: pages are
sent even if others occupy all of it.
"""

_PART_BYTES = 64 * 1024


class TimedConnection(H11Protocol):
    """An HTTP/1.1 connection that ends when its client stalls.

    uvicorn limits only the time until the first byte of a further request.
    """

    _timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._resumed = False
        self._check_later(is_idle=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._resumed = True
        super().resume_writing()

    def _check_later(self, *, is_idle: bool) -> None:
        unsent = self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        last = self.cycle if is_idle else None
        self._resumed = False
        self._timer = self.loop.call_later(STALL_S, self._check, is_idle, last, unsent)

    def _check(self, was_idle: bool, last: object, unsent: int) -> None:
        """End the connection if nothing changed since the previous check."""
        is_idle = self.cycle is None or self.cycle.response_complete
        left = self.transport.get_write_buffer_size()
        if self.flow.write_paused and unsent and not self._resumed:
            stalls = unsent - left < STALL_BYTES
        else:
            stalls = is_idle and was_idle and self.cycle is last and not self.flow.write_paused
        if stalls:
            self.transport.abort()
        else:
            self._check_later(is_idle=is_idle)


class ResponseMemory:
    """ASGI middleware: sends responses in parts, as fast as their clients read. 503 for a large one
    while others occupy the memory.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._unsent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        held = 0

        async def send_parts(part: Message) -> None:
            nonlocal start, held
            if part["type"] == "http.response.start" and _length(part) > SMALL_BYTES:
                start = part
                return
            body: bytes = part.get("body", b"")
            if start is not None:
                first, start = start, None
                if not part.get("more_body"):  # else a file, which is read as it is sent
                    large = len(body) - SMALL_BYTES
                    if self._unsent + large > MAX_UNSENT_BYTES:
                        headers = {"Retry-After": "5"}
                        answer = error_response(
                            Request(scope), 503, message("The server is busy"), headers=headers
                        )
                        await answer(scope, receive, send)
                        return
                    held = large
                    self._unsent += held
                await send(first)
            last = max(0, len(body) - 1) // _PART_BYTES * _PART_BYTES
            for position in range(0, last, _PART_BYTES):
                piece = body[position : position + _PART_BYTES]
                await send({**part, "body": piece, "more_body": True})
            await send({**part, "body": body[last:]} if last else part)

        try:
            await self._app(scope, receive, send_parts)
        finally:
            self._unsent -= held


def _length(start: Message) -> int:
    length = Headers(raw=start["headers"]).get("content-length", "")
    return int(length) if length.isdecimal() else 0
