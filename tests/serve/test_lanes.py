"""Requests: concurrency without starvation, bounded bodies, and clients behind reverse proxies."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, ParamSpec

import pytest
from starlette.types import Message, Receive, Scope, Send

from lycosa.config.reading import parse_config
from lycosa.core.errors import ConfigError
from lycosa.serve.app import create_app
from lycosa.serve.search.sources import SearchSource
from lycosa.serve.web import request_bodies as bodies
from lycosa.serve.web.concurrency import (
    MAX_ANONYMOUS,
    MAX_CONCURRENT,
    ConcurrencyLimiter,
    RequestKind,
    request_kind,
)
from lycosa.serve.web.proxies import TrustedProxies
from lycosa.serve.web.request_bodies import MAX_BODY_BYTES, BufferedBodies
from tests.serve.client import Client

P = ParamSpec("P")


class Works:
    """An application whose requests go on until they are told to; notes who began, and how many
    were at work at once.
    """

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.most = 0
        self._now = 0
        self.gate = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["path"] + scope["query_string"].decode())
        self._now += 1
        self.most = max(self.most, self._now)
        if scope["query_string"] == b"fails":
            self._now -= 1
            raise ValueError
        if scope["query_string"] == b"streams":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.gate.wait()
        self._now -= 1


async def _ask(lanes: ConcurrencyLimiter, method: str, path: str, query: str = "") -> None:
    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        pass

    await lanes(
        {"type": "http", "method": method, "path": path, "query_string": query.encode()},
        receive,
        send,
    )


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def in_loop(scenario: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run an asynchronous test in an event loop of its own, for at most 30 s."""

    @functools.wraps(scenario)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(scenario(*args, **kwargs), 30))

    return run


@pytest.mark.proves("limits-places")
@in_loop
async def test_a_crowd_is_let_in_in_turn() -> None:
    works = Works()
    lanes = ConcurrencyLimiter(works, signed_in=lambda scope: True)
    crowd = [
        asyncio.create_task(_ask(lanes, "GET", "/api/v1/search", str(number)))
        for number in range(200)
    ]
    await _settle()
    assert len(works.begun) == MAX_CONCURRENT[RequestKind.SEARCH]
    change = asyncio.create_task(_ask(lanes, "POST", "/api/v1/urls"))
    report = asyncio.create_task(_ask(lanes, "GET", "/api/v1/status"))
    typing = asyncio.create_task(_ask(lanes, "GET", "/api/v1/suggest"))
    await _settle()
    assert works.begun[-3:] == ["/api/v1/urls", "/api/v1/status", "/api/v1/suggest"], (
        "they do not wait for searches"
    )
    works.most = 0
    works.gate.set()
    await asyncio.gather(*crowd, change, report, typing)
    searches = [each for each in works.begun if each.startswith("/api/v1/search")]
    assert searches == [f"/api/v1/search{number}" for number in range(200)]
    assert works.most <= MAX_CONCURRENT[RequestKind.SEARCH] + 3


@pytest.mark.parametrize("how", ["streams", "fails"])
@in_loop
async def test_an_answer_that_has_begun_holds_no_place(how: str) -> None:
    works = Works()
    lanes = ConcurrencyLimiter(works, signed_in=lambda scope: True)
    count = 3 * MAX_CONCURRENT[RequestKind.CHANGE]
    tasks = [asyncio.create_task(_ask(lanes, "POST", "/api/v1/hunts", how)) for _ in range(count)]
    await _settle()
    assert len(works.begun) == count
    works.gate.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in ended] == [ValueError if how == "fails" else type(None)] * count


