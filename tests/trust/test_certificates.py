"""Errors for invalid certificates, TLS handshakes and HTTP/2 streams."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lycosa.core.records import Exchange
from tests.fetch.fetching import fetch, open_fetcher
from tests.servers.certificates import DAY, NOW, Certificate, make_certificate
from tests.servers.http2 import has_request

ADDRESS = "127.0.9.61"


ConnectionHandler = Callable[[socket.socket], None]


@contextmanager
def server(handle: ConnectionHandler) -> Iterator[int]:
    """Run `handle` in a thread per connection; yield the port."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            handle(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server((ADDRESS, 0)) as listening:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def over_tls(
    signed: Certificate, prepare: Callable[[ssl.SSLContext], object] = lambda context: None
) -> ConnectionHandler:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    prepare(context)

    def handle(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            with suppress(OSError):
                connection.unwrap()

    return handle


def only_tls_1_0(context: ssl.SSLContext) -> None:
    """Allow only TLS 1.0, also where the system forbids it."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificates"), "trusted", "")


def ask(port: int, host: str, trusted: Certificate, **settings: object) -> Exchange:
    override = (f"{host}:443:{ADDRESS}:{port}",)
    with open_fetcher(
        [(ADDRESS, port)], connect_to=override, ca_file=str(trusted.certificate), **settings
    ) as fetcher:
        return fetch(
            fetcher, f"https://{host}/" if host != ADDRESS else f"https://{ADDRESS}:{port}/"
        )


KINDS: dict[str, tuple[dict[str, object], str, str]] = {
    # arguments of make_certificate, requested host, text of the error ("": accepted)
    "good": ({"names": "DNS:a.test"}, "a.test", ""),
    "of a wildcard": ({"names": "DNS:*.a.test"}, "b.a.test", ""),
    "of an address": ({"names": f"IP:{ADDRESS}"}, ADDRESS, ""),
    "expired": ({"names": "DNS:a.test", "begins": NOW - 3 * DAY, "ends": NOW - DAY}, "a.test", "expired"),
    "not yet valid": ({"names": "DNS:a.test", "begins": NOW + DAY, "ends": NOW + 3 * DAY}, "a.test", "not yet valid"),
    "of another host": ({"names": "DNS:b.test"}, "a.test", "no alternative certificate subject name "
                                                         "matches"),
    "of a wildcard, two levels": ({"names": "DNS:*.a.test"}, "c.b.a.test", "no alternative "
                                                                         "certificate subject "
                                                                         "name matches"),
    "of a wildcard over everything": ({"names": "DNS:*"}, "a.test", "no alternative certificate "
                                                                  "subject name matches"),
    "of another address": ({"names": "IP:127.0.9.62"}, ADDRESS, "no alternative certificate "
                                                               "subject name matches"),
    "of a name that looks like the address": ({"names": "DNS:a.test"}, ADDRESS, "no alternative "
                                                                              "certificate subject name matches"),
    "signed by itself": ({"names": "DNS:a.test", "authority": None}, "a.test", "self-signed certificate"),
    "signed by an unknown authority": ({"names": "DNS:a.test", "authority": "unknown"}, "a.test", "issuer certificate"),
    "signed by a certificate that is no authority": ({"names": "DNS:a.test", "authority": "leaf"}, "a.test", ""),
}  # fmt: skip


@pytest.mark.proves("access-tls")
@pytest.mark.parametrize("kind", KINDS)
def test_validity_of_each_certificate(tmp_path: Path, trusted: Certificate, kind: str) -> None:
    arguments, host, why = KINDS[kind]
    options = {"authority": trusted, **arguments}
    if options["authority"] == "unknown":
        options["authority"] = make_certificate(tmp_path, "unknown", "")
    elif options["authority"] == "leaf":
        options["authority"] = make_certificate(tmp_path, "leaf", "DNS:b.test", trusted)
        why = "certificate"
    signed = make_certificate(tmp_path, "server", **options)  # type: ignore[arg-type]
    with server(over_tls(signed)) as port:
        exchange = ask(port, host, trusted)
        if not why:
            assert (exchange.status, exchange.body, exchange.error) == (200, b"hello", "")
            return
        assert (exchange.status, exchange.error, exchange.request_head, exchange.body) == (
            0,
            "tls_certificate",
            b"",
            b"",
        )
        assert why in exchange.error_text
        assert ask(port, host, trusted, verify_tls=False).status == 200


def test_certificate_without_alternative_names_is_valid_for_its_subject(
    tmp_path: Path, trusted: Certificate
) -> None:
    with server(over_tls(make_certificate(tmp_path, "a.test", "-", trusted))) as port:
        assert ask(port, "a.test", trusted).status == 200
        assert ask(port, "b.test", trusted).error == "tls_certificate"


def raw(data: bytes, *, hang: bool = False, reset: bool = False) -> ConnectionHandler:
    def handle(connection: socket.socket) -> None:
        connection.recv(65_536)
        if data:
            connection.sendall(data)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if hang:
            connection.recv(65_536)

    return handle


HANDSHAKES: dict[str, tuple[ConnectionHandler, str]] = {
    "silence": (raw(b"", hang=True), "connect_timeout"),
    "half a server hello": (raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00", hang=True), "connect_timeout"),
    "closed": (raw(b""), "tls"),
    "reset": (raw(b"", reset=True), "tls"),
    "half a server hello, then closed": (raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00"), "tls"),
    "garbage": (raw(b"\x00\x01garbage" * 50), "tls"),
    "plain HTTP": (raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "tls"),
    "an alert": (raw(b"\x15\x03\x03\x00\x02\x02\x28"), "tls"),
    "SSH": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "tls"),
}


@pytest.mark.proves("access-tls")
@pytest.mark.parametrize("kind", HANDSHAKES)
def test_each_handshake_that_fails_has_its_outcome(trusted: Certificate, kind: str) -> None:
    handle, error = HANDSHAKES[kind]
    with server(handle) as port:
        exchange = ask(port, "a.test", trusted, connect_timeout="500ms")
    assert (exchange.status, exchange.error, exchange.request_head) == (0, error, b""), (
        exchange.error_text
    )
    assert exchange.error_text


@pytest.mark.proves("access-tls")
def test_tls_1_0_is_refused(tmp_path: Path, trusted: Certificate) -> None:
    with server(
        over_tls(make_certificate(tmp_path, "server", "DNS:a.test", trusted), only_tls_1_0)
    ) as port:
        for settings in ({}, {"verify_tls": False}):
            exchange = ask(port, "a.test", trusted, **settings)
            assert (exchange.status, exchange.error) == (0, "tls"), exchange.error_text
            assert (
                "protocol version" in exchange.error_text
                or "unsupported protocol" in exchange.error_text
            )


def test_required_client_certificate_is_an_error(tmp_path: Path, trusted: Certificate) -> None:
    def require_certificate(context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted.certificate)

    signed = make_certificate(tmp_path, "server", "DNS:a.test", trusted)
    with server(over_tls(signed, require_certificate)) as port:
        exchange = ask(port, "a.test", trusted)
    assert (exchange.status, exchange.body) == (0, b"")
    assert exchange.error in ("tls", "reset")


# -- HTTP/2
# ------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return an HTTP/2 frame (RFC 9113 section 4.1)."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def goaway(last: int, code: int = 0) -> bytes:
    return frame(7, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def reset_stream(code: int) -> bytes:
    return frame(3, 0, 1, code.to_bytes(4, "big"))


SETTINGS = frame(4, 0, 0, b"")
HEAD = frame(1, 4, 1, b"\x88")  # :status: 200
HALF, WHOLE = frame(0, 0, 1, b"half"), frame(0, 1, 1, b"whole")

ENDINGS: dict[str, tuple[bytes, int, tuple[str, ...], bytes]] = {
    # frames sent before the connection is closed, status, possible errors, body
    "GOAWAY before the response": (goaway(0), 0, ("reset", "http2", "empty_reply"), b""),
    "GOAWAY after this stream": (goaway(1) + HEAD + WHOLE, 200, ("",), b"whole"),
    "GOAWAY in the body": (HEAD + HALF + goaway(0), 200, ("reset", "http2", "incomplete"), b"half"),
    "GOAWAY after this stream in the body": (HEAD + HALF + goaway(1), 200, ("reset", "http2", "incomplete"), b"half"),
    # ENHANCE_YOUR_CALM
    "GOAWAY with an error": (goaway(0, 11), 0, ("reset", "http2", "empty_reply"), b""),
    # REFUSED_STREAM: the request may be repeated, but libcurl does not repeat it
    "refused": (reset_stream(7), 0, ("reset", "http2"), b""),
    "cancelled in the body": (HEAD + HALF + reset_stream(8), 200, ("http2",), b"half"),
    "closed in the body": (HEAD + HALF, 200, ("reset", "http2", "incomplete"), b"half"),
    "closed in the head": (HEAD[:-1], 0, ("reset", "http2", "empty_reply", "incomplete"), b""),
    "complete, END_STREAM in a separate frame": (HEAD + frame(0, 0, 1, b"whole") + frame(0, 1, 1, b""), 200, ("",), b"whole"),
    "shorter than Content-Length": (frame(1, 4, 1, b"\x88\x0f\x0d\x0250") + WHOLE, 200, ("http2", "incomplete"), b""),
    "longer than Content-Length": (frame(1, 4, 1, b"\x88\x0f\x0d\x012") + WHOLE, 200, ("http2",), b""),
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_end_of_an_http2_connection_has_its_outcome(
    tmp_path: Path, trusted: Certificate, ending: str
) -> None:
    sent, status, errors, body = ENDINGS[ending]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signed = make_certificate(tmp_path, "two", "DNS:a.test", trusted)
    context.load_cert_chain(signed.certificate, signed.key)
    context.set_alpn_protocols(["h2"])
    requests: list[int] = []

    def handle(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            received = b""
            while not has_request(received):
                piece = connection.recv(65_536)
                if not piece:
                    return
                received += piece
            requests.append(1)
            connection.sendall(SETTINGS + sent)
            with suppress(OSError):
                connection.unwrap()

    with server(handle) as port:
        exchange = ask(port, "a.test", trusted)
    assert exchange.status == status, exchange
    assert exchange.error in errors, exchange
    assert bool(exchange.truncated) == bool(exchange.error and exchange.status)
    if body:
        assert exchange.body == body
    assert len(requests) == 1  # libcurl must not repeat it: that would ignore the crawl delay
