"""The outcome of an exchange for URL and host, and conditional requests.

Pure functions over status, error and headers.
"""

from __future__ import annotations

from enum import StrEnum

from lycosa.archive.warc.metadata import Revisited
from lycosa.archive.warc.writer import payload_digest
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import BUSY_STATUSES, RETRY_STATUSES, Exclusion, FetchError
from lycosa.core.records import Exchange, UrlRow
from lycosa.http.decode import decode_body, parse_head
from lycosa.http.fields import retry_after_ms

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""RFC 9110 section 15.4: statuses of redirects by Location."""

_HOST_DOWN = frozenset(
    {
        FetchError.DNS,
        FetchError.NAME_UNKNOWN,
        FetchError.CONNECT,
        FetchError.CONNECT_REFUSED,
        FetchError.CONNECT_TIMEOUT,
        FetchError.FIRST_BYTE_TIMEOUT,
    }
)
"""Errors of the host, not of the page: its pause is increased."""

_MAX_PAGE_BYTES = 16 * 2**20

_RETRY_AFTER = frozenset({429, 503})
"""Statuses with Retry-After: RFC 9110 section 10.2.3, RFC 6585 section 4."""


class FetchOutcome(StrEnum):
    """The result of an exchange for its URL."""

    PAGE = "page"  # there is a response to process
    UNCHANGED = "unchanged"  # 304
    REDIRECT = "redirect"
    RETRY = "retry"  # retry soon while attempts remain; else later
    LATER = "later"  # another attempt now would not help
    GONE = "gone"
    EXCLUDED = "excluded"


@dataclass(slots=True, frozen=True)
class Judgement:
    """The outcome of an exchange, with its reason.

    `reason`: such as `http_404`, or a `FetchError` value. `host_failed`: increase the pause of the
    host. `wait_ms`: Retry-After.
    """

    outcome: FetchOutcome
    reason: str = ""
    location: str = ""
    host_failed: bool = False
    wait_ms: int = 0


def judge(exchange: Exchange, *, now_ms: int, last_attempt: bool) -> Judgement:
    """Return the outcome of an exchange.

    Many servers announce wrong lengths. So an incomplete body is parsed if it has the end of a
    page, and after the last attempt.
    """
    status = exchange.status
    headers = parse_head(exchange.response_head)
    wait = (
        retry_after_ms(headers.get("retry-after"), now_ms, headers.get("date"))
        if status in _RETRY_AFTER
        else 0
    )
    if exchange.error:
        error = FetchError(exchange.error)
        if error is FetchError.ADDRESS_REFUSED:
            return Judgement(FetchOutcome.EXCLUDED, Exclusion.ADDRESS)
        if (
            status == 200
            and exchange.body
            and error in (FetchError.INCOMPLETE, FetchError.RESET)
            and (last_attempt or _has_end(exchange))
        ):
            return Judgement(FetchOutcome.PAGE, error)
        return Judgement(
            FetchOutcome.RETRY if error.retry else FetchOutcome.LATER,
            error,
            host_failed=error in _HOST_DOWN,
            wait_ms=wait,
        )
    reason = f"http_{status}"
    if status in REDIRECTS:
        location = headers.get("location") or ""
        if not location.strip():
            return Judgement(FetchOutcome.LATER, FetchError.BAD_REDIRECT)
        return Judgement(FetchOutcome.REDIRECT, reason, location=location)
    if status == 304:
        return Judgement(FetchOutcome.UNCHANGED, reason)
    if 200 <= status < 300 or status == 300:
        return Judgement(FetchOutcome.PAGE)
    if status in RETRY_STATUSES:
        return Judgement(
            FetchOutcome.RETRY, reason, host_failed=status in BUSY_STATUSES, wait_ms=wait
        )
    if 400 <= status < 500:
        return Judgement(FetchOutcome.GONE, reason)
    return Judgement(FetchOutcome.LATER, reason)


def _has_end(exchange: Exchange) -> bool:
    """Return whether the body is a page with its end tag, perhaps before a comment."""
    page = decode_body(exchange, _MAX_PAGE_BYTES).payload
    return b"</html>" in page[-1_000:].lower()


def revisit_target(
    exchange: Exchange, verdict: Judgement, rows: tuple[UrlRow, ...]
) -> Revisited | None:
    """Return the earlier capture of this URL with the same payload, or None.

    Equality is determined by status 304 or by the digest.
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
            return Revisited(row.id.url, row.captured_at, row.record_id, row.digest)
    return None


def conditions(rows: tuple[UrlRow, ...]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a conditional request, by ETag or Last-Modified.

    RFC 9110 section 13.1. Empty unless all collections of the page have the earlier capture.
    """
    if not rows or not all(row.record_id for row in rows):
        return ()
    row = rows[0]
    if any(other.etag != row.etag or other.last_modified != row.last_modified for other in rows):
        return ()
    if row.etag:
        return (("If-None-Match", row.etag),)
    return (("If-Modified-Since", row.last_modified),) if row.last_modified else ()
