"""Hostile and random responses have a defined outcome in bounded time."""

from __future__ import annotations

import gzip
import http.client
import random
import time
from pathlib import Path

import pytest

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch.failure import REPEATED_TEXT
from lycosa.fetch.robots_txt import MAX_ROBOTS_BYTES, Robots, robots_text, robots_verdict
from lycosa.http.decode import decode_body, parse_head
from tests.fetch.fetching import (
    BOUND_S,
    allowed,
    fetch,
    listener,
    open_fetcher,
    open_impatient_fetcher,
    run,
    short_limits,
)
from tests.servers.hostile import ENDPOINTS, GOOD_PAGES, HostileServer
from tests.servers.hostile import server as server
from tests.servers.hostile_redirect import ROBOTS_HOSTS, RobotsHost
from tests.servers.nginx import Server, nginx
from tests.servers.wire import Endpoint, answer, head, page

MAX_DECODED = short_limits().max_decoded
LIMITS = (FetchError.FIRST_BYTE_TIMEOUT, FetchError.TIMEOUT, FetchError.TOO_SLOW)


@pytest.fixture(scope="module")
def exchanges(server: HostileServer) -> dict[str, Exchange]:
    """Fetch each endpoint once, concurrently.

    Limits are short if the expected outcome is a time limit. A failure on a reused connection is
    always a reset; such URLs are fetched again on a new connection.
    """
    requests: list[Request] = []
    limited_requests: list[Request] = []
    for endpoint in ENDPOINTS:
        group = limited_requests if endpoint.expected.error in LIMITS else requests
        group.append(Request(server.url(endpoint.name), token=endpoint.name))
    with open_fetcher(server.allowed()) as fetcher:
        done = run(fetcher, requests)
    with open_impatient_fetcher(server.allowed()) as fetcher:
        done += run(fetcher, limited_requests)
    actual = {str(exchange.token): exchange for exchange in done}
    for name, exchange in actual.items():
        if exchange.error_text == REPEATED_TEXT:
            with open_fetcher(server.allowed()) as fetcher:
                actual[name] = fetch(fetcher, exchange.url)
    return actual


