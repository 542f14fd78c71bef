"""Endpoints with bad heads: status lines, statuses, fields, lengths, interim responses."""

from __future__ import annotations

from tests.servers.wire import Endpoint, Expected, Wire, answer, endless, head, page, raw, then_hang

_PAGE = page("A page")
_OK = b"HTTP/1.1 200 OK"
_LENGTH = b"Content-Length: %d" % len(_PAGE)
_FINE = Expected(payload=_PAGE)
_DATE = b"Fri, 31 Dec 2100 23:59:59 GMT"


def _failed(error: str) -> Expected:
    return Expected(status=0, error=error)


def _status(line: bytes, expected: Expected, description: str = "") -> Endpoint:
    name = "status-" + line.split(b" ")[0].decode()
    return Endpoint(
        name, description or f"answers {line.decode()}", raw(answer(_PAGE, status=line)), expected
    )


def _busy(name: str, status: bytes, retry_after: bytes) -> Endpoint:
    behave = raw(answer(b"busy", b"Retry-After: " + retry_after, status=status))
    return Endpoint(
        name,
        f"{status.decode()} with Retry-After: {retry_after.decode()}",
        behave,
        Expected(status=int(status[:3])),
    )


def _lengths(
    name: str, description: str, lines: list[bytes], expected: Expected, body: bytes = _PAGE
) -> Endpoint:
    return Endpoint(
        name, description, raw(head(_OK, b"Connection: close", *lines) + body), expected
    )


def _upgrade(wire: Wire) -> None:
    wire.send(head(b"HTTP/1.1 101 Switching Protocols", b"Upgrade: foo/2", b"Connection: Upgrade"))
    wire.send(b"foo foo foo")
    wire.pause(0.1)


STATUS_ENDPOINTS = (
    _status(b"000 Nothing", _failed("bad_http")),
    _status(b"099 Low", _failed("bad_http")),
    Endpoint(
        "status-100-only",
        "an interim response only",
        raw(head(b"HTTP/1.1 100 Continue")),
        _failed("empty_reply"),
    ),
    Endpoint(
        "status-101",
        "switches to a protocol that was not requested",
        _upgrade,
        Expected(status=101),
    ),
    Endpoint(
        "status-204-body",
        "204 with a body",
        raw(answer(_PAGE, status=b"204 No Content")),
        Expected(status=204, payload=b""),
    ),
    _status(b"205 Reset Content", Expected(status=205)),
    Endpoint(
        "status-206",
        "a range that was not requested",
        raw(answer(_PAGE[:50], b"Content-Range: bytes 0-49/1000", status=b"206 Partial Content")),
        Expected(status=206, payload=_PAGE[:50]),
    ),
    _status(b"300 Multiple Choices", Expected(status=300, payload=_PAGE)),
    Endpoint(
        "status-304",
        "304 to an unconditional request",
        raw(head(b"HTTP/1.1 304 Not Modified", b'ETag: "x"', b"Connection: close")),
        Expected(status=304, payload=b""),
    ),
    _status(b"402 Payment Required", Expected(status=402)),
    _status(b"407 Proxy Authentication Required", Expected(status=407)),
    _status(b"418 I'm a teapot", Expected(status=418)),
    _status(b"426 Upgrade Required", Expected(status=426)),
    _status(b"451 Unavailable For Legal Reasons", Expected(status=451)),
    _status(b"500 Internal Server Error", Expected(status=500)),
    _status(b"599 Odd", Expected(status=599)),
    _status(b"600 Odder", Expected(status=600)),
    _status(b"999 Request denied", Expected(status=999)),
    _status(b"2000 Too Long", _failed("bad_http")),
    _status(b"20 Too Short", _failed("bad_http")),
    _status(b"abc Letters", _failed("bad_http")),
)

