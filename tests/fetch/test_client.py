"""The fetcher: requests, responses, time limits and libcurl errors."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pycurl
import pytest

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.errors import ConfigError, FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch import client, driver, transfer
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.failure import CURL_ERRORS, connect_error, curl_error
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.transfer import split_url
from lycosa.http.decode import decode_body
from tests.fetch.fetching import (
    CountingGuard,
    allowed,
    fetch,
    keep_alive_listener,
    listener,
    open_fetcher,
    patient_limits,
    run,
)
from tests.servers.hostile import GOOD_PAGES, HostileServer
from tests.servers.hostile import server as server
from tests.servers.nginx import Server, nginx
from tests.waiting import ManualClock, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.mark.proves("politeness-cookies")
@pytest.mark.parametrize(
    "path",
    ["/", "/a/../b/./c", "//double//slashes", "/%7e%2F%zz", "/a?b=c&d=%20", "/?", "/a;b,c'd(e)!*$&+=:@~", "?query", "", '/"<>^`{|}\\'],
)  # fmt: skip
def test_the_recorded_request_is_the_one_that_arrived(path: str) -> None:
    with (
        listener(OK) as (origin, received),
        open_fetcher(
            allowed(origin), accept_language="de, en;q=0.5", contact="https://me.test/"
        ) as fetcher,
    ):
        exchange = fetch(
            fetcher, origin + path, ("If-None-Match", '"abc"'), ("Referer", "http://x.test/")
        )
    assert (exchange.status, received) == (200, [exchange.request_head])
    sent = path if path.startswith("/") else "/" + path
    assert exchange.request_head.split(b"\r\n") == [
        f"GET {sent} HTTP/1.1".encode(),
        f"Host: {origin.removeprefix('http://')}".encode(),
        b"User-Agent: lycosa/0.1.0 (+https://me.test/)",
        b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        b"Accept-Encoding: gzip, deflate, br, zstd",
        b"Accept-Language: de, en;q=0.5",
        b'If-None-Match: "abc"',
        b"Referer: http://x.test/",
        b"",
        b"",
    ]


def test_headers_of_a_request_are_not_sent_with_the_next_one() -> None:
    with listener(OK) as (origin, received), open_fetcher(allowed(origin)) as fetcher:
        first = fetch(fetcher, origin + "/1", ("If-None-Match", '"x"'))
        second = fetch(fetcher, origin + "/2")
    assert received == [first.request_head, second.request_head]
    assert (b"If-None-Match" in received[0], b"If-None-Match" in received[1]) == (True, False)


def test_invalid_header_values_are_not_sent() -> None:
    with listener(OK) as (origin, received), open_fetcher(allowed(origin)) as fetcher:
        exchange = fetch(
            fetcher,
            origin + "/",
            ("If-None-Match", '"a"\r\nEvil: yes'),
            ("If-Modified-Since", ""),
            ("X-Utf", "é"),
            ("X-Nul", "a\x00b"),
        )
    assert received == [exchange.request_head]
    assert b"Evil" not in received[0]
    assert b"If-Modified-Since" not in received[0]
    assert b"X-Nul" not in received[0]
    assert "X-Utf: é".encode() in received[0]


def test_response_is_recorded_byte_for_byte() -> None:
    head = (
        b"HTTP/1.1 200  Odd  Reason \r\nX-A:b\r\nx-a:   c  \r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    body = b"3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n"
    with (
        listener(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head + body) as (origin, _),
        open_fetcher(allowed(origin)) as fetcher,
    ):
        exchange = fetch(fetcher, origin + "/")
    assert (exchange.response_head, exchange.body) == (head, body)
    assert decode_body(exchange, 100).payload == b"abc"


def test_libcurl_joins_folded_lines() -> None:
    """The only case in which the recorded head differs from the received bytes. A failure of this
    test means that libcurl has changed, and the restriction can be dropped.
    """
    with (
        listener(b"HTTP/1.1 200 OK\r\nX: one\r\n\ttwo\r\nContent-Length: 0\r\n\r\n") as (origin, _),
        open_fetcher(allowed(origin)) as fetcher,
    ):
        assert (
            fetch(fetcher, origin + "/").response_head
            == b"HTTP/1.1 200 OK\r\nX: one two\r\nContent-Length: 0\r\n\r\n"
        )


def test_metadata_of_an_exchange(server: HostileServer) -> None:
    token = object()
    clock = ManualClock(1_234_567)
    with CurlFetcher(patient_limits(), AddressGuard(server.allowed()), clock) as fetcher:
        fetcher.start(Request(f"{server.origin('good')}/page/1", kind="check", token=token))
        assert fetcher.active == 1
        done: list[Exchange] = []
        while not done:
            done = fetcher.wait(1000)
        assert fetcher.active == 0
        assert fetcher.wait(1000) == []
    [exchange] = done
    assert exchange.token is token
    assert (exchange.kind, exchange.started_at, exchange.protocol, exchange.ip) == (
        "check",
        1_234_567,
        "http/1.1",
        server.addresses["good"],
    )
    assert 0 <= exchange.first_byte_ms <= exchange.duration_ms + 1


def test_connections_are_reused(server: HostileServer) -> None:
    guard = CountingGuard(server.allowed())
    with CurlFetcher(patient_limits(), guard, SystemClock()) as fetcher:
        for number in range(1, 11):
            assert fetch(fetcher, f"{server.origin('good')}/page/{number}").status == 200
        assert guard.connections == 1
        assert (
            len(
                run(
                    fetcher,
                    [Request(f"{server.origin('good')}/page/{number}") for number in range(1, 11)],
                    max_active=3,
                )
            )
            == 10
        )
        assert guard.connections == 3


def test_connection_is_reused_after_a_chunked_response(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(
        b"<p>a page that nginx sends in chunks, because it compresses it</p>" * 100
    )
    with nginx([Server("127.0.0.1", tmp_path, extra="gzip on; gzip_types *;")]) as running:
        guard = CountingGuard([("127.0.0.1", running.port)])
        with CurlFetcher(patient_limits(), guard, SystemClock()) as fetcher:
            for _ in range(5):
                exchange = fetch(fetcher, f"http://127.0.0.1:{running.port}/page.html")
                assert b"chunked" in exchange.response_head
                assert exchange.body.endswith(b"\r\n0\r\n\r\n")
                assert (
                    decode_body(exchange, 100_000).payload == (tmp_path / "page.html").read_bytes()
                )
    assert guard.connections == 1


@pytest.mark.parametrize("reset", [False, True])
def test_request_is_not_repeated_when_a_kept_connection_breaks(reset: bool) -> None:
    with (
        keep_alive_listener(1, reset=reset) as (origin, received),
        open_fetcher(allowed(origin)) as fetcher,
    ):
        exchanges = [fetch(fetcher, f"{origin}/{number}") for number in range(4)]
    assert [exchange.status for exchange in exchanges] == [200, 0, 200, 0]
    assert [exchange.error for exchange in exchanges] == ["", "reset", "", "reset"]
    # libcurl alone would have sent /1 again
    assert [data.split()[1].decode() for data in received] == ["/0", "/1", "/2", "/3"]
    assert all(
        exchange.request_head == data for exchange, data in zip(exchanges, received, strict=True)
    )
    assert all(0 <= exchange.connect_ms <= exchange.duration_ms for exchange in exchanges)


def wait_for_open_files(limit: int) -> None:
    """Wait until at most `limit` files are open.

    The server is in this process, too, and closes its ends of the connections later.
    """
    until(lambda: len(os.listdir("/proc/self/fd")) <= limit, 20)


def test_idle_connections_are_closed_for_new_hosts(server: HostileServer) -> None:
    """The fetcher is limited to 10 connections; the requests are to 40 hosts."""
    target = f"{server.addresses['good']}:{server.port}"
    with open_fetcher([], connect_to=(f"::{target}",), connections=10) as fetcher:
        requests = [Request(f"http://h{number % 40}.test/page/1") for number in range(200)]
        before = len(os.listdir("/proc/self/fd"))
        done = run(fetcher, requests, max_active=10)
        client_and_server = 2
        wait_for_open_files(before + client_and_server * 12)
    assert [exchange.status for exchange in done] == [200] * 200


def test_stop_ends_all_exchanges_and_the_fetcher_stays_usable(server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        for name in ("hang-before-headers", "hang-after-headers", "hang-in-body"):
            fetcher.start(Request(server.url(name), token=name))
        started = time.monotonic()
        while time.monotonic() < started + 0.3:
            assert fetcher.wait(50) == []
        fetcher.stop()
        assert fetcher.active == 3
        done = {str(exchange.token): exchange for exchange in fetcher.wait(1000)}
        assert fetcher.active == 0
        assert time.monotonic() < started + 1
        assert {exchange.error for exchange in done.values()} == {"interrupted"}
        assert (done["hang-before-headers"].status, done["hang-before-headers"].truncated) == (
            0,
            "",
        )
        assert (done["hang-in-body"].status, done["hang-in-body"].truncated) == (200, "disconnect")
        assert done["hang-in-body"].body
        assert fetch(fetcher, f"{server.origin('good')}/").status == 200


def test_hanging_response_does_not_delay_its_host(server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        fetcher.start(Request(server.url("hang-before-headers")))
        fetcher.start(Request(server.url("no-reason"), token="good"))
        assert [exchange.token for exchange in fetcher.wait(1000)] == ["good"]


def test_wait_returns_after_its_timeout_or_with_the_first_exchange(server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        started = time.monotonic()
        assert fetcher.wait(5000) == []  # nothing is in flight
        assert time.monotonic() < started + 0.2
        fetcher.start(Request(server.url("hang-before-headers")))
        assert fetcher.wait(0) == []
        started = time.monotonic()
        assert fetcher.wait(200) == []
        assert 0.19 < time.monotonic() - started < 0.5
        fetcher.start(Request(f"{server.origin('good')}/"))
        started = time.monotonic()
        assert [exchange.status for exchange in fetcher.wait(5000)] == [200]
        assert time.monotonic() < started + 0.5


def test_late_call_of_wait_does_not_count_as_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that writes to a slow disk calls `wait` late.

    The response has arrived meanwhile, so no time limit applies.
    """
    requested, respond, offset_ms = threading.Event(), threading.Event(), [0]
    for module in (client, driver, transfer):
        monkeypatch.setattr(
            module, "monotonic_ms", lambda: time.monotonic_ns() // 1_000_000 + offset_ms[0]
        )

    def answer(request: bytes) -> bytes:
        requested.set()
        respond.wait(30)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    limits = {"connect_timeout": "20s", "total_timeout": "20s", "first_byte_timeout": "20s"}
    with listener(answer) as (origin, _), open_fetcher(allowed(origin), **limits) as fetcher:
        fetcher.start(Request(f"{origin}/"))
        while not requested.is_set():
            assert fetcher.wait(10) == []
        offset_ms[0] = 100_000
        respond.set()
        [exchange] = run(fetcher, [])
        assert (exchange.status, exchange.body, exchange.error) == (200, b"hello", "")
        assert exchange.duration_ms >= 100_000  # the host's pause starts at the end


