"""A crowd is served in turn: nobody is refused, nobody overtakes, one kind of request does not hold
back another.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec

import pytest
from starlette.types import Message, Receive, Scope, Send

from lycosa.serve.search.sources import SearchSource
from lycosa.serve.web.concurrency import (
    MAX_ANONYMOUS,
    MAX_CONCURRENT,
    ConcurrencyLimiter,
    RequestKind,
    request_kind,
)

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
