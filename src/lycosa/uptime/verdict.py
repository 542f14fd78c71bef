"""What an answer says of a monitored page: well, or why not."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from lycosa.archive.warc.record import sha1_digest
from lycosa.config.monitor import Monitor
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.encoding import decode

UP = "up"
MAX_DECODED_BYTES = 16 * 2**20


class Cause(StrEnum):
    """Why a page is not well; the value stands in `visits.verdict`."""

    DNS = "dns"  # its name does not resolve
    CONNECT = "connect"  # no connection, or it broke off
    # no encrypted connection: above all a certificate that is expired or of another name
    TLS = "tls"
    TIMEOUT = "timeout"  # connected, and no whole answer in time
    STATUS = "status"  # another status than wanted
    CONTENT = "content"  # the text is missing, or the answer is none


OF_NETWORK = frozenset({Cause.DNS, Cause.CONNECT, Cause.TIMEOUT})
"""What the failure of our own network looks like."""

_CAUSES = {
    FetchError.DNS: Cause.DNS,
    FetchError.NAME_UNKNOWN: Cause.DNS,
    FetchError.CONNECT_REFUSED: Cause.CONNECT,
    FetchError.CONNECT_TIMEOUT: Cause.CONNECT,
    FetchError.CONNECT: Cause.CONNECT,
    FetchError.RESET: Cause.CONNECT,
    FetchError.EMPTY_REPLY: Cause.CONNECT,
    FetchError.ADDRESS_REFUSED: Cause.CONNECT,
    FetchError.TLS: Cause.TLS,
    FetchError.TLS_CERTIFICATE: Cause.TLS,
    FetchError.FIRST_BYTE_TIMEOUT: Cause.TIMEOUT,
    FetchError.TIMEOUT: Cause.TIMEOUT,
    FetchError.TOO_SLOW: Cause.TIMEOUT,
}
"""All other errors are of the answer: `content`."""


_TIME = re.compile(r" after \d+ (?:ms|milliseconds)")
"""Durations in messages of libcurl. Removed, so that equal failures have equal texts and can be
grouped.
"""


class Verdict(NamedTuple):
    """`verdict`: `up`, or a `Cause`; `text`: for people; `digest`: sha1:BASE32 of the decoded
    content, "" without any.
    """

    verdict: str
    text: str
    digest: str


def judge_check(monitor: Monitor, exchange: Exchange) -> Verdict:
    """Whether what came of a check is what its monitor wants."""
    if exchange.error:
        error = FetchError(exchange.error)
        return Verdict(
            _CAUSES.get(error, Cause.CONTENT), _TIME.sub("", exchange.error_text) or str(error), ""
        )
    headers = parse_head(exchange.response_head)
    decoded = decode_with(exchange, headers, MAX_DECODED_BYTES)
    digest = sha1_digest(decoded.payload)
    if not monitor.takes(exchange.status):
        return Verdict(Cause.STATUS, f"http {exchange.status}", digest)
    if decoded.error:
        return Verdict(Cause.CONTENT, f"the body cannot be decoded ({decoded.error})", digest)
    if monitor.expect and not _holds(
        decoded.payload, monitor.expect, headers.get("content-type") or ""
    ):
        return Verdict(
            Cause.CONTENT,
            f"the text {_short(monitor.expect)!r} is missing (http {exchange.status})",
            digest,
        )
    return Verdict(UP, f"http {exchange.status}", digest)


def _holds(payload: bytes, text: str, content_type: str) -> bool:
    encoded = text.encode("utf-8", "surrogatepass")
    return encoded in payload or (
        not text.isascii() and encoded in decode(payload, content_type).data
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
