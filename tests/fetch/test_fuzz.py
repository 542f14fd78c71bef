"""Answers mutated at random: always one consistent outcome, never an exception, never a hang."""

from __future__ import annotations

import gzip
import random

import pytest

from lycosa.core.errors import FetchError
from lycosa.core.records import Request
from lycosa.http.decode import decode_body, parse_head
from tests.fetch.fetching import allowed, listener, open_fetcher, run
from tests.servers.wire import answer, head, page

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
AT_ONCE = 8
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


@pytest.mark.parametrize("seed", range(4))
def test_mutated_answers(seed: int) -> None:
    random_ = random.Random(seed)
    answers = [mutate(random_) for _ in range(COUNT)]

    def choose(request: bytes) -> bytes:
        return answers[int(request.split(b" ", 2)[1][1:])]

    with listener(choose) as (origin, _), open_fetcher(allowed(origin)) as fetcher:
        done = run(
            fetcher,
            [Request(f"{origin}/{number}", token=number) for number in range(COUNT)],
            at_once=AT_ONCE,
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
