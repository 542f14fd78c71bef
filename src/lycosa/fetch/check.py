"""Availability checks: single, measured requests on new connections.

Measured are the time of every step and the certificate of the server. Checks run in a separate
thread, so that they measure the network and the server, and not the work of a crawl in the same
process.
"""

from __future__ import annotations

import queue
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import FetchError, WorkError
from lycosa.core.records import Exchange, Request, VisitKind
from lycosa.fetch import failure
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.resolver import Endpoint
from lycosa.fetch.transfer import Transfer
from lycosa.processes.threads import OnError, start_thread

MAX_BODY_BYTES = 4 * 2**20
"""Longer responses are truncated."""

_WAIT_MS = 50  # maximum delay of a new check while others are in progress
_CLOSE_S = 5.0


@dataclass(slots=True)
class Check:
    """One check and its result. Times in ms; None: the step was not reached."""

    url: str
    timeout_ms: int
    token: object = None
    exchange: Exchange = field(default_factory=lambda: Exchange("", VisitKind.CHECK, 0, 0))
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    certificate_until: int | None = None  # ms since 1970

    def end(self, exchange: Exchange) -> None:
        """Set the result."""
        self.exchange = exchange

    def measure(self, curl: Any, looked_up_ms: int) -> None:
        """Read the time of each step and the certificate from libcurl."""
        dns, connected, encrypted, first = (
            curl.getinfo(name) / 1000
            for name in (
                pycurl.NAMELOOKUP_TIME_T,
                pycurl.CONNECT_TIME_T,
                pycurl.APPCONNECT_TIME_T,
                pycurl.STARTTRANSFER_TIME_T,
            )
        )
        self.dns_ms = looked_up_ms + dns or None
        self.connect_ms = connected - dns if connected else None
        self.tls_ms = encrypted - connected if encrypted else None
        self.first_byte_ms = first - (encrypted or connected) if first and connected else None
        if encrypted:
            self.certificate_until = _certificate_until(curl)


class CheckFetcher(CurlFetcher):
    """Opens a connection for every request and measures its steps. The token is the `Check`."""

    _resolve_prefix = ""  # the entry is replaced by the next check

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """Raises the errors of `CurlFetcher`."""
        body = min(settings.max_body, MAX_BODY_BYTES)
        longest = {
            "total_timeout": 600_000,
            "first_byte_timeout": 600_000,
            "connect_timeout": 600_000,
            "slow_speed": 0,
        }
        super().__init__(
            settings.model_copy(update={**longest, "max_body": body, "other_schemes": False}),
            guard,
            clock,
        )

    def check(self, check: Check) -> None:
        """Start a check; `wait` returns it as the token of its exchange."""
        self.start(Request(check.url, VisitKind.CHECK, token=check))

    def _must_be_looked_up(self, endpoint: Endpoint) -> bool:
        self._resolver.forget(endpoint)
        return super()._must_be_looked_up(endpoint)

    def _longest_look_up_ms(self, transfer: Transfer) -> int:
        return _check_of(transfer.request).timeout_ms

    def _limit(self, transfer: Transfer, spent_ms: int) -> None:
        transfer.curl.setopt(
            pycurl.TIMEOUT_MS, max(_check_of(transfer.request).timeout_ms - spent_ms, 1)
        )

    def _prepare(self, transfer: Transfer) -> None:
        transfer.curl.setopt(pycurl.TIMEOUT_MS, _check_of(transfer.request).timeout_ms)

    def _new_transfer(self) -> Transfer:
        transfer = super()._new_transfer()
        for option, value in _OPTIONS.items():
            transfer.curl.setopt(option, value)
        return transfer

    def _error_of(self, transfer: Transfer, code: int, text: str) -> FetchError:
        if code != failure.TIMED_OUT:
            return super()._error_of(transfer, code, text)
        if not transfer.sent_ms:
            return FetchError.CONNECT_TIMEOUT
        return FetchError.TIMEOUT if transfer.head else FetchError.FIRST_BYTE_TIMEOUT

    def _finish(
        self, transfer: Transfer, head: bytes, error: str, text: str, truncated: str
    ) -> None:
        check = _check_of(transfer.request)
        if transfer.looking_up is None:
            check.measure(transfer.curl, transfer.looked_up_ms)
        super()._finish(transfer, head, error, text, truncated)
        check.end(self._finished[-1])

    def _not_started(self, request: Request, error: FetchError, text: str) -> None:
        super()._not_started(request, error, text)
        _check_of(request).end(self._finished[-1])


class CheckRunner:
    """Runs checks in a thread. Call `start` and `take` from one other thread."""

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """Raises the errors of `CurlFetcher`."""
        self._fetcher = CheckFetcher(settings, guard, clock)
        self._orders: queue.SimpleQueue[Check | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Check] = queue.SimpleQueue()
        self._closed = False
        # `take` raises then
        self._thread = start_thread(self._run, name="checks", on_error=OnError.REPORT)

    def start(self, check: Check) -> None:
        """Start a check."""
        self._orders.put(check)

    def take(self) -> list[Check]:
        """Return the checks that have finished. Raises WorkError if the thread has died."""
        if not (self._closed or self._thread.is_alive()):
            raise WorkError(
                "the thread that performs the checks has died; the log contains the reason"
            )
        done: list[Check] = []
        with suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        return done

    def close(self) -> None:
        """Drop the checks in progress."""
        self._closed = True
        self._orders.put(None)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        with self._fetcher:
            while self._begin():
                for exchange in self._fetcher.wait(_WAIT_MS):
                    assert isinstance(exchange.token, Check)
                    self._done.put(exchange.token)

    def _begin(self) -> bool:
        """Start new checks, after waiting for one if none is in progress.

        Returns False after `close`.
        """
        with suppress(queue.Empty):
            while True:
                order = self._orders.get(block=not self._fetcher.active)
                if order is None:
                    return False
                self._fetcher.check(order)
        return True


_OPTIONS = {
    pycurl.FRESH_CONNECT: 1,
    pycurl.FORBID_REUSE: 1,
    pycurl.DNS_CACHE_TIMEOUT: 0,
    pycurl.OPT_CERTINFO: 1,
    pycurl.SSL_SESSIONID_CACHE: 0,  # a resumed session has no certificate
}


def _check_of(request: Request) -> Check:
    assert isinstance(request.token, Check)
    return request.token


def _certificate_until(curl: Any) -> int | None:
    """Return when the certificate of the server expires, in ms since 1970."""
    chain = curl.getinfo_raw(pycurl.INFO_CERTINFO)
    for name, value in chain[0] if chain else ():
        if name == b"Expire date":
            with suppress(ValueError):
                return ssl.cert_time_to_seconds(value.decode("ascii", "replace")) * 1000
    return None