def test_close_during_exchanges_leaves_no_open_files(server: HostileServer) -> None:
    with open_fetcher(server.allowed()) as fetcher:
        fetch(fetcher, f"{server.origin('good')}/")  # opens files that libcurl and Python keep
    before = len(os.listdir("/proc/self/fd"))
    closed_early = open_fetcher(server.allowed())
    for name in ("hang-before-headers", "hang-in-body", "slow-drip"):
        closed_early.start(Request(server.url(name)))
    closed_early.wait(100)
    closed_early.close()
    wait_for_open_files(before)


def test_descriptors_beyond_the_limit_of_select(server: HostileServer) -> None:
    """The descriptors of all sockets are above 1,023, because 1,100 files are open."""
    open_files = [open(os.devnull) for _ in range(1100)]  # noqa: SIM115
    try:
        with open_fetcher(server.allowed()) as fetcher:
            done = run(
                fetcher,
                [
                    Request(f"{server.origin('good')}/page/{number}")
                    for number in range(1, GOOD_PAGES + 1)
                ],
                max_active=8,
            )
    finally:
        for file in open_files:
            file.close()
    assert [exchange.status for exchange in done] == [200] * GOOD_PAGES


@pytest.mark.proves("limits-outcome")
@pytest.mark.parametrize(
    ("url", "error"),
    [("ftp://a.test/", "unsupported_scheme"), ("file:///etc/passwd", "unsupported_scheme"), ("javascript:1", "unsupported_scheme"),
     ("", "unsupported_scheme"), ("http://a.test/é", "internal"), ("http://a.test/ x", "internal"), ("http://u:p@a.test/", "internal"),
     ("http://a.test/#f", "internal"), ("http://a.test/\r\nEvil: 1", "internal"), ("http:///", "internal"),
     ("http://a$b.test/", "name_unknown"),
     ("http://nowhere.invalid/", "name_unknown"), ("http://[::g]/", "dns"), ("http://a.test:99999/", "name_unknown")],
)  # fmt: skip
def test_invalid_request_has_an_error(url: str, error: str) -> None:
    with open_fetcher([]) as fetcher:
        exchange = fetch(fetcher, url)
    assert (exchange.status, exchange.error, exchange.request_head) == (0, error, b"")
    assert exchange.error_text


