"""From an exchange to its row in `visits`."""

from __future__ import annotations

from lycosa.core.records import Exchange, UrlId, UrlRow, Visit
from lycosa.http.decode import Headers

_HEADER_LIMIT = 1_000
"""Characters kept of a header that goes into a table: a server may send anything."""


def media_type(content_type: str) -> str:
    """`Text/HTML; charset=x` -> `text/html`."""
    return content_type.partition(";")[0].strip().lower()[:_HEADER_LIMIT]


def build_visit(
    exchange: Exchange,
    headers: Headers,
    identity: UrlId,
    collection: str,
    row: UrlRow | None,
    attempt: int,
) -> Visit:
    """What is known when the exchange ends; the archive and the parser add to it."""

    def header(name: str) -> str:
        return (headers.get(name) or "")[:_HEADER_LIMIT]

    return Visit(
        url=identity.url,
        host=identity.host,
        partition=identity.partition,
        host_key=identity.host_key,
        url_key=identity.url_key,
        kind=exchange.kind,
        collection=collection,
        depth=row.depth if row else 0,
        fetched_at=exchange.started_at,
        duration_ms=exchange.duration_ms,
        ip=exchange.ip,
        protocol=exchange.protocol,
        http_status=exchange.status,
        error=exchange.error,
        content_type=media_type(header("content-type")),
        content_length=len(exchange.body),
        server=header("server"),
        etag=header("etag"),
        last_modified=header("last-modified"),
        referrer=row.referrer if row else "",
        attempt=attempt,
        truncated=exchange.truncated,
    )
