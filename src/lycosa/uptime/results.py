"""The result of one check, and the state of a monitor after a sequence of checks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lycosa.archive.warc.record import sha1_digest
from lycosa.config.monitor import Monitor
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange
from lycosa.http.decode import content_type_of, decode_body
from lycosa.page.encoding import decode

UP = "up"
MAX_DECODED_BYTES = 16 * 2**20

REQUIRED_SUCCESSES = 2
"""Successful checks in a row that end an outage, so that a flapping page stays down."""


class Cause(StrEnum):
    """Why a check failed: the value of `visits.verdict`."""

    DNS = "dns"  # the name does not resolve
    CONNECT = "connect"  # no connection, or it was closed early
    TLS = "tls"  # for example an expired certificate, or one for another name
    TIMEOUT = "timeout"  # connected, but no complete response in time
    STATUS = "status"  # a status that the monitor does not accept
    CONTENT = "content"  # the expected text is missing, or the response is invalid


NETWORK_CAUSES = frozenset({Cause.DNS, Cause.CONNECT, Cause.TIMEOUT})
"""Failures that may also be caused by the local network."""

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
"""All other errors are errors of the response: `content`."""

_TIME = re.compile(r" after \d+ (?:ms|milliseconds)")
"""Durations in messages of libcurl; removed so that equal failures have equal texts."""


@dataclass(slots=True, frozen=True)
class CheckResult:
    """The result of a check. `at`: its start, ms since 1970; `verdict`: `up` or a `Cause`.

    `address`: of the server, "" without a response; `digest`: sha1:BASE32 of the decoded content.
    """

    url: str
    at: int
    verdict: str
    text: str = ""
    address: str = ""
    digest: str = ""
    certificate_until: int | None = None


def evaluate_check(
    monitor: Monitor, exchange: Exchange, certificate_until: int | None = None
) -> CheckResult:
    """Compare a response with the expectations of its monitor."""
    digest = ""
    if exchange.error:
        error = FetchError(exchange.error)
        verdict: str = _CAUSES.get(error, Cause.CONTENT)
        text = _TIME.sub("", exchange.error_text) or str(error)
        if error is FetchError.ADDRESS_REFUSED:
            text = "not a public address: add the monitor with `lycosa monitor add` on the server"
    else:
        decoded = decode_body(exchange, MAX_DECODED_BYTES)
        digest = sha1_digest(decoded.payload)
        content_type = content_type_of(exchange)
        verdict, text = UP, f"http {exchange.status}"
        if not monitor.accepts(exchange.status):
            verdict = Cause.STATUS
        elif decoded.error:
            verdict, text = Cause.CONTENT, f"the body cannot be decoded ({decoded.error})"
        elif monitor.expect and not _contains(decoded.payload, monitor.expect, content_type):
            verdict = Cause.CONTENT
            text = f"the text {_shorten(monitor.expect)!r} is missing (http {exchange.status})"
    address = exchange.ip if exchange.status else ""
    return CheckResult(
        monitor.url, exchange.started_at, verdict, text, address, digest, certificate_until
    )


def _contains(payload: bytes, text: str, content_type: str) -> bool:
    encoded = text.encode("utf-8", "surrogatepass")
    return encoded in payload or (
        not text.isascii() and encoded in decode(payload, content_type).data
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


class StateChange(StrEnum):
    """The effect of a check on the state of its monitor."""

    NONE = ""
    FAILED = "failed"  # not confirmed: check again soon
    DOWN = "down"  # confirmed
    RECOVERS = "recovers"  # first success after an outage: check again soon
    UP = "up"  # confirmed


@dataclass(slots=True)
class MonitorState:
    """The state of a monitor. Times are starts of checks in ms since 1970.

    `since`: first failed check in a row; `up_at`: first successful one after an outage;
    `last_up_at`: last successful one.
    """

    down: bool = False
    since: int = 0
    failures: int = 0
    successes: int = 0  # in a row, during an outage
    up_at: int = 0
    cause: str = ""
    text: str = ""
    last_up_at: int = 0

    @property
    def is_failing(self) -> bool:
        """Whether checks failed that are not confirmed as an outage."""
        return self.failures > 0 and not self.down

    def add(
        self, verdict: str, text: str, at: int, confirm: int, *, count: int = 1, last_at: int = 0
    ) -> StateChange:
        """Apply a check, or `count` equal ones up to `last_at`.

        `confirm`: failed checks after the first one that confirm an outage.
        """
        if verdict == UP:
            return self._succeed(at, count, last_at or at)
        self.successes = 0
        if not self.failures:
            self.since = at
        self.failures += count
        if self.down:
            return StateChange.NONE
        self.cause, self.text = verdict, text
        self.down = self.failures > confirm
        return StateChange.DOWN if self.down else StateChange.FAILED

    def forget_failures(self) -> None:
        """Discard failed checks that do not concern the page."""
        self.failures = self.since = 0

    def suspend(self, confirm: int) -> None:
        """After a restart, let the next failed check confirm an outage again."""
        if self.down:
            self.down, self.failures = False, max(self.failures, confirm)

    def set_back(self, by_ms: int) -> None:
        """Correct times after the clock was set back. A declared outage keeps its date."""
        self.last_up_at -= by_ms if self.last_up_at else 0
        self.up_at -= by_ms if self.successes else 0
        self.since -= by_ms if self.is_failing else 0

    def _succeed(self, at: int, count: int, last_at: int) -> StateChange:
        self.last_up_at = last_at
        if self.down:
            self.up_at = at if not self.successes else self.up_at
            self.successes += count
            if self.successes < REQUIRED_SUCCESSES:
                return StateChange.RECOVERS
        change = StateChange.UP if self.down else StateChange.NONE
        self.down = False
        self.forget_failures()
        return change
