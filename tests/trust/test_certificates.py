"""Certificates and handshakes of every bad kind: each has its outcome, none is taken for good, and
what is said of it tells why.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lycosa.core.records import Exchange
from tests.fetch.fetching import fetch, open_fetcher
from tests.servers.http2 import has_request

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
ADDRESS = "127.0.9.61"


@dataclass
class Signed:
    """A certificate with its key, in one file."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    path: Path


def sign(
    folder: Path,
    name: str,
    names: Sequence[str],
    *,
    by: Signed | None = None,
    begins: datetime = NOW - DAY,
    ends: datetime = NOW + DAY,
) -> Signed:
    """A certificate of these names and addresses; by itself, if nobody signs it. Without names it
    may sign others.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if [each for each in names if each]:
        result = [
            x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each)
            for each in names
            if each
        ]
        made = made.add_extension(x509.SubjectAlternativeName(result), critical=False)
    certificate = made.sign(by.key if by else key, hashes.SHA256())
    path = folder / f"{name.replace('*', '_')}-{len(list(folder.iterdir()))}.pem"
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + encoded)
    return Signed(certificate, key, path)


Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk) -> Iterator[int]:
    """Every connection is talked to in a thread of its own; the port."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            talk(connection)

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
    signed: Signed, prepare: Callable[[ssl.SSLContext], object] = lambda context: None
) -> Talk:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.path)
    prepare(context)

    def talk(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            with suppress(OSError):
                connection.unwrap()

    return talk


def old(context: ssl.SSLContext) -> None:
    """TLS 1.0 and no later: the system's own limits are lifted."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def trusted(folder: Path) -> Signed:
    return sign(folder, "trusted", [])


def ask(port: int, host: str, trusted: Signed, **settings: object) -> Exchange:
    detour = (f"{host}:443:{ADDRESS}:{port}",)
    with open_fetcher(
        [(ADDRESS, port)], connect_to=detour, ca_file=str(trusted.path), **settings
    ) as fetcher:
        return fetch(
            fetcher, f"https://{host}/" if host != ADDRESS else f"https://{ADDRESS}:{port}/"
        )


KINDS: dict[str, tuple[dict[str, object], str, str]] = {
    # how it is made, the host that is asked, what is said; "": it is taken
    "good": ({"names": ["a.test"]}, "a.test", ""),
    "of a wildcard": ({"names": ["*.a.test"]}, "b.a.test", ""),
    "of an address": ({"names": [ADDRESS]}, ADDRESS, ""),
    "expired": ({"names": ["a.test"], "begins": NOW - 3 * DAY, "ends": NOW - DAY}, "a.test", "expired"),
    "not yet valid": ({"names": ["a.test"], "begins": NOW + DAY, "ends": NOW + 3 * DAY}, "a.test", "not yet valid"),
    "of another host": ({"names": ["b.test"]}, "a.test", "no alternative certificate subject name "
                                                         "matches"),
    "of a wildcard, two levels": ({"names": ["*.a.test"]}, "c.b.a.test", "no alternative "
                                                                         "certificate subject "
                                                                         "name matches"),
    "of a wildcard over everything": ({"names": ["*"]}, "a.test", "no alternative certificate "
                                                                  "subject name matches"),
    "of another address": ({"names": ["127.0.9.62"]}, ADDRESS, "no alternative certificate "
                                                               "subject name matches"),
    "of a name that looks like the address": ({"names": ["a.test"]}, ADDRESS, "no alternative "
                                                                              "certificate subject name matches"),
    "signed by itself": ({"names": ["a.test"], "by": None}, "a.test", "self-signed certificate"),
    "signed by somebody unknown": ({"names": ["a.test"], "by": "stranger"}, "a.test", "issuer certificate"),
    "signed by one that may not sign": ({"names": ["a.test"], "by": "leaf"}, "a.test", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_certificate_is_judged(folder: Path, trusted: Signed, kind: str) -> None:
    made, host, why = KINDS[kind]
    options = {"by": trusted, **made}
    if options["by"] == "stranger":
        options["by"] = sign(folder, "stranger", [])
    elif options["by"] == "leaf":
        options["by"] = sign(folder, "leaf", ["b.test"], by=trusted)
        why = "certificate"
    signed = sign(folder, "server", **options)  # type: ignore[arg-type]
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


def test_a_certificate_without_names_is_judged_by_its_subject(
    folder: Path, trusted: Signed
) -> None:
    """Older than subjectAltName; libcurl takes it, and no other host than that."""
    with server(over_tls(sign(folder, "a.test", [""], by=trusted))) as port:
        assert ask(port, "a.test", trusted).status == 200
        assert ask(port, "b.test", trusted).error == "tls_certificate"


def raw(data: bytes, *, hang: bool = False, reset: bool = False) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        if data:
            connection.sendall(data)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if hang:
            connection.recv(65_536)

    return talk


HANDSHAKES: dict[str, tuple[Talk, str]] = {
    "silence": (raw(b"", hang=True), "connect_timeout"),
    "half a greeting": (raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00", hang=True), "connect_timeout"),
    "closed": (raw(b""), "tls"),
    "reset": (raw(b"", reset=True), "tls"),
    "half a greeting, then closed": (raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00"), "tls"),
    "garbage": (raw(b"\x00\x01garbage" * 50), "tls"),
    "plain HTTP": (raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "tls"),
    "an alert": (raw(b"\x15\x03\x03\x00\x02\x02\x28"), "tls"),
    "SSH": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "tls"),
}


@pytest.mark.parametrize("kind", HANDSHAKES)
def test_each_handshake_that_fails_has_its_outcome(trusted: Signed, kind: str) -> None:
    talk, error = HANDSHAKES[kind]
    with server(talk) as port:
        exchange = ask(port, "a.test", trusted, connect_timeout="500ms")
    assert (exchange.status, exchange.error, exchange.request_head) == (0, error, b""), (
        exchange.error_text
    )
    assert exchange.error_text


def test_tls_1_0_is_not_spoken(folder: Path, trusted: Signed) -> None:
    with server(over_tls(sign(folder, "old", ["a.test"], by=trusted), old)) as port:
        for settings in ({}, {"verify_tls": False}):
            exchange = ask(port, "a.test", trusted, **settings)
            assert (exchange.status, exchange.error) == (0, "tls"), exchange.error_text
            assert (
                "protocol version" in exchange.error_text
                or "unsupported protocol" in exchange.error_text
            )


def test_a_server_that_wants_a_certificate_of_ours(folder: Path, trusted: Signed) -> None:
    def demand(context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted.path)

    with server(over_tls(sign(folder, "asks", ["a.test"], by=trusted), demand)) as port:
        exchange = ask(port, "a.test", trusted)
    assert (exchange.status, exchange.body) == (0, b"")
    assert exchange.error in ("tls", "reset")


# -- HTTP/2
# ------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113 section 4.1."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def goaway(last: int, code: int = 0) -> bytes:
    return frame(7, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def refused(code: int) -> bytes:
    return frame(3, 0, 1, code.to_bytes(4, "big"))


BEGIN = frame(4, 0, 0, b"")
HEAD = frame(1, 4, 1, b"\x88")  # :status: 200
HALF, WHOLE = frame(0, 0, 1, b"half"), frame(0, 1, 1, b"whole")

ENDINGS: dict[str, tuple[bytes, int, tuple[str, ...], bytes]] = {
    # what is sent and then closed: status, errors that it may be, body; a body with an error is
    # marked as cut
    "gone before the answer": (goaway(0), 0, ("reset", "http2", "empty_reply"), b""),
    "gone, but for this": (goaway(1) + HEAD + WHOLE, 200, ("",), b"whole"),
    "gone in the body": (HEAD + HALF + goaway(0), 200, ("reset", "http2", "incomplete"), b"half"),
    "gone in the body, but for this": (HEAD + HALF + goaway(1), 200, ("reset", "http2", "incomplete"), b"half"),
    # ENHANCE_YOUR_CALM
    "gone with an error": (goaway(0, 11), 0, ("reset", "http2", "empty_reply"), b""),
    # REFUSED_STREAM: may be asked again, and is not by libcurl
    "refused": (refused(7), 0, ("reset", "http2"), b""),
    "called off": (HEAD + HALF + refused(8), 200, ("http2",), b"half"),
    "closed in the body": (HEAD + HALF, 200, ("reset", "http2", "incomplete"), b"half"),
    "closed in the head": (HEAD[:-1], 0, ("reset", "http2", "empty_reply", "incomplete"), b""),
    "whole, with the end a frame of its own": (HEAD + frame(0, 0, 1, b"whole") + frame(0, 1, 1, b""), 200, ("",), b"whole"),
    "shorter than it said": (frame(1, 4, 1, b"\x88\x0f\x0d\x0250") + WHOLE, 200, ("http2", "incomplete"), b""),
    "longer than it said": (frame(1, 4, 1, b"\x88\x0f\x0d\x012") + WHOLE, 200, ("http2",), b""),
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_end_of_an_http2_connection_has_its_outcome(
    folder: Path, trusted: Signed, ending: str
) -> None:
    sent, status, errors, body = ENDINGS[ending]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sign(folder, "two", ["a.test"], by=trusted).path)
    context.set_alpn_protocols(["h2"])
    requests: list[int] = []

    def talk(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            received = b""
            while not has_request(received):
                piece = connection.recv(65_536)
                if not piece:
                    return
                received += piece
            requests.append(1)
            connection.sendall(BEGIN + sent)
            with suppress(OSError):
                connection.unwrap()

    with server(talk) as port:
        exchange = ask(port, "a.test", trusted)
    assert exchange.status == status, exchange
    assert exchange.error in errors, exchange
    assert bool(exchange.truncated) == bool(exchange.error and exchange.status)
    if body:
        assert exchange.body == body
    assert len(requests) == 1  # asked again is asked without a pause
