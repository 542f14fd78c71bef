"""Checks of availability: one request each on a connection of its own, with the time of every step
and the server's certificate.

They run in a thread of their own, so that what they measure is the network and the server, and not
the page that a crawl is reading meanwhile: libcurl takes the times, and waits without the
interpreter's lock.
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

MOST_BODY_BYTES = 4 * 2**20
"""Of a longer answer the beginning is looked at."""

_WAIT_MS = 50  # while checks are under way, a new one starts so much later at the most
_CLOSE_S = 5.0


@dataclass(slots=True)
class Check:
    """One check: what is asked, and once it is done what came of it. Times in milliseconds; None:
    it did not come so far.
    """

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
        """The check is done."""
        self.exchange = exchange

    def measure(self, curl: Any, looked_up_ms: int) -> None:
        """Take the time of each step from libcurl, and the certificate."""
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
    """A fetcher that opens a connection for every request and takes its steps' times. The request's
    token is its `Check`.
    """

    _resolve_prefix = (
        ""  # until it is told otherwise: by the next check, for libcurl keeps nothing here
    )

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """Raises ConfigError as `CurlFetcher` does."""
        body = min(settings.max_body, MOST_BODY_BYTES)
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
        """Begin a check; it comes from `wait` as its exchange's token."""
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
    """Makes checks in a thread. `start` and `take` are for one other thread."""

    def __init__(self, settings: FetchSettings, guard: AddressGuard, clock: Clock) -> None:
        """Raises ConfigError as `CurlFetcher` does."""
        self._fetcher = CheckFetcher(settings, guard, clock)
        self._orders: queue.SimpleQueue[Check | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Check] = queue.SimpleQueue()
        self._closed = False
        # `take` raises then
        self._thread = start_thread(self._run, name="checks", on_error=OnError.REPORT)

    def start(self, check: Check) -> None:
        """Begin a check."""
        self._orders.put(check)

    def take(self) -> list[Check]:
        """Those that are done since the last call. Raises WorkError if the thread has died."""
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
        """Drop what is under way."""
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
        """Start what was ordered, waiting for an order if nothing is under way. False: the end."""
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
    pycurl.SSL_SESSIONID_CACHE: 0,  # a resumed session shows no certificate
}


def _check_of(request: Request) -> Check:
    assert isinstance(request.token, Check)
    return request.token


def _certificate_until(curl: Any) -> int | None:
    """When the server's own certificate ends, in ms since 1970."""
    chain = curl.getinfo_raw(pycurl.INFO_CERTINFO)
    for name, value in chain[0] if chain else ():
        if name == b"Expire date":
            with suppress(ValueError):
                return ssl.cert_time_to_seconds(value.decode("ascii", "replace")) * 1000
    return None
