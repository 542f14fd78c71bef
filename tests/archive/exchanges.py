"""Exchanges and visits for tests of the archive."""

from __future__ import annotations

from lycosa.core.records import Exchange, Visit

AT = 1_795_256_778_123  # 2026-11-21T10:26:18.123Z
REQUEST = b"GET /a HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: lycosa/0.1.0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def pair(
    url: str = "http://www.example.org/a",
    *,
    head: bytes = HEAD,
    body: bytes = b"<p>hello</p>",
    request: bytes = REQUEST,
    protocol: str = "http/1.1",
    status: int = 200,
    error: str = "",
    error_text: str = "",
    truncated: str = "",
    at: int = AT,
) -> tuple[Exchange, Visit]:
    """Return an exchange and the visit that a worker records for it."""
    exchange = Exchange(
        url=url,
        kind="page",
        started_at=at,
        duration_ms=31,
        ip="127.0.2.1",
        protocol=protocol,
        request_head=request,
        response_head=head,
        body=body,
        status=status,
        error=error,
        error_text=error_text,
        truncated=truncated,
        first_byte_ms=12,
    )
    visit = Visit(
        url=url,
        host="www.example.org",
        partition=7,
        host_key=2**64 - 1,
        url_key=2**63 + 1,
        kind="page",
        collection="default",
        depth=2,
        fetched_at=at,
        duration_ms=31,
        ip="127.0.2.1",
        protocol=protocol,
        http_status=status,
        error=error,
        content_type="text/html; charset=utf-8" if status else "",
        content_length=len(body),
        referrer="http://www.example.org/",
        truncated=truncated,
    )
    return exchange, visit


def failure(url: str = "http://www.example.org/gone") -> tuple[Exchange, Visit]:
    """Return an exchange without a response, and its visit."""
    return pair(
        url,
        head=b"",
        body=b"",
        request=b"",
        protocol="",
        status=0,
        error="dns",
        error_text="Could not resolve host",
    )