def test_there_are_forty_endpoints_with_distinct_names() -> None:
    assert len(ENDPOINTS) >= 40
    assert len({endpoint.name for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({endpoint.description for endpoint in ENDPOINTS}) == len(ENDPOINTS)


@pytest.mark.proves("limits-outcome", "limits-time", "limits-size")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_each_endpoint_has_its_outcome(endpoint: Endpoint, exchanges: dict[str, Exchange]) -> None:
    exchange, expected = exchanges[endpoint.name], endpoint.expected
    outcome = (exchange.status, exchange.error, exchange.truncated)
    assert outcome == (expected.status, expected.error, expected.truncated), exchange.error_text
    decoded = decode_body(exchange, MAX_DECODED)
    assert (decoded.error, decoded.truncated) == (expected.decoding, expected.cut)
    assert len(decoded.payload) <= MAX_DECODED
    if expected.payload is not None:
        assert decoded.payload[: max(1, len(expected.payload))] == expected.payload


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_each_exchange_is_consistent(
    endpoint: Endpoint, exchanges: dict[str, Exchange], server: HostileServer
) -> None:
    exchange = exchanges[endpoint.name]
    limits = short_limits()
    assert exchange.error == "" or FetchError(exchange.error)
    assert (exchange.error_text != "") == (exchange.error != "")
    if endpoint.expected.error in LIMITS:
        assert exchange.duration_ms < limits.total_timeout + 5_000
    assert exchange.request_head.startswith(
        b"GET /" + endpoint.name.encode() + b" HTTP/1.1\r\nHost: "
    )
    assert exchange.ip == server.addresses["hostile"]
    assert len(exchange.response_head) <= limits.max_header
    assert len(exchange.body) <= limits.max_body
    if exchange.status:
        assert exchange.response_head[:5].upper() == b"HTTP/"
        assert exchange.response_head.endswith(b"\n")
        assert parse_head(exchange.response_head).status == exchange.status
    else:
        assert exchange.error
        assert (exchange.response_head, exchange.body, exchange.truncated) == (b"", b"", "")


def test_recorded_requests_equal_the_received_ones(
    server: HostileServer, exchanges: dict[str, Exchange]
) -> None:
    received = {request.path: request.head for request in server.requests()}
    assert len(exchanges) == len(ENDPOINTS)
    for name, exchange in exchanges.items():
        assert exchange.request_head == received[f"/{name}"]


@pytest.mark.proves("limits-time")
def test_hanging_host_does_not_delay_another(server: HostileServer) -> None:
    hanging = [
        name
        for name in (
            "hang-before-headers",
            "hang-in-body",
            "slow-drip",
            "endless-headers",
            "slow-headers",
        )
        for _ in range(4)
    ]
    with open_fetcher(server.allowed()) as fetcher:
        for name in hanging:
            fetcher.start(Request(server.url(name), token="hostile"))
        started = time.monotonic()
        for number in range(1, GOOD_PAGES + 1):
            fetcher.start(Request(f"{server.origin('good')}/page/{number}", token="good"))
        good: list[Exchange] = []
        while len(good) < GOOD_PAGES:
            good += [exchange for exchange in fetcher.wait(1000) if exchange.token == "good"]
            assert time.monotonic() - started < BOUND_S
        # most of the hanging requests are still in flight
        assert fetcher.active >= 12
    assert [exchange.status for exchange in good] == [200] * GOOD_PAGES


def test_front_page_links_to_every_endpoint(server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        payload = decode_body(fetch(fetcher, f"{server.origin()}/"), MAX_DECODED).payload
    for endpoint in ENDPOINTS:
        assert f'href="/{endpoint.name}"'.encode() in payload


@pytest.mark.proves("politeness-robots-unreachable")
@pytest.mark.parametrize("host", ROBOTS_HOSTS, ids=lambda host: host.name)
def test_verdict_of_each_unusual_robots_txt(host: RobotsHost, server: HostileServer) -> None:
    open_for_host = open_impatient_fetcher if host.error in LIMITS else open_fetcher
    with open_for_host(server.allowed()) as fetcher:
        exchange = fetch(fetcher, f"{server.origin(host.name)}/robots.txt")
        assert (exchange.status, exchange.error) == (host.status, host.error)
        hops = 0
        while 300 <= exchange.status < 400 and hops < 5:
            location = parse_head(exchange.response_head).get("location")
            exchange = fetch(fetcher, f"{server.origin(host.name)}{location}")
            hops += 1
        page = fetch(fetcher, server.url(host.name))
    assert page.status == 200
    verdict = robots_verdict(exchange.status, exchange.error)
    robots = {"allow_all": Robots.everything(), "deny_all": Robots.nothing()}.get(verdict)
    if robots is None:
        payload = decode_body(exchange, MAX_ROBOTS_BYTES).payload
        assert len(payload) <= MAX_ROBOTS_BYTES
        robots = Robots(robots_text(payload), "lycosa/0.1")
    assert robots.allowed(server.url(host.name)) is host.allows


PAGE = page("A page", "<p>text</p>" * 20)
SEEDS = (
    answer(PAGE, b"Set-Cookie: a=b", b"Location: /x"),
    answer(gzip.compress(PAGE), b"Content-Encoding: gzip"),
    head(b"HTTP/1.1 103 Early Hints") + answer(PAGE),
    head(b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", b"Trailer: x")
    + b"%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(PAGE), PAGE),
    answer(PAGE).replace(b"\r\n", b"\n"),
)
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b":",
    b" ",
    b"\x00",
    b"HTTP/1.1 ",
    b"100",
    b"-1",
    b"chunked",
    b"ffffffffff",
    b"\xff\xfe",
    b"Content-Length: 5\r\n",
)
MAX_ACTIVE = 8
COUNT = 150


def mutate(random_: random.Random) -> bytes:
    data = bytearray(random_.choice(SEEDS))
    for _ in range(random_.randint(1, 4)):
        at = (
            random_.randrange(len(data) + 1)
            if random_.random() < 0.3
            else random_.randrange(min(len(data), 150) + 1)
        )
        match random_.randrange(4):
            case 0:
                data[at:at] = random_.choice(PIECES)
            case 1:
                del data[at : at + random_.randint(1, 20)]
            case 2:
                data[at : at + 1] = bytes((random_.randrange(256),))
            case _:
                data[at:at] = data[max(0, at - 30) : at]
    return bytes(data)


@pytest.mark.proves("limits-outcome")
@pytest.mark.parametrize("seed", range(4))
def test_mutated_responses_have_consistent_exchanges(seed: int) -> None:
    random_ = random.Random(seed)
    answers = [mutate(random_) for _ in range(COUNT)]

    def choose(request: bytes) -> bytes:
        return answers[int(request.split(b" ", 2)[1][1:])]

    with listener(choose) as (origin, _), open_fetcher(allowed(origin)) as fetcher:
        done = run(
            fetcher,
            [Request(f"{origin}/{number}", token=number) for number in range(COUNT)],
            max_active=MAX_ACTIVE,
        )
    assert sorted(int(str(exchange.token)) for exchange in done) == list(range(COUNT))
    for exchange in done:
        sent = answers[int(str(exchange.token))]
        assert exchange.error == "" or FetchError(exchange.error) is not FetchError.INTERNAL, (
            exchange.error_text
        )
        assert (exchange.status == 0) == (exchange.response_head == b"")
        assert exchange.status or exchange.error
        assert exchange.body in sent
        if exchange.status:
            assert parse_head(exchange.response_head).status == exchange.status
        decode_body(exchange, 10_000)


PAGES = 100
MAX_SLOWDOWN = 20
"""Permitted time for sequential requests, as a multiple of the time of `http.client`.

Waiting for the next poll after each response would take several hundred times as long.
"""


def test_immediate_response_is_returned_immediately(tmp_path: Path) -> None:
    for number in range(PAGES):
        (tmp_path / f"{number}.html").write_text("<p>word " * (100 * (number % 40)))
    with nginx([Server("127.0.5.1", tmp_path)]) as server:
        client = http.client.HTTPConnection("127.0.5.1", server.port)
        began = time.monotonic()
        for number in range(PAGES):
            client.request("GET", f"/{number}.html")
            client.getresponse().read()
        plain = time.monotonic() - began
        client.close()
        with open_fetcher([("127.0.5.1", server.port)]) as fetcher:
            run(fetcher, [Request(f"http://127.0.5.1:{server.port}/0.html")])
            began = time.monotonic()
            requests = [
                Request(f"http://127.0.5.1:{server.port}/{number}.html") for number in range(PAGES)
            ]
            assert all(exchange.status == 200 for exchange in run(fetcher, requests, max_active=1))
            ours = time.monotonic() - began
    assert ours < MAX_SLOWDOWN * plain
