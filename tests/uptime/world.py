"""Simulate servers for availability checks, with a manual clock.

Checker, outage detector and notifier are the real ones. A function maps (URL, time) to the `Answer`
of a check. Nothing sleeps, so a simulated day takes seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from lycosa.config.monitor import Monitor
from lycosa.core.records import Exchange, UrlId, Visit, VisitKind
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.fetch.check import Check, CheckRunner
from lycosa.notify.outbox import Outbox
from lycosa.notify.transports import Notice
from lycosa.uptime.checker import Checker, CheckerHooks
from lycosa.uptime.notifications import OutageNotifier
from lycosa.uptime.outages import Event, NetworkOutage, Outage, OutageDetector, authority
from lycosa.url.keys import host_key, url_key
from tests.waiting import ManualClock

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
TARGET = "file /notices"


@dataclass(frozen=True)
class Answer:
    """Result of a check. `error` is a FetchError value.

    A check whose `duration_ms` exceeds its limit times out.
    """

    duration_ms: int = 50
    status: int = 200
    error: str = ""
    body: bytes = b"all is well"
    certificate_until: int | None = None


FINE = Answer()
REFUSED = Answer(2, 0, "connect_refused")
HANGS = Answer(10**9)


class MemoryOutbox(Outbox):
    """An outbox that delivers at once and stores its cursor in memory."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self._text = ""

    @property
    def cursor(self) -> str:
        return self._text

    def put(self, notices: Sequence[Notice], cursor: str | None = None) -> None:
        self.notices += notices
        self._text = self._text if cursor is None else cursor


@dataclass
class World(CheckRunner):
    """Check runner in simulated time.

    `answer(url, at)` returns the result of a check that starts `at` ms after the start.
    """

    answer: Callable[[str, int], Answer]
    clock: ManualClock = field(default_factory=ManualClock)
    addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_ms = self.clock.now_ms()
        self.numbers = count()
        self.pending: list[tuple[int, int, Check]] = []
        self.visits: list[Visit] = []
        self.outboxes: dict[str, MemoryOutbox] = {}
        self.events: list[tuple[int, Event]] = []
        self.begin()

    def begin(self) -> None:
        """Start the components as a new process does: without state in memory."""
        self.detector = OutageDetector(lambda url: authority(url))
        self.notifier = OutageNotifier(
            lambda target: self.outboxes.setdefault(target, MemoryOutbox()), self.clock
        )
        self.pending.clear()
        hooks = CheckerHooks(
            store=lambda exchange, visit: self.visits.append(visit),
            identify=lambda url: UrlId(
                url, authority(url), host_key(authority(url)), url_key(url), 0
            ),
            on_event=lambda event: self.events.append((self.now, event)),
        )
        self.checker = Checker(
            self, UnpacedChecks(), self.detector, self.notifier, self.clock, hooks
        )

    @property
    def now(self) -> int:
        return self.clock.now_ms() - self.start_ms

    @property
    def notices(self) -> list[Notice]:
        return [notice for outbox in self.outboxes.values() for notice in outbox.notices]

    @property
    def outages(self) -> list[Outage]:
        return [event for _, event in self.events if isinstance(event, Outage) and not event.until]

    @property
    def offlines(self) -> list[NetworkOutage]:
        return [
            event
            for _, event in self.events
            if isinstance(event, NetworkOutage) and not event.until
        ]

    def run(self, until_ms: int) -> None:
        """Advance the clock until `until_ms` after the start."""
        while self.now < until_ms:
            self.checker.turn(self.clock.monotonic_ms(), may_start=True)
            times = [self.clock.monotonic_ms() + 1_000, self.start_ms + until_ms]
            if self.pending:
                times.append(self.pending[0][0])
            times.append(self.checker.next_at())
            self.clock.advance(max(1, min(times) - self.clock.monotonic_ms()))

    # -- implements `CheckRunner` --

    def start(self, check: Check) -> None:
        answer = self.answer(check.url, self.now)
        timed_out = answer.duration_ms > check.timeout_ms
        duration = min(answer.duration_ms, check.timeout_ms)
        error = ("first_byte_timeout" if timed_out else answer.error) or ""
        host = authority(check.url)
        check.exchange = Exchange(
            check.url,
            VisitKind.CHECK,
            self.clock.now_ms(),
            duration,
            ip=self.addresses.get(host, host),
            response_head=b"" if error else HEAD,
            body=b"" if error else answer.body,
            status=0 if error else answer.status,
            error=error,
            token=check,
        )
        check.certificate_until = answer.certificate_until
        heapq.heappush(
            self.pending, (self.clock.monotonic_ms() + duration, next(self.numbers), check)
        )

    def take(self) -> list[Check]:
        done = []
        while self.pending and self.pending[0][0] <= self.clock.monotonic_ms():
            done.append(heapq.heappop(self.pending)[2])
        return done

    def close(self) -> None:
        pass


class UnpacedChecks(CheckPace):
    """Pace of a process without a crawl: checks never wait for a host."""

    def __init__(self) -> None:
        pass

    def pause_ms(self, identity: UrlId, least_ms: int) -> int:
        return least_ms

    def ready_at(self, identity: UrlId, now: int, waited_ms: int, pause_ms: int) -> int:
        return now

    def start(self, identity: UrlId, now: int) -> bool:
        return False

    def finish(self, identity: UrlId, now: int, least_ms: int, *, queued: bool) -> None:
        pass


def monitor(url: str, **settings: object) -> Monitor:
    return Monitor.model_validate({"url": url, "notify": [TARGET], **settings})