def test_closed_port_is_connect_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with open_fetcher([("127.0.0.1", port)]) as fetcher:
            assert fetch(fetcher, f"http://127.0.0.1:{port}/").error == "connect_refused"


def test_port_that_never_accepts_is_connect_timeout() -> None:
    """The backlog of the port is full, so the kernel drops the SYN."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        time.sleep(0.05)
        with open_fetcher([("127.0.0.1", port)], connect_timeout="300ms") as fetcher:
            exchange = fetch(fetcher, f"http://127.0.0.1:{port}/")
        for filler in fillers:
            filler.close()
    assert (exchange.error, exchange.request_head) == ("connect_timeout", b"")
    assert 250 < exchange.duration_ms < 1500


@pytest.mark.proves("limits-size")
def test_body_is_truncated_only_above_the_limit() -> None:
    for size, truncated in ((2048, ""), (2049, "length")):
        with (
            listener(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * size) as (origin, _),
            open_fetcher(allowed(origin), max_body="2KiB") as fetcher,
        ):
            exchange = fetch(fetcher, origin + "/")
        assert (exchange.status, exchange.error, exchange.truncated, len(exchange.body)) == (
            200,
            "",
            truncated,
            2048,
        )


@pytest.mark.proves("politeness-cookies")
def test_proxies_netrc_and_cookies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, server: HostileServer
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.setenv("HOME", str(tmp_path))
    with open(f"{tmp_path}/.netrc", "w") as netrc:
        netrc.write(f"machine {server.addresses['good']} login me password secret\n")
    with open_fetcher(server.allowed()) as fetcher:
        fetch(fetcher, server.url("cookie-storm"))
        fetch(fetcher, server.url("cookie-storm"))
        assert fetch(fetcher, f"{server.origin('good')}/").status == 200
    for request in (*server.requests("good"), *server.requests()):
        assert b"Authorization" not in request.head
        assert b"Cookie" not in request.head


@pytest.mark.parametrize(
    "changes",
    [
        {"user_agent": "a\r\nb"},
        {"contact": "x\ny"},
        {"accept_language": "\x00"},
        {"ca_file": "/nowhere"},
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="fetch"):
        CurlFetcher(FetchSettings.model_validate(changes), AddressGuard(), SystemClock())


def test_curl_errors_are_mapped() -> None:
    assert set(CURL_ERRORS.values()) <= set(FetchError)
    assert curl_error(12345) is FetchError.INTERNAL
    assert (connect_error(111), connect_error(101)) == (
        FetchError.CONNECT_REFUSED,
        FetchError.CONNECT,
    )
    for name, error in {
        "E_COULDNT_RESOLVE_HOST": FetchError.DNS,
        "E_WEIRD_SERVER_REPLY": FetchError.BAD_HTTP,
        "E_PARTIAL_FILE": FetchError.INCOMPLETE,
        "E_OPERATION_TIMEDOUT": FetchError.CONNECT_TIMEOUT,
        "E_SSL_CONNECT_ERROR": FetchError.TLS,
        "E_GOT_NOTHING": FetchError.EMPTY_REPLY,
        "E_RECV_ERROR": FetchError.RESET,
        "E_PEER_FAILED_VERIFICATION": FetchError.TLS_CERTIFICATE,
        "E_HTTP2": FetchError.HTTP2,
    }.items():
        assert curl_error(getattr(pycurl, name.replace("WEIRD", "FTP_WEIRD"))) is error, name


def test_split_url() -> None:
    match = split_url("https://user.test:81/a/b?c")
    assert match is not None
    assert match.groups() == ("https", "user.test:81", "/a/b?c")
    assert split_url("https://a.test") is not None
    for url in ("HTTP://a.test/", "https//a.test", "https://", "https://a.test/\n", "https://a b/"):
        assert split_url(url) is None


def test_small_pieces_of_a_body_are_joined() -> None:
    """Without joining, HTTP/2 frames of two bytes take thirty times their size in memory."""
    exchange = transfer.Transfer(pycurl.Curl(), AddressGuard(()), (), 65_536, 10**6, b"")
    sent = []
    for number in range(40_000):
        piece = b"%05d" % number if number % 100 else bytes(1_000)
        sent.append(piece)
        exchange.write(piece)
    assert len(exchange.body) < 3_000
    assert b"".join(exchange.body) == b"".join(sent)
    assert exchange.size == sum(map(len, sent))


def test_closing_twice_is_harmless() -> None:
    with listener(OK) as (origin, _), open_fetcher(allowed(origin)) as fetcher:
        fetch(fetcher, origin + "/")
        fetcher.close()