HEAD_ENDPOINTS = (
    Endpoint("lower-case-http", "`http/1.1 200 ok`", raw(b"http" + answer(_PAGE)[4:]), _FINE),
    Endpoint(
        "no-reason", "a status line without reason phrase", raw(answer(_PAGE, status=b"200")), _FINE
    ),
    Endpoint(
        "lf-only",
        "lines that end in LF",
        raw(answer(b"").replace(b"\r\n", b"\n") + _PAGE),
        Expected(payload=b""),
    ),
    Endpoint(
        "lf-only-length",
        "LF lines with a correct length",
        raw(answer(_PAGE).replace(b"\r\n", b"\n")),
        _FINE,
    ),
    Endpoint(
        "bare-cr",
        "a bare CR within a field",
        raw(head(_OK, b"X-A: one\rX-B: two", _LENGTH) + _PAGE),
        _failed("bad_http"),
    ),
    Endpoint(
        "no-colon",
        "a field without colon",
        raw(head(_OK, b"nonsense", _LENGTH) + _PAGE),
        _failed("bad_http"),
    ),
    Endpoint(
        "space-before-colon",
        "white space before the colon",
        raw(head(_OK, b"Content-Length : %d" % len(_PAGE)) + _PAGE),
        _FINE,
    ),
    Endpoint(
        "folded",
        "a folded field",
        raw(head(_OK, b"X-Long: one", b"\ttwo", b" three", _LENGTH) + _PAGE),
        _FINE,
    ),
    Endpoint(
        "fold-first",
        "a folded line before any field",
        raw(head(_OK, b" folded", _LENGTH) + _PAGE),
        _failed("bad_http"),
    ),
    Endpoint(
        "null-in-header",
        "a null byte in a field",
        raw(head(_OK, b"X-A: a\x00b", _LENGTH) + _PAGE),
        _failed("bad_http"),
    ),
    Endpoint(
        "non-ascii-header",
        "raw UTF-8 and Latin-1 in fields",
        raw(answer(_PAGE, "X-Name: Привет".encode(), b"X-Caf\xe9: \xe9t\xe9")),
        _FINE,
    ),
    Endpoint("empty-name", "a field without name", raw(answer(_PAGE, b": nameless")), _FINE),
    Endpoint("no-headers", "a status line without fields", raw(_OK + b"\r\n\r\n" + _PAGE), _FINE),
    Endpoint(
        "header-flood",
        "twenty thousand fields",
        raw(answer(_PAGE, *(b"X-Flood-%d: flood" % n for n in range(20_000)))),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "endless-headers",
        "fields without end",
        endless(_OK + b"\r\n", b"X-More: more\r\n" * 100),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "endless-header-line",
        "a field without end",
        endless(_OK + b"\r\nX-Long: ", b"x" * 8192),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "huge-cookie",
        "a cookie of a megabyte",
        raw(answer(_PAGE, b"Set-Cookie: a=" + b"c" * 2**20)),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "cookie-storm",
        "three hundred cookies",
        raw(answer(_PAGE, *(b"Set-Cookie: c%d=v; Path=/" % n for n in range(300)))),
        _FINE,
    ),
    Endpoint(
        "large-headers",
        "80 KB of fields, above the limit of Lycosa and below that of libcurl",
        raw(answer(_PAGE, *(b"X-Large-%d: %s" % (n, b"l" * 1000) for n in range(80)))),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "interim",
        "103 with links, then the response",
        raw(head(b"HTTP/1.1 103 Early Hints", b"Link: </a.css>") + answer(_PAGE)),
        _FINE,
    ),
    Endpoint(
        "interim-flood",
        "200 interim responses",
        raw(head(b"HTTP/1.1 102 Processing") * 200 + answer(_PAGE)),
        _FINE,
    ),
    Endpoint(
        "interim-endless",
        "endless interim responses",
        endless(b"", head(b"HTTP/1.1 102 Processing") * 50),
        _failed("headers_too_large"),
    ),
    Endpoint(
        "interim-hang",
        "an interim response, then nothing",
        then_hang(head(b"HTTP/1.1 100 Continue")),
        _failed("too_slow"),
    ),
    Endpoint(
        "upgrade-offer", "offers HTTP/2 by Upgrade", raw(answer(_PAGE, b"Upgrade: h2c, h2")), _FINE
    ),
    Endpoint(
        "alt-svc",
        "offers another port by Alt-Svc",
        raw(answer(_PAGE, b'Alt-Svc: h3=":1", h2="evil.test:443"')),
        _FINE,
    ),
    Endpoint(
        "content-type-absurd",
        "an invalid Content-Type",
        raw(answer(_PAGE, content_type=b'text/html;;;="\x7f charset=')),
        _FINE,
    ),
    Endpoint(
        "content-type-none",
        "no Content-Type",
        raw(head(_OK, _LENGTH, b"Connection: close") + _PAGE),
        _FINE,
    ),
    _lengths(
        "length-too-small",
        "a body longer than announced",
        [b"Content-Length: 20"],
        Expected(payload=_PAGE[:20]),
    ),
    _lengths(
        "length-too-large",
        "a body shorter than announced",
        [b"Content-Length: 5000"],
        Expected(error="incomplete", truncated="disconnect", cut=True, payload=_PAGE),
    ),
    _lengths("length-negative", "Content-Length: -1", [b"Content-Length: -1"], _failed("bad_http")),
    _lengths("length-twice", "the same Content-Length twice", [_LENGTH, _LENGTH], _FINE),
    _lengths(
        "length-conflict",
        "two different Content-Lengths",
        [b"Content-Length: 10", _LENGTH],
        _failed("bad_http"),
    ),
    _lengths("length-list", "Content-Length as a list", [_LENGTH + b", %d" % len(_PAGE)], _FINE),
    _lengths(
        "length-garbage", "Content-Length: lots", [b"Content-Length: lots"], _failed("bad_http")
    ),
    _lengths(
        "length-overflow",
        "a Content-Length over 64 bits",
        [b"Content-Length: 99999999999999999999999"],
        Expected(error="", payload=_PAGE),
    ),
    _lengths(
        "length-and-chunked",
        "both Content-Length and chunks, as in request smuggling",
        [b"Content-Length: 3", b"Transfer-Encoding: chunked"],
        _FINE,
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(_PAGE), _PAGE),
    ),
)

BUSY_ENDPOINTS = (
    _busy("busy-429-seconds", b"429 Too Many Requests", b"1"),
    _busy("busy-429-date", b"429 Too Many Requests", _DATE),
    _busy("busy-429-negative", b"429 Too Many Requests", b"-5"),
    _busy("busy-429-huge", b"429 Too Many Requests", b"99999999999999999999"),
    _busy("busy-503-seconds", b"503 Service Unavailable", b"2"),
    _busy("busy-503-garbage", b"503 Service Unavailable", b"soon"),
)
"""These are last among the endpoints, because a polite crawl pauses the host after the first."""
