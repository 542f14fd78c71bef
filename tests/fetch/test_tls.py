"""TLS verification and HTTP/2, against a real nginx, and against a server that breaks HTTP/2."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.core.clock import SystemClock
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import decode_body, parse_head
from tests.fetch.fetching import CountingGuard, fetch, open_fetcher, patient_limits, run
from tests.servers.certificates import Certificate, make_certificate
from tests.servers.http2 import has_request
from tests.servers.nginx import Server, free_port, nginx

ADDRESS = "127.0.9.60"
PAGE = b"<p>over TLS</p>" * 200


@dataclass(frozen=True)
class Tls:
    port: int
    authority: Path
    server: Certificate

    def connect_to(self, *hosts: str) -> tuple[str, ...]:
        return tuple(f"{host}:443:{ADDRESS}:{self.port}" for host in hosts)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """nginx with HTTP/2 and a certificate for good.test and other.test, signed by an authority made
    for this run.
    """
    folder = tmp_path_factory.mktemp("tls")
    authority = make_certificate(folder, "authority", "")
    certificate = make_certificate(
        folder, "server", f"DNS:good.test,DNS:other.test,IP:{ADDRESS}", authority
    )
    root = folder / "root"
    root.mkdir()
    for number in range(20):
        (root / f"{number}.html").write_bytes(PAGE)
    port = free_port([ADDRESS])
    extra = (
        f"listen {ADDRESS}:{port} ssl http2; ssl_certificate {certificate.certificate}; "
        f"ssl_certificate_key {certificate.key}; "
        "gzip on; gzip_min_length 1; gzip_types *; add_header X-Requests $connection_requests;"
    )
    with nginx([Server(ADDRESS, root, extra=extra)]):
        yield Tls(port, authority.certificate, certificate)


@pytest.mark.proves("access-tls")
def test_an_unknown_authority_is_refused(tls: Tls) -> None:
    with open_fetcher([], connect_to=tls.connect_to("good.test")) as fetcher:
        exchange = fetch(fetcher, "https://good.test/1.html")
    assert (exchange.status, exchange.error, exchange.request_head) == (0, "tls_certificate", b"")


@pytest.mark.proves("access-tls")
def test_a_wrong_name_is_refused(tls: Tls) -> None:
    with open_fetcher(
        [], connect_to=tls.connect_to("wrong.test"), ca_file=str(tls.authority)
    ) as fetcher:
        exchange = fetch(fetcher, "https://wrong.test/1.html")
    assert (exchange.status, exchange.error) == (0, "tls_certificate")


def test_verification_can_be_switched_off(tls: Tls) -> None:
    with open_fetcher([], connect_to=tls.connect_to("wrong.test"), verify_tls=False) as fetcher:
        assert fetch(fetcher, "https://wrong.test/1.html").status == 200


@pytest.mark.parametrize(
    ("http2", "protocol", "first"),
    [(True, "h2", b"HTTP/2 200"), (False, "http/1.1", b"HTTP/1.1 200 OK")],
)
def test_a_named_authority_is_trusted(tls: Tls, http2: bool, protocol: str, first: bytes) -> None:
    with open_fetcher(
        [], connect_to=tls.connect_to("good.test"), ca_file=str(tls.authority), http2=http2
    ) as fetcher:
        exchange = fetch(fetcher, "https://good.test/1.html?x=y")
    assert (exchange.status, exchange.error, exchange.protocol, exchange.ip) == (
        200,
        "",
        protocol,
        ADDRESS,
    )
    assert exchange.request_head.startswith(
        b"GET /1.html?x=y HTTP/1.1\r\nHost: good.test\r\nUser-Agent: lycosa/"
    )
    assert exchange.response_head.startswith(first)
    assert exchange.response_head.endswith(b"\r\n\r\n")
    assert parse_head(exchange.response_head).get("content-encoding") == "gzip"
    assert exchange.body != PAGE
    assert decode_body(exchange, 10_000) == (PAGE, "", False)


def test_http2_shares_a_connection_within_a_host_only(tls: Tls) -> None:
    """One certificate and one address for both hosts: a browser might let them share, we must not
    (the guard decides by host).
    """
    origin = f"https://{ADDRESS}:{tls.port}"
    guard = CountingGuard([(ADDRESS, tls.port), ("localhost", tls.port)])
    with CurlFetcher(patient_limits(ca_file=str(tls.authority)), guard, SystemClock()) as fetcher:
        assert fetch(fetcher, f"{origin}/0.html?%7ex=%2f").request_head.startswith(
            b"GET /0.html?%7ex=%2f HTTP/1.1\r\nHost: " + ADDRESS.encode()
        )
        done = run(
            fetcher, [Request(f"{origin}/{number}.html") for number in range(20)], at_once=20
        )
        assert [(exchange.status, exchange.protocol) for exchange in done] == [(200, "h2")] * 20
        assert guard.dialled == [ADDRESS]
    settings = patient_limits(
        ca_file=str(tls.authority), connect_to=tls.connect_to("good.test", "other.test")
    )
    with CurlFetcher(settings, AddressGuard(), SystemClock()) as fetcher:
        first, again, other = (
            fetch(fetcher, f"https://{host}.test/1.html") for host in ("good", "good", "other")
        )
    assert [exchange.status for exchange in (first, again, other)] == [200, 200, 200]
    assert _is_new(first)
    assert not _is_new(again)
    assert _is_new(other)


def _is_new(exchange: Exchange) -> bool:
    """nginx names in `X-Requests` how many requests a connection has carried."""
    return parse_head(exchange.response_head).get("x-requests") == "1"


# -- a server that breaks HTTP/2
# ------------------------------------------------------------


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113 section 4.1."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


SETTINGS = _frame(4, 0, 0, b"")
HEADERS_200 = _frame(1, 4, 1, b"\x88")  # HPACK: the static table's ":status: 200"


@contextmanager
def _breaks_http2(tls: Tls, answer: bytes) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.server.certificate, tls.server.key)
    context.set_alpn_protocols(["h2"])

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            with plain, context.wrap_socket(plain, server_side=True) as connection:
                connection.settimeout(5)
                try:
                    data = b""
                    while not has_request(data):
                        data += connection.recv(65_536)
                    connection.sendall(answer)
                    while connection.recv(65_536):
                        pass
                except OSError:
                    continue

    with socket.create_server((ADDRESS, 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


@pytest.mark.parametrize(
    ("answer", "status", "error", "truncated"),
    [
        # RST_STREAM, internal error
        (SETTINGS + _frame(3, 0, 1, (2).to_bytes(4, "big")), 0, "http2", ""),
        (SETTINGS + _frame(0, 0, 1, b"data before headers"), 0, "http2", ""),
        # header block that does not decode
        (SETTINGS + _frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff"), 0, "http2", ""),
        # a frame of 4.7 MB: libcurl says GOAWAY and waits
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, "first_byte_timeout", ""),
        (
            SETTINGS
            + HEADERS_200
            + _frame(0, 0, 1, b"half")
            + _frame(3, 0, 1, (2).to_bytes(4, "big")),
            200,
            "http2",
            "disconnect",
        ),
        (SETTINGS + HEADERS_200 + _frame(0, 1, 1, b"whole"), 200, "", ""),
    ],
)
def test_broken_http2_is_an_outcome(
    tls: Tls, answer: bytes, status: int, error: str, truncated: str
) -> None:
    limits = {error: "1500ms"} if error == FetchError.FIRST_BYTE_TIMEOUT else {}
    with (
        _breaks_http2(tls, answer) as port,
        open_fetcher([(ADDRESS, port)], ca_file=str(tls.authority), **limits) as fetcher,
    ):
        exchange = fetch(fetcher, f"https://{ADDRESS}:{port}/")
    assert (exchange.status, exchange.error, exchange.truncated) == (status, error, truncated), (
        exchange.error_text
    )
    assert exchange.protocol in ("h2", "")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, ""),
        # without a length only a proper close says that this is all
        (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", 0, "incomplete"),
        (b"", 0, "empty_reply"),
    ],
)
def test_tls_connections_that_just_close(tls: Tls, answer: bytes, status: int, error: str) -> None:
    """No close_notify: RFC 9112 section 9.8."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.server.certificate, tls.server.key)
    with socket.create_server((ADDRESS, 0)) as listening:

        def serve() -> None:
            connection = context.wrap_socket(listening.accept()[0], server_side=True)
            connection.recv(10_000)
            connection.sendall(answer)
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        port = listening.getsockname()[1]
        with open_fetcher([(ADDRESS, port)], ca_file=str(tls.authority)) as fetcher:
            exchange = fetch(fetcher, f"https://{ADDRESS}:{port}/")
        thread.join(5)
    assert (exchange.status, exchange.error) == (status, error), exchange.error_text
    assert exchange.truncated == ("disconnect" if status and error else "")
    if status:
        assert decode_body(exchange, 100).payload == b"hello"


def test_plain_http_on_a_tls_port_and_the_other_way_round(tls: Tls) -> None:
    with open_fetcher([(ADDRESS, tls.port)], ca_file=str(tls.authority)) as fetcher:
        # nginx says what is wrong
        assert fetch(fetcher, f"http://{ADDRESS}:{tls.port}/").status == 400
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with open_fetcher([("127.0.0.1", port)]) as fetcher:
            assert fetch(fetcher, f"https://127.0.0.1:{port}/").error == "tls"
        thread.join(5)
