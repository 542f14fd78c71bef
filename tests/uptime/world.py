"""A simulated Internet for checks of availability: the real checker, detector and notifier, with a
clock that is moved by hand.

An `Answer` says how a check ends; what a URL answers at a time is a function. Nothing sleeps, so a
day takes seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from lycosa.config.monitor import Monitor
from lycosa.core.clock import ManualClock
from lycosa.core.records import Exchange, UrlId, Visit, VisitKind
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.fetch.check import Check, CheckRunner
from lycosa.notify.outbox import Outbox
from lycosa.notify.transports import Notice
from lycosa.uptime.checker import Checker, CheckerHooks
from lycosa.uptime.notifications import OutageNotifier
from lycosa.uptime.outages import Event, NetworkOutage, Outage, OutageDetector, authority
from lycosa.url.keys import host_key, url_key

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
TARGET = "file /notices"


@dataclass(frozen=True)
class Answer:
    """How a check ends. `error`: a FetchError value; a check that would take longer than its limit
    times out.
    """

    duration_ms: int = 50
    status: int = 200
    error: str = ""
    body: bytes = b"all is well"
    certificate_until: int | None = None


FINE = Answer()
REFUSED = Answer(2, 0, "connect_refused")
HANGS = Answer(10**9)


class Box(Outbox):
    """An outbox that delivers at once, and keeps its cursor."""

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
    """`answer(url, at)`: what a URL answers to a check that begins at that time, ms since the
    start.
    """

    answer: Callable[[str, int], Answer]
    clock: ManualClock = field(default_factory=ManualClock)
    addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_ms = self.clock.now_ms()
        self.numbers = count()
        self.flying: list[tuple[int, int, Check]] = []
        self.visits: list[Visit] = []
        self.boxes: dict[str, Box] = {}
        self.events: list[tuple[int, Event]] = []
        self.begin()

    def begin(self) -> None:
        """A process begins: with nothing but what is on disk."""
        self.detector = OutageDetector(lambda url: authority(url))
        self.notifier = OutageNotifier(
            lambda target: self.boxes.setdefault(target, Box()), self.clock
        )
        self.flying.clear()
        hooks = CheckerHooks(
            store=lambda exchange, visit: self.visits.append(visit),
            identify=lambda url: UrlId(
                url, authority(url), host_key(authority(url)), url_key(url), 0
            ),
            on_event=lambda event: self.events.append((self.now, event)),
        )
        self.checker = Checker(self, Alone(), self.detector, self.notifier, self.clock, hooks)

    @property
    def now(self) -> int:
        return self.clock.now_ms() - self.start_ms

    @property
    def notices(self) -> list[Notice]:
        return [notice for box in self.boxes.values() for notice in box.notices]

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
        """Let time pass up to `until_ms` after the start."""
        while self.now < until_ms:
            self.checker.turn(self.clock.monotonic_ms(), may_start=True)
            moments = [self.clock.monotonic_ms() + 1_000, self.start_ms + until_ms]
            if self.flying:
                moments.append(self.flying[0][0])
            moments.append(self.checker.next_at())
            self.clock.advance(max(1, min(moments) - self.clock.monotonic_ms()))

    # -- the runner: what `CheckRunner` does --

    def start(self, check: Check) -> None:
        answer = self.answer(check.url, self.now)
        late = answer.duration_ms > check.timeout_ms
        duration = min(answer.duration_ms, check.timeout_ms)
        error = ("first_byte_timeout" if late else answer.error) or ""
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
            self.flying, (self.clock.monotonic_ms() + duration, next(self.numbers), check)
        )

    def take(self) -> list[Check]:
        done = []
        while self.flying and self.flying[0][0] <= self.clock.monotonic_ms():
            done.append(heapq.heappop(self.flying)[2])
        return done

    def close(self) -> None:
        pass


class Alone(CheckPace):
    """The pace where nobody crawls."""

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