@pytest.mark.parametrize(
    ("method", "path", "lane"),
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
def test_lanes(method: str, path: str, lane: RequestKind) -> None:
    assert request_kind(method, path) is lane


def test_whoever_comes_while_a_new_index_is_opened_gets_the_old_one(workspace: str) -> None:
    source = SearchSource(workspace)
    before = source.languages()
    with source._reloading:
        assert source.languages() == before


@pytest.mark.proves("limits-places")
@in_loop
async def test_anonymous_readers_leave_places_to_those_who_signed_in() -> None:
    works = Works()
    lanes = ConcurrencyLimiter(works, signed_in=lambda scope: scope["query_string"] == b"token")
    crowd = [asyncio.create_task(_ask(lanes, "GET", "/api/v1/terms")) for _ in range(50)]
    logins = [asyncio.create_task(_ask(lanes, "POST", "/login")) for _ in range(50)]
    await _settle()
    assert (
        works.begun.count("/api/v1/terms")
        == MAX_ANONYMOUS[RequestKind.REPORT]
        < MAX_CONCURRENT[RequestKind.REPORT]
    )
    assert (
        works.begun.count("/login")
        == MAX_ANONYMOUS[RequestKind.CHANGE]
        < MAX_CONCURRENT[RequestKind.CHANGE]
    )
    signed = [
        asyncio.create_task(_ask(lanes, method, path, "token"))
        for method, path in (("GET", "/api/v1/terms"), ("POST", "/watch"))
    ]
    await _settle()
    assert works.begun[-2:] == ["/api/v1/termstoken", "/watchtoken"]
    works.gate.set()
    await asyncio.gather(*crowd, *logins, *signed)


@pytest.mark.proves("limits-places")
@in_loop
async def test_too_many_anonymous_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.serve.web.concurrency.MAX_WAITING", 3)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    works = Works()
    lanes = ConcurrencyLimiter(works, signed_in=lambda scope: False)
    crowd = [
        asyncio.create_task(_ask(lanes, "GET", "/site"))
        for _ in range(3 + MAX_ANONYMOUS[RequestKind.REPORT])
    ]
    await _settle()
    await lanes(
        {"type": "http", "method": "GET", "path": "/site", "query_string": b"", "headers": []},
        receive,
        send,
    )
    assert sent[0]["status"] == 503
    works.gate.set()
    await asyncio.gather(*crowd)


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


@pytest.mark.proves("limits-places")
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


@pytest.mark.proves("limits-requests")
def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_S", 0.05)
    assert asyncio.run(_post(BufferedBodies(_echo), [b"token="], ends=False))[0]["status"] == 408


@pytest.mark.proves("limits-requests")
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


@pytest.mark.proves("limits-requests")
@pytest.mark.parametrize("path", ["/api/v1/urls", "/login", "/api/v1/peer/find", "/no-such-page"])
def test_no_route_reads_more_than_the_limit(workspace: str, path: str) -> None:
    client = Client(create_app(workspace, dict))
    kind = {"Content-Type": "application/json"}
    assert client.send("POST", path, b'"' + b"a" * MAX_BODY_BYTES, kind).status_code == 413


def seen(trusted: tuple[str, ...], sender: str, *headers: tuple[str, str]) -> tuple[str, str]:
    """The client and the scheme that the application sees."""
    found: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    scope: dict[str, Any] = {"type": "http", "client": (sender, 1), "scheme": "http"}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers]
    asyncio.run(TrustedProxies(app, trusted)(scope, receive, send))
    return found[0]


PROXY = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


@pytest.mark.proves("access-proxies")
@pytest.mark.parametrize(
    ("sender", "headers", "client"),
    [
        ("127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        # what the client made up is before it
        ("127.0.0.1", [("x-forwarded-for", "203.0.113.9, 192.0.2.7, 10.1.2.3")], "192.0.2.7"),
        ("::ffff:127.0.0.1", [("x-forwarded-for", "192.0.2.7")], "192.0.2.7"),
        (
            "127.0.0.1",
            [("forwarded", 'for=203.0.113.9, for="[2001:4860::1]:4711";proto=https;by=10.0.0.1')],
            "2001:4860::1",
        ),
        (
            "127.0.0.1",
            [("forwarded", "for=192.0.2.7"), ("x-forwarded-for", "203.0.113.9")],
            "192.0.2.7",
        ),
        ("127.0.0.1", [("forwarded", "for=192.0.2.7, for=unknown")], "127.0.0.1"),
        ("127.0.0.1", [("forwarded", ";;;=")], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("198.51.100.1", [("x-forwarded-for", "192.0.2.7")], "198.51.100.1"),  # no proxy of ours
    ],
)
def test_the_last_address_that_is_no_proxy_is_the_client(
    sender: str, headers: list[tuple[str, str]], client: str
) -> None:
    assert seen(PROXY, sender, *headers)[0] == client
    assert seen((), sender, *headers)[0] == sender, "nothing is trusted by default"


def test_the_scheme_is_the_proxys() -> None:
    assert seen(PROXY, "10.0.0.1", ("forwarded", "for=192.0.2.7;proto=https")) == (
        "192.0.2.7",
        "https",
    )
    assert seen(
        PROXY, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")
    ) == ("192.0.2.7", "https")
    assert seen(
        PROXY, "10.0.0.1", ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "gopher")
    ) == ("192.0.2.7", "http")


def test_what_is_no_network_is_refused() -> None:
    assert parse_config('[serve]\ntrusted_proxies = ["10.0.0.1/8"]').serve.trusted_proxies == (
        "10.0.0.1/8",
    )
    with pytest.raises(ConfigError, match=r"neither an IP address nor a network"):
        parse_config('[serve]\ntrusted_proxies = ["proxy.example"]')
