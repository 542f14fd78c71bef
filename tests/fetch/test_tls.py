"""TLS verification and HTTP/2.

The server is a real nginx, or one that violates HTTP/2.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.core.clock import SystemClock
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import decode_body, parse_head
from tests.fetch.fetching import CountingGuard, fetch, open_fetcher, patient_limits, run, tcp_server
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

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.certificate, self.server.key)
        return context


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """Run nginx with HTTP/2 and TLS.

    The certificate is for good.test and other.test, and signed by a new authority.
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


def test_verification_can_be_disabled(tls: Tls) -> None:
    with open_fetcher([], connect_to=tls.connect_to("wrong.test"), verify_tls=False) as fetcher:
        assert fetch(fetcher, "https://wrong.test/1.html").status == 200


@pytest.mark.parametrize(
    ("http2", "protocol", "first"),
    [(True, "h2", b"HTTP/2 200"), (False, "http/1.1", b"HTTP/1.1 200 OK")],
)
def test_configured_authority_is_trusted(
    tls: Tls, http2: bool, protocol: str, first: bytes
) -> None:
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
    """Both hosts have the same certificate and address.

    A browser may share a connection between them; the fetcher must not, because the guard decides
    by host.
    """
    origin = f"https://{ADDRESS}:{tls.port}"
    guard = CountingGuard([(ADDRESS, tls.port), ("localhost", tls.port)])
    with CurlFetcher(patient_limits(ca_file=str(tls.authority)), guard, SystemClock()) as fetcher:
        assert fetch(fetcher, f"{origin}/0.html?%7ex=%2f").request_head.startswith(
            b"GET /0.html?%7ex=%2f HTTP/1.1\r\nHost: " + ADDRESS.encode()
        )
        done = run(
            fetcher, [Request(f"{origin}/{number}.html") for number in range(20)], max_active=20
        )
        assert [(exchange.status, exchange.protocol) for exchange in done] == [(200, "h2")] * 20
        assert guard.connected_hosts == [ADDRESS]
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
    """Return whether the connection was new.

    nginx counts the requests of a connection in `X-Requests`.
    """
    return parse_head(exchange.response_head).get("x-requests") == "1"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Encode an HTTP/2 frame (RFC 9113 section 4.1)."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


SETTINGS = _frame(4, 0, 0, b"")
HEADERS_200 = _frame(1, 4, 1, b"\x88")  # HPACK: ":status: 200" of the static table


@contextmanager
def _http2_server(tls: Tls, answer: bytes) -> Iterator[int]:
    """Send fixed bytes after the first HTTP/2 request of a connection.

    Yields the port.
    """
    context = tls.server_context()
    context.set_alpn_protocols(["h2"])

    def serve(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection, suppress(OSError):
            connection.settimeout(5)
            data = b""
            while not has_request(data):
                data += connection.recv(65_536)
            connection.sendall(answer)
            while connection.recv(65_536):
                pass

    with tcp_server(serve, ADDRESS) as port:
        yield port


@pytest.mark.parametrize(
    ("answer", "status", "error", "truncated"),
    [
        # RST_STREAM, internal error
        (SETTINGS + _frame(3, 0, 1, (2).to_bytes(4, "big")), 0, "http2", ""),
        (SETTINGS + _frame(0, 0, 1, b"data before headers"), 0, "http2", ""),
        # header block that cannot be decoded
        (SETTINGS + _frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff"), 0, "http2", ""),
        # read as a frame of 4.7 MB: libcurl sends GOAWAY and waits
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
def test_http2_violation_has_an_outcome(
    tls: Tls, answer: bytes, status: int, error: str, truncated: str
) -> None:
    limits = {error: "1500ms"} if error == FetchError.FIRST_BYTE_TIMEOUT else {}
    with (
        _http2_server(tls, answer) as port,
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
        # without a length, only close_notify marks the end
        (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 200, "incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", 0, "incomplete"),
        (b"", 0, "empty_reply"),
    ],
)
def test_tls_connection_closed_without_close_notify(
    tls: Tls, answer: bytes, status: int, error: str
) -> None:
    """RFC 9112 section 9.8."""
    context = tls.server_context()

    def serve(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(10_000)
            connection.sendall(answer)
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    with (
        tcp_server(serve, ADDRESS) as port,
        open_fetcher([(ADDRESS, port)], ca_file=str(tls.authority)) as fetcher,
    ):
        exchange = fetch(fetcher, f"https://{ADDRESS}:{port}/")
    assert (exchange.status, exchange.error) == (status, error), exchange.error_text
    assert exchange.truncated == ("disconnect" if status and error else "")
    if status:
        assert decode_body(exchange, 100).payload == b"hello"


def test_http_on_a_tls_port_and_tls_on_an_http_port(tls: Tls) -> None:
    with open_fetcher([(ADDRESS, tls.port)], ca_file=str(tls.authority)) as fetcher:
        # nginx responds with an error
        assert fetch(fetcher, f"http://{ADDRESS}:{tls.port}/").status == 400

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with tcp_server(serve) as port, open_fetcher([("127.0.0.1", port)]) as fetcher:
        assert fetch(fetcher, f"https://127.0.0.1:{port}/").error == "tls"
