"""Bodies of requests: read whole, within limits of size and time, before a request takes its turn.

A slow client therefore occupies no slot of `lycosa.serve.web.concurrency`, and no route
reads more than its client may send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lycosa.serve.web.concurrency import SAFE_METHODS
from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import error_response


class JsonBody(BaseModel):
    """The JSON body of a request. An unknown field is an error: it may be mistyped."""

    model_config = ConfigDict(extra="forbid")


MAX_BODY_BYTES = 4 * 2**20
"""A thousand URLs of full length, or a message of a peer."""

READ_S = 30.0
"""How long a client may take to send a body."""

SMALL_BYTES = 64 * 1024
MAX_HELD_BYTES = 64 * 2**20
"""Memory for the bodies of all requests, without the first `SMALL_BYTES` of each: forms and
sign-ins are accepted even if others occupy all of it.
"""

_REFUSALS = {
    400: message("The request is incomplete"),
    408: message("The request was not sent in time"),
    413: message("The request is too large"),
    503: message("The server is busy"),
}

MAX_FORM_BYTES = 64 * 1024
_MAX_FIELDS = 200


class BufferedBodies:
    """ASGI middleware: 413 for a body that is too large, 408 for one that takes too long, 503 while
    others occupy the memory for large ones.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(READ_S):
                    refusal = await self._read(receive, body)
            except TimeoutError:
                refusal = 408
            if refusal:
                headers = {"Connection": "close"} | ({"Retry-After": "5"} if refusal == 503 else {})
                answer = error_response(
                    Request(scope), refusal, _REFUSALS[refusal], headers=headers
                )
                await answer(scope, receive, send)
            else:
                await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held -= _large(body)

    async def _read(self, receive: Receive, body: bytearray) -> int:
        """Read into `body`. Returns the status to refuse the request with, or 0."""
        more = True
        while more:
            part = await receive()
            if part["type"] == "http.disconnect":
                return 400
            before = _large(body)
            body += part.get("body", b"")
            self._held += _large(body) - before
            if len(body) > MAX_BODY_BYTES:
                return 413
            if _large(body) and self._held > MAX_HELD_BYTES:
                return 503
            more = part.get("more_body", False)
        return 0


def _large(body: bytearray) -> int:
    """Return the bytes that count towards `MAX_HELD_BYTES`."""
    return max(0, len(body) - SMALL_BYTES)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body as one message, then those of `receive`."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return waiting.pop() if waiting else await receive()

    return give


async def form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields by name; of repeated ones the last. Empty for a body of another type. May
    be called again.

    Raises:
        HTTPException: 413, it is too large.
    """
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    if not hasattr(request.state, "form_fields"):
        request.state.form_fields = await _read(request)
    fields: Mapping[str, str] = request.state.form_fields
    return fields


async def _read(request: Request) -> Mapping[str, str]:
    body = await request.body()
    if len(body) > MAX_FORM_BYTES:
        raise HTTPException(413, "This form is too large")
    try:
        return dict(
            parse_qsl(
                body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS
            )
        )
    except ValueError:
        raise HTTPException(413, "This form has too many fields") from None
