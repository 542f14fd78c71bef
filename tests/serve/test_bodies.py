"""Bodies of requests: bounded in size, time and memory, and nobody waits for those who send them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import pytest
from starlette.types import Message, Receive, Scope, Send

from lycosa.serve.app import create_app
from lycosa.serve.web import request_bodies as bodies
from lycosa.serve.web.concurrency import MAX_CONCURRENT, ConcurrencyLimiter, RequestKind
from lycosa.serve.web.request_bodies import MAX_BODY_BYTES, BufferedBodies
from tests.serve.client import Client


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


async def _post(
    app: BufferedBodies, pieces: Iterable[bytes], *, ends: bool = True
) -> list[Message]:
    """Send a POST in pieces; without `ends` the client then sends nothing more."""
    sent: list[Message] = []
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/login", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return sent


def test_clients_that_send_slowly_occupy_no_place() -> None:
    async def scenario() -> None:
        app = BufferedBodies(ConcurrencyLimiter(_echo, signed_in=lambda scope: False))
        slow = [
            asyncio.create_task(_post(app, [b"token="], ends=False))
            for _ in range(2 * MAX_CONCURRENT[RequestKind.CHANGE])
        ]
        await asyncio.sleep(0)
        answered = await asyncio.wait_for(_post(app, [b"token=", b"x"]), 5)
        assert [message.get("body") for message in answered] == [None, b"token=x"]
        for task in slow:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(scenario())


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_S", 0.05)
    assert asyncio.run(_post(BufferedBodies(_echo), [b"token="], ends=False))[0]["status"] == 408


def test_large_bodies_share_a_bounded_memory_and_small_ones_are_always_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD_BYTES", 3 * 2**20)

    async def scenario() -> None:
        app = BufferedBodies(_echo)
        large = b"a" * 2**21
        held = asyncio.create_task(_post(app, [large], ends=False))
        await asyncio.sleep(0)
        assert (await _post(app, [large]))[0]["status"] == 503
        assert (await _post(app, [b"token=x"]))[0]["status"] == 200
        held.cancel()
        with suppress(asyncio.CancelledError):
            await held
        assert (await _post(app, [large]))[0]["status"] == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/api/v1/urls", "/login", "/api/v1/peer/find", "/no-such-page"])
def test_no_route_reads_more_than_the_limit(workspace: str, path: str) -> None:
    client = Client(create_app(workspace, dict))
    kind = {"Content-Type": "application/json"}
    assert client.send("POST", path, b'"' + b"a" * MAX_BODY_BYTES, kind).status_code == 413
