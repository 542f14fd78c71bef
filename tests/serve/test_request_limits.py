"""Requests: concurrency limits per kind, bounded bodies, and clients behind reverse proxies."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, ParamSpec

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lycosa.config.reading import parse_config
from lycosa.core.errors import ConfigError
from lycosa.serve.app import create_app
from lycosa.serve.search.sources import SearchSource
from lycosa.serve.web import request_bodies as bodies
from lycosa.serve.web import slow_clients
from lycosa.serve.web.concurrency import (
    MAX_ANONYMOUS,
    MAX_CONCURRENT,
    ConcurrencyLimiter,
    RequestKind,
    request_kind,
)
from lycosa.serve.web.proxies import UNKNOWN, TrustedProxies
from lycosa.serve.web.request_bodies import MAX_BODY_BYTES, BufferedBodies
from lycosa.serve.web.slow_clients import ResponseMemory, TimedConnection
from tests.serve.client import Client

P = ParamSpec("P")


class BlockingApp:
    """An application whose requests last until `release` is set.

    `started`: paths with queries, in order; `max_running`: the most requests at once.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.max_running = 0
        self._running = 0
        self.release = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.started.append(scope["path"] + scope["query_string"].decode())
        self._running += 1
        self.max_running = max(self.max_running, self._running)
        if scope["query_string"] == b"fails":
            self._running -= 1
            raise ValueError
        if scope["query_string"] == b"streams":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.release.wait()
        self._running -= 1


async def _request(
    app: ASGIApp,
    method: str,
    path: str,
    query: str = "",
    messages: Iterable[Message] = (),
    **scope: Any,
) -> list[Message]:
    """Call an application; return the messages that it sends.

    It receives `messages`, and then waits.
    """
    incoming = list(messages)
    sent: list[Message] = []

    async def receive() -> Message:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    request = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    await app({**request, "headers": [], **scope}, receive, send)
    return sent


