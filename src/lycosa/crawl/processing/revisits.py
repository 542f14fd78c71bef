"""Pages that have not changed: conditional requests, and responses with a stored payload."""

from __future__ import annotations

from lycosa.archive.warc.writer import RevisitTarget, payload_digest
from lycosa.core.records import Exchange, UrlRow
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement


def revisit_target(
    exchange: Exchange, verdict: Judgement, rows: tuple[UrlRow, ...]
) -> RevisitTarget | None:
    """The earlier capture of this URL whose payload the answer is, by status 304 or by its digest;
    None: it is another.
    """
    for row in rows:
        if not row.record_id or exchange.rendered:
            continue
        if exchange.status == 304 or (
            verdict.outcome is FetchOutcome.PAGE
            and not exchange.error
            and not exchange.truncated
            and payload_digest(exchange) == row.digest
        ):
            return RevisitTarget(row.id.url, row.captured_at, row.record_id, row.digest)
    return None


def conditions(rows: tuple[UrlRow, ...]) -> tuple[tuple[str, str], ...]:
    """The header fields that ask for a page only if it changed (RFC 9110 section 13.1): ETag, else
    Last-Modified.

    Only where every collection that wants the page holds what the server would leave out.
    """
    if not rows or not all(row.record_id for row in rows):
        return ()
    row = rows[0]
    if any(other.etag != row.etag or other.last_modified != row.last_modified for other in rows):
        return ()
    if row.etag:
        return (("If-None-Match", row.etag),)
    return (("If-Modified-Since", row.last_modified),) if row.last_modified else ()
