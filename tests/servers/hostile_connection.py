"""Endpoints with connection errors: closed, reset, hanging and slow ones, and other protocols."""

from __future__ import annotations

from tests.servers.wire import (
    Endpoint,
    Expected,
    Wire,
    answer,
    endless,
    head,
    page,
    raw,
    then_hang,
    then_reset,
)

_PAGE = page("A page")
_OK = b"HTTP/1.1 200 OK"
_HTML = b"Content-Type: text/html"
_LONG = b"Content-Length: 100000"


def _failed(error: str) -> Expected:
    return Expected(status=0, error=error)


def _drip_body(wire: Wire) -> None:
    wire.send(head(_OK, _HTML, _LONG))
    wire.drip([b"x"] * 100_000, 0.1)


def _drip_head(wire: Wire) -> None:
    wire.send(_OK + b"\r\n")
    wire.drip([b"X-Line-%d: %s\r\n" % (number, b"y" * 40) for number in range(100_000)], 0.05)


def _split_everywhere(wire: Wire) -> None:
    data = answer(_PAGE)
    wire.drip([data[at : at + 1] for at in range(len(data))], 0.001)


CONNECTION_ENDPOINTS = (
    Endpoint("drop", "closes without a byte", raw(b""), _failed("empty_reply")),
    Endpoint(
        "reset-before-headers", "resets instead of answering", then_reset(b""), _failed("reset")
    ),
    Endpoint(
        "reset-in-headers",
        "resets within the headers",
        then_reset(_OK + b"\r\nContent-Ty"),
        _failed("reset"),
    ),
    Endpoint(
        "reset-after-headers",
        "resets before the body",
        then_reset(head(_OK, _HTML, _LONG)),
        Expected(error="reset", truncated="disconnect", cut=True),
    ),
    Endpoint(
        "reset-in-body",
        "resets within the body",
        then_reset(head(_OK, _HTML, _LONG) + _PAGE),
        Expected(error="reset", truncated="disconnect", cut=True, payload=_PAGE),
    ),
    Endpoint(
        "close-in-headers",
        "closes within the headers",
        raw(_OK + b"\r\nContent-Ty"),
        _failed("incomplete"),
    ),
    Endpoint("hang-before-headers", "never answers", then_hang(b""), _failed("first_byte_timeout")),
    Endpoint(
        "hang-in-status-line",
        "stops within the status line",
        then_hang(b"HTTP/1.1 20"),
        _failed("first_byte_timeout"),
    ),
    Endpoint(
        "hang-in-headers",
        "stops within the headers",
        then_hang(_OK + b"\r\nContent-Ty"),
        _failed("too_slow"),
    ),
    Endpoint(
        "hang-after-headers",
        "stops before the body",
        then_hang(head(_OK, _HTML, _LONG)),
        Expected(error="too_slow", truncated="time", cut=True),
    ),
    Endpoint(
        "hang-in-body",
        "stops within the body",
        then_hang(head(_OK, _HTML, _LONG) + _PAGE),
        Expected(error="too_slow", truncated="time", cut=True, payload=_PAGE),
    ),
    Endpoint(
        "hang-after-body",
        "sends a body of undeclared length and does not close",
        then_hang(head(_OK, _HTML) + _PAGE),
        Expected(error="too_slow", truncated="time", cut=True, payload=_PAGE),
    ),
    Endpoint(
        "endless-body",
        "a body without length or end",
        endless(head(_OK, _HTML), b"<p>more</p>\n" * 4096),
        Expected(truncated="length", cut=True, payload=b"<p>more"),
    ),
    Endpoint(
        "endless-chunks",
        "chunks without end",
        endless(
            head(_OK, _HTML, b"Transfer-Encoding: chunked"), b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
        ),
        Expected(truncated="length", cut=True, payload=b"aaaa"),
    ),
    Endpoint(
        "slow-drip",
        "10 bytes of body per second",
        _drip_body,
        Expected(error="too_slow", truncated="time", cut=True, payload=b"xx"),
    ),
    Endpoint(
        "slow-headers", "endless headers, 20 lines per second", _drip_head, _failed("timeout")
    ),
    Endpoint(
        "slow-steady",
        "an endless body, 1 KB per second",
        endless(head(_OK, _HTML), b"z" * 100, 0.1),
        Expected(error="timeout", truncated="time", cut=True, payload=b"zzz"),
    ),
    Endpoint(
        "byte-by-byte",
        "a good response in packets of one byte",
        _split_everywhere,
        Expected(payload=_PAGE),
    ),
    Endpoint(
        "pipelined",
        "a second response without a request",
        raw(answer(_PAGE) + answer(b"evil")),
        Expected(payload=_PAGE),
    ),
    Endpoint("http-0.9", "a bare page without status line", raw(_PAGE), _failed("bad_http")),
    Endpoint(
        "garbage-first",
        "garbage before the status line",
        raw(b"\x00\x01\xfe garbage\r\n" + answer(_PAGE)),
        _failed("bad_http"),
    ),
    Endpoint(
        "empty-lines-first",
        "empty lines before the status line",
        raw(b"\r\n\r\n" + answer(_PAGE)),
        _failed("bad_http"),
    ),
    Endpoint(
        "ssh",
        "an SSH server's greeting",
        raw(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        _failed("bad_http"),
    ),
    Endpoint(
        "icy",
        "an audio stream's status line",
        raw(b"ICY 200 OK\r\nicy-name: radio\r\n\r\nmusic"),
        _failed("bad_http"),
    ),
    Endpoint(
        "tls-alert",
        "a TLS alert on a plain connection",
        raw(b"\x15\x03\x01\x00\x02\x02\x28"),
        _failed("bad_http"),
    ),
    Endpoint(
        "http-9.9",
        "an HTTP version from the future",
        raw(b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
        _failed("bad_http"),
    ),
    Endpoint(
        "http-2-unasked",
        "HTTP/2 frames without negotiation",
        raw(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18),
        _failed("bad_http"),
    ),
)