async def _run_pending_tasks() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def in_loop(scenario: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run an asynchronous test in a new event loop, for at most 30 s."""

    @functools.wraps(scenario)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(scenario(*args, **kwargs), 30))

    return run


@pytest.mark.proves("limits-places")
@in_loop
async def test_waiting_requests_are_served_in_order() -> None:
    app = BlockingApp()
    limiter = ConcurrencyLimiter(app, signed_in=lambda scope: True)
    tasks = [
        asyncio.create_task(_request(limiter, "GET", "/api/v1/search", str(number)))
        for number in range(200)
    ]
    await _run_pending_tasks()
    assert len(app.started) == MAX_CONCURRENT[RequestKind.SEARCH]
    change = asyncio.create_task(_request(limiter, "POST", "/api/v1/urls"))
    report = asyncio.create_task(_request(limiter, "GET", "/api/v1/status"))
    typing = asyncio.create_task(_request(limiter, "GET", "/api/v1/suggest"))
    await _run_pending_tasks()
    assert app.started[-3:] == ["/api/v1/urls", "/api/v1/status", "/api/v1/suggest"], (
        "other kinds of requests do not wait for searches"
    )
    app.max_running = 0
    app.release.set()
    await asyncio.gather(*tasks, change, report, typing)
    searches = [each for each in app.started if each.startswith("/api/v1/search")]
    assert searches == [f"/api/v1/search{number}" for number in range(200)]
    assert app.max_running <= MAX_CONCURRENT[RequestKind.SEARCH] + 3


@pytest.mark.parametrize("response", ["streams", "fails"])
@in_loop
async def test_started_and_failed_responses_free_their_slot(response: str) -> None:
    app = BlockingApp()
    limiter = ConcurrencyLimiter(app, signed_in=lambda scope: True)
    count = 3 * MAX_CONCURRENT[RequestKind.CHANGE]
    tasks = [
        asyncio.create_task(_request(limiter, "POST", "/api/v1/hunts", response))
        for _ in range(count)
    ]
    await _run_pending_tasks()
    assert len(app.started) == count
    app.release.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in ended] == [ValueError if response == "fails" else list] * count


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/", RequestKind.SEARCH),
        ("GET", "/api/v1/search", RequestKind.SEARCH),
        ("GET", "/api/v1/suggest", RequestKind.TYPING),
        ("POST", "/api/v1/peer/find", RequestKind.PEER),
        ("POST", "/api/v1/urls", RequestKind.CHANGE),
        ("DELETE", "/api/v1/watches/1", RequestKind.CHANGE),
        ("POST", "/api/v1/exclusions", RequestKind.OTHER),
        ("GET", "/sites", RequestKind.REPORT),
        ("GET", "/healthz", RequestKind.NONE),
        ("GET", "/static/style.css", RequestKind.NONE),
    ],
)
def test_kind_of_a_request(method: str, path: str, kind: RequestKind) -> None:
    assert request_kind(method, path) is kind


def test_requests_use_the_old_index_while_a_new_one_is_opened(workspace: str) -> None:
    source = SearchSource(workspace)
    before = source.languages()
    with source._reloading:
        assert source.languages() == before


@pytest.mark.proves("limits-places")
@in_loop
async def test_anonymous_requests_leave_slots_for_signed_in_users() -> None:
    app = BlockingApp()
    limiter = ConcurrencyLimiter(app, signed_in=lambda scope: scope["query_string"] == b"token")
    anonymous = [asyncio.create_task(_request(limiter, "GET", "/api/v1/terms")) for _ in range(50)]
    logins = [asyncio.create_task(_request(limiter, "POST", "/login")) for _ in range(50)]
    await _run_pending_tasks()
    assert (
        app.started.count("/api/v1/terms")
        == MAX_ANONYMOUS[RequestKind.REPORT]
        < MAX_CONCURRENT[RequestKind.REPORT]
    )
    assert (
        app.started.count("/login")
        == MAX_ANONYMOUS[RequestKind.CHANGE]
        < MAX_CONCURRENT[RequestKind.CHANGE]
    )
    signed = [
        asyncio.create_task(_request(limiter, method, path, "token"))
        for method, path in (("GET", "/api/v1/terms"), ("POST", "/watch"))
    ]
    await _run_pending_tasks()
    assert app.started[-2:] == ["/api/v1/termstoken", "/watchtoken"]
    app.release.set()
    await asyncio.gather(*anonymous, *logins, *signed)


@pytest.mark.proves("limits-places")
@in_loop
async def test_too_many_anonymous_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.serve.web.concurrency.MAX_WAITING", 3)
    app = BlockingApp()
    limiter = ConcurrencyLimiter(app, signed_in=lambda scope: False)
    anonymous = [
        asyncio.create_task(_request(limiter, "GET", "/site"))
        for _ in range(3 + MAX_ANONYMOUS[RequestKind.REPORT])
    ]
    await _run_pending_tasks()
    assert (await _request(limiter, "GET", "/site"))[0]["status"] == 503
    app.release.set()
    await asyncio.gather(*anonymous)


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


async def _post(
    app: BufferedBodies, pieces: Iterable[bytes], *, ends: bool = True
) -> list[Message]:
    """Send a POST request in pieces; without `ends` it never ends."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    return await _request(app, "POST", "/login", messages=messages)


@pytest.mark.proves("limits-places")
def test_slow_request_bodies_occupy_no_slot() -> None:
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


@pytest.mark.proves("limits-requests")
def test_incomplete_body_times_out_with_status_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_S", 0.05)
    assert asyncio.run(_post(BufferedBodies(_echo), [b"token="], ends=False))[0]["status"] == 408


@pytest.mark.proves("limits-requests")
def test_total_memory_of_large_bodies_is_bounded_and_small_bodies_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD_BYTES", 3 * 2**20)

    async def scenario() -> None:
        app = BufferedBodies(_echo)
        large = b"a" * 2**21
        incomplete = asyncio.create_task(_post(app, [large], ends=False))
        await asyncio.sleep(0)
        assert (await _post(app, [large]))[0]["status"] == 503
        assert (await _post(app, [b"token=x"]))[0]["status"] == 200
        incomplete.cancel()
        with suppress(asyncio.CancelledError):
            await incomplete
        assert (await _post(app, [large]))[0]["status"] == 200

    asyncio.run(scenario())


@pytest.mark.proves("limits-requests")
@pytest.mark.parametrize("path", ["/api/v1/urls", "/login", "/api/v1/peer/find", "/no-such-page"])
def test_no_route_reads_more_than_the_limit(workspace: str, path: str) -> None:
    client = Client(create_app(workspace, dict))
    kind = {"Content-Type": "application/json"}
    assert client.send("POST", path, b'"' + b"a" * MAX_BODY_BYTES, kind).status_code == 413


def client_and_scheme(
    trusted: tuple[str, ...], sender: str, *headers: tuple[str, str]
) -> tuple[str, str]:
    """Return the client address and the scheme that the application receives."""
    received: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        received.append((scope["client"][0], scope["scheme"]))

    fields = [(name.encode(), value.encode()) for name, value in headers]
    scope: dict[str, Any] = {"client": (sender, 1), "scheme": "http", "headers": fields}
    asyncio.run(_request(TrustedProxies(app, trusted), "GET", "/", **scope))
    return received[0]


PROXIES = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


@pytest.mark.proves("access-proxies")
@pytest.mark.parametrize(
    ("sender", "headers", "client"),
    [
        ("127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        # The client can forge the addresses before its own.
        ("127.0.0.1", [("x-forwarded-for", "203.0.113.9, 192.0.2.7, 10.1.2.3")], "192.0.2.7"),
        ("::ffff:127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        (
            "127.0.0.1",
            [("forwarded", 'for=203.0.113.9, for="[2001:4860::1]:4711";proto=https;by=10.0.0.1')],
            "2001:4860::1",
        ),
        (
            "127.0.0.1",
            [("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "192.0.2.7")],
            "192.0.2.7",
        ),
        # The client invented one of them. It must not count as the proxy, which has no rate limit.
        (
            "127.0.0.1",
            [("forwarded", "for=127.0.0.1"), ("x-forwarded-for", "203.0.113.9")],
            UNKNOWN,
        ),
        ("127.0.0.1", [("forwarded", "for=192.0.2.7, for=unknown")], UNKNOWN),
        ("127.0.0.1", [("forwarded", 'for=", for=192.0.2.7')], UNKNOWN),
        ("127.0.0.1", [("forwarded", ";;;=")], UNKNOWN),
        ("127.0.0.1", [], "127.0.0.1"),
        ("198.51.100.1", [("x-forwarded-for", "192.0.2.7")], "198.51.100.1"),  # not a trusted proxy
    ],
)
def test_client_is_the_last_address_that_is_not_a_proxy(
    sender: str, headers: list[tuple[str, str]], client: str
) -> None:
    assert client_and_scheme(PROXIES, sender, *headers)[0] == client
    assert client_and_scheme((), sender, *headers)[0] == sender, "no proxy is trusted by default"


def test_scheme_is_taken_from_the_proxy() -> None:
    assert client_and_scheme(PROXIES, "10.0.0.1", ("forwarded", "for=192.0.2.7;proto=https")) == (
        "192.0.2.7",
        "https",
    )
    assert client_and_scheme(
        PROXIES, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")
    ) == ("192.0.2.7", "https")
    assert client_and_scheme(
        PROXIES, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "gopher")
    ) == ("192.0.2.7", "http")


def test_invalid_network_of_proxies_is_refused() -> None:
    assert parse_config('[serve]\ntrusted_proxies = ["10.0.0.1/8"]').serve.trusted_proxies == (
        "10.0.0.1/8",
    )
    with pytest.raises(ConfigError, match=r"neither an IP address nor a network"):
        parse_config('[serve]\ntrusted_proxies = ["proxy.example"]')


async def _listen(app: ASGIApp) -> tuple[uvicorn.Server, asyncio.Task[None], int]:
    """Start a server with `TimedConnection`; return it, its task and its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=TimedConnection, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    return server, task, listener.getsockname()[1]


@pytest.mark.parametrize(
    ("request_bytes", "has_response"),
    [
        (b"", False),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", False),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /", True),
    ],
)
def test_connections_without_a_complete_request_end(
    request_bytes: bytes, has_response: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "STALL_S", 0.3)

    @in_loop
    async def scenario() -> None:
        server, task, port = await _listen(PlainTextResponse("ok"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes)
        received = b""
        with suppress(ConnectionResetError):
            while part := await reader.read(1_000):
                received += part
        assert received.startswith(b"HTTP/1.1 200") == has_response
        writer.close()
        server.should_exit = True
        await task

    scenario()


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "STALL_S", 0.3)

    @in_loop
    async def scenario() -> None:
        app = ResponseMemory(PlainTextResponse("x" * 20_000_000))
        server, task, port = await _listen(app)
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(0.2)
        [connection] = server.server_state.connections
        assert connection.transport.get_write_buffer_size() < 1_000_000
        while server.server_state.connections or app._unsent:
            await asyncio.sleep(0.05)
        writer.close()
        server.should_exit = True
        await task

    scenario()


@in_loop
async def test_large_responses_share_memory() -> None:
    release = asyncio.Event()
    size = slow_clients.MAX_UNSENT_BYTES * 2 // 3
    app = ResponseMemory(Response(bytes(size)))
    sent: list[Message] = []

    async def slow(message: Message) -> None:
        sent.append(message)
        await release.wait()

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    first = asyncio.create_task(app(scope, asyncio.Event().wait, slow))  # type: ignore[arg-type]
    await _run_pending_tasks()
    refused = await _request(app, "GET", "/")
    assert refused[0]["status"] == 503
    release.set()
    await first
    assert sum(len(part.get("body", b"")) for part in sent) == size
    assert (await _request(app, "GET", "/"))[0]["status"] == 200
