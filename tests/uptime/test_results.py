"""What an answer says of a monitored page."""

from __future__ import annotations

import pytest

from lycosa.config.monitor import Monitor
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, VisitKind
from lycosa.uptime.results import evaluate_check

URL = "http://example.org/"


def exchange(
    status: int = 200, body: bytes = b"", fields: str = "", error: str = "", text: str = ""
) -> Exchange:
    head = (
        b""
        if error
        else f"HTTP/1.1 {status} Fine\r\nContent-Type: text/html\r\n{fields}\r\n".encode()
    )
    return Exchange(
        URL,
        VisitKind.CHECK,
        0,
        1,
        response_head=head,
        body=body,
        status=0 if error else status,
        error=error,
        error_text=text,
    )


@pytest.mark.parametrize(
    ("expect", "status", "answer", "verdict"),
    [
        ("", ("2xx", "3xx"), exchange(), "up"),
        ("", ("2xx", "3xx"), exchange(302), "up"),
        ("", ("2xx", "3xx"), exchange(404), "status"),
        ("", ("404",), exchange(404), "up"),
        ("", ("404",), exchange(200), "status"),
        ("well", ("2xx",), exchange(body=b"<p>all is well"), "up"),
        ("Well", ("2xx",), exchange(body=b"<p>all is well"), "content"),
        ("schön", ("2xx",), exchange(body="<p>schön".encode()), "up"),
        (
            "schön",
            ("2xx",),
            exchange(body='<meta charset="iso-8859-1"><p>schön'.encode("latin-1")),
            "up",
        ),
        ("晴天", ("2xx",), exchange(body='<meta charset="gbk"><p>今日晴天'.encode("gbk")), "up"),
        (
            "",
            ("2xx",),
            exchange(body=b"\x1f\x8b\x08no gzip at all", fields="Content-Encoding: gzip\r\n"),
            "content",
        ),
        ("", ("2xx",), exchange(error="dns"), "dns"),
        ("", ("2xx",), exchange(error="connect_timeout"), "connect"),
        ("", ("2xx",), exchange(error="tls_certificate"), "tls"),
        ("", ("2xx",), exchange(error="first_byte_timeout"), "timeout"),
        ("", ("2xx",), exchange(error="bad_http"), "content"),
    ],
)
def test_verdicts(expect: str, status: tuple[str, ...], answer: Exchange, verdict: str) -> None:
    assert evaluate_check(Monitor(url=URL, expect=expect, status=status), answer).verdict == verdict


def test_every_error_has_a_cause_and_the_same_trouble_the_same_text() -> None:
    monitor = Monitor(url=URL)
    for error in FetchError:
        assert evaluate_check(monitor, exchange(error=error)).verdict != "up"
    said = {
        evaluate_check(
            monitor,
            exchange(
                error="connect_refused",
                text=f"Failed to connect to x:1 after {ms} ms: Could not connect",
            ),
        ).text
        for ms in (0, 12)
    }
    assert said == {"Failed to connect to x:1: Could not connect"}
