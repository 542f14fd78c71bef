"""Makes checks when they are due, next to the crawl: archive, evaluate, notify, in this order.

A check waits for the pause of its host and for the other checks of that host, and for nothing
else. Intervals are measured between due times, so that checks do not drift.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from lycosa.config.monitor import Monitor
from lycosa.core.clock import Clock, ClockStep
from lycosa.core.errors import FetchError
from lycosa.core.records import CHECKS, Exchange, UrlId, Visit, VisitKind
from lycosa.crawl.policy.host_delay import CheckPace
from lycosa.crawl.state.task import Task, build_visit
from lycosa.fetch.check import Check, CheckRunner
from lycosa.uptime.notifications import OutageNotifier
from lycosa.uptime.outages import Event, OutageDetector, Reaction
from lycosa.uptime.results import UP, CheckResult, evaluate_check

MAX_RUNNING = 256
"""Concurrent checks: a thousand monitors without a response for ten seconds need 170."""

_FIRST_SPREAD_MS = 20  # between the first checks of new monitors
_MAX_RUNNING_PER_HOST = 8  # for hosts without a pause
_TICK_MS = 1_000


@dataclass(slots=True, frozen=True)
class CheckerHooks:
    """Callbacks: `store` makes a check durable, `tick` is called once a second."""

    store: Callable[[Exchange, Visit], None]
    identify: Callable[[str], UrlId]
    excluded: Callable[[str], bool] = lambda url: False
    on_event: Callable[[Event], None] = lambda event: None
    tick: Callable[[], None] = lambda: None


class _Running(NamedTuple):
    monitor: Monitor
    identity: UrlId
    queued: bool


class Checker:
    """Schedules the checks of one process (the worker's `AvailabilityChecks`). Not thread-safe."""

    def __init__(
        self,
        runner: CheckRunner,
        pace: CheckPace,
        detector: OutageDetector,
        notifier: OutageNotifier,
        clock: Clock,
        hooks: CheckerHooks,
    ) -> None:
        self._runner, self._pace, self._hooks = runner, pace, hooks
        self._detector, self._notifier, self._clock = detector, notifier, clock
        self._clock_step = ClockStep(clock)
        self._next_tick = 0
        self._identities: dict[str, UrlId] = {}
        self._due: dict[str, int] = {}
        self._agenda: list[tuple[int, str]] = []  # heap; valid if it agrees with `_due`
        self._waiting: dict[int, deque[str]] = {}  # due URLs by host
        self._ready_at: dict[int, int] = {}  # by host, for `_waiting`
        self._free_at: dict[int, int] = {}  # by host: end of the pause after the last check
        self._busy: set[str] = set()  # URLs that wait or are being checked
        self._running: set[str] = set()
        self._running_on: Counter[int] = Counter()
        self._rechecks: dict[str, int] = {}  # requested during a check: delay after it
        self.monitors: dict[str, Monitor] = {}
        self.last: dict[str, tuple[Visit, str]] = {}
        """By URL: the last check and its text."""

    def watch(self, monitors: Iterable[Monitor]) -> set[str]:
        """Set the monitors, with normalised URLs. Return the new ones; they are checked at once."""
        now, before = self._clock.monotonic_ms(), self.monitors.keys()
        self.monitors = {monitor.url: monitor for monitor in monitors}
        for url in before - self.monitors.keys():
            del self._due[url]
            self.last.pop(url, None)
        new = [url for url in self.monitors if url not in before]
        for place, url in enumerate(new):
            self._identities[url] = self._hooks.identify(url)
            self._plan(url, now + place * _FIRST_SPREAD_MS)
        for url in self.monitors.keys() & before:  # the interval may be shorter now
            self._plan_earlier(url, now + self.monitors[url].every)
        self._detector.watch(self.monitors)
        self._notifier.watch(self.monitors)
        return set(new)

    def turn(self, now: int, *, may_start: bool) -> None:
        """See `AvailabilityChecks.turn`."""
        if back_ms := self._clock_step.back_ms():
            self._detector.set_back(back_ms)
        for check in self._runner.take():
            self._finish(check, now)
        if now >= self._next_tick:
            self._next_tick = now + _TICK_MS
            self._react(self._detector.tick(self._clock.now_ms()), now)
            self._notifier.tick()
            self._hooks.tick()
        while self._agenda and self._agenda[0][0] <= now:
            at, url = heapq.heappop(self._agenda)
            if self._due.get(url) == at and url not in self._busy:
                self._busy.add(url)
                host = self._identities[url].host_key
                self._waiting.setdefault(host, deque()).append(url)
                self._ready_at.setdefault(host, max(now, self._free_at.get(host, 0)))
        if may_start:
            for _, host in sorted((at, host) for host, at in self._ready_at.items() if at <= now):
                if len(self._running) < MAX_RUNNING:
                    del self._ready_at[host]
                    self._start_next(host, now)

    def next_at(self) -> int:
        """Return when `turn` has something to do at the earliest (for simulated time)."""
        return min([self._next_tick, *self._ready_at.values(), *(at for at, _ in self._agenda[:1])])

    def close(self) -> None:
        """Drop the running checks."""
        self._runner.close()

    def _plan(self, url: str, at: int) -> None:
        self._due[url] = at
        heapq.heappush(self._agenda, (at, url))

    def _start_next(self, host: int, now: int) -> None:
        """Start the next check of a host, or try again when the host is ready."""
        waiting = self._waiting[host]
        while waiting and waiting[0] not in self.monitors:
            self._busy.discard(waiting.popleft())
        if not waiting:
            return
        url, free_at = waiting[0], self._free_at.get(host, 0)
        monitor, identity = self.monitors[url], self._identities[url]
        pause = self._pace.pause_ms(identity, monitor.pause)
        if self._running_on[host] >= (1 if pause else _MAX_RUNNING_PER_HOST):
            return  # until `_finish`
        waited = max(0, now - max(self._due[url], free_at))
        at = max(free_at, self._pace.ready_at(identity, now, waited, pause))
        if at > now:
            self._ready_at[host] = at
            return
        waiting.popleft()
        if self._hooks.excluded(url):
            self._busy.discard(url)
            self._plan(url, now + monitor.every)
        else:
            self._running_on[host] += 1
            self._running.add(url)
            token = _Running(monitor, identity, self._pace.start(identity, now))
            self._runner.start(Check(url, monitor.timeout_ms, token))
        if waiting:
            self._ready_at[host] = now

    def _finish(self, check: Check, now: int) -> None:
        assert isinstance(check.token, _Running)
        monitor, identity, queued = check.token
        url, host = identity.url, identity.host_key
        pause = self._pace.pause_ms(identity, monitor.pause)
        self._pace.finish(identity, now, monitor.pause, queued=queued)
        self._running_on[host] -= 1
        self._free_at[host] = now + pause
        if self._waiting[host]:
            self._ready_at.setdefault(host, now + pause)
        self._running.discard(url)
        self._busy.discard(url)
        if url not in self.monitors:
            return
        due, every = self._due[url], monitor.every
        self._plan(url, due + every * max(1, -(-(now - due) // every)))
        if url in self._rechecks:
            self._plan_earlier(url, now + self._rechecks.pop(url))
        if check.exchange.error != FetchError.INTERRUPTED:
            result = self._store(check, monitor, identity)
            self._react(self._detector.add(result, self._clock.now_ms()), now)
            self._notifier.add_certificate(result)

    def _store(self, check: Check, monitor: Monitor, identity: UrlId) -> CheckResult:
        exchange = check.exchange
        result = evaluate_check(monitor, exchange, check.certificate_until)
        before = self.last.get(identity.url)
        times = (check.dns_ms, check.connect_ms, check.tls_ms, check.first_byte_ms)
        dns, connect, tls, first_byte = (
            None if value is None else round(value, 3) for value in times
        )
        visit = replace(
            build_visit(
                exchange,
                Task(identity, (), "", VisitKind.CHECK),
                CHECKS,
            ),
            kind=VisitKind.CHECK,
            verdict=result.verdict,
            digest=result.digest,
            changed=before is None or result.digest not in ("", before[0].digest),
            dns_ms=dns,
            connect_ms=connect,
            tls_ms=tls,
            first_byte_ms=first_byte,
            certificate_until=check.certificate_until,
        )
        stored = replace(
            exchange,
            request_head=b"",
            response_head=b"",
            body=b"",
            rendered=b"",
            truncated="",
            error_text="" if result.verdict == UP else result.text,
            token=None,
        )
        self._hooks.store(stored, visit)
        self.last[identity.url] = visit, result.text
        # the clock may have been set back during the check
        return replace(result, at=min(result.at, self._clock.now_ms()))

    def _react(self, reaction: Reaction, now: int) -> None:
        self._notifier.add(reaction.events)
        for event in reaction.events:
            self._hooks.on_event(event)
        for url, delay_ms in reaction.rechecks.items():
            if url in self._running:
                self._rechecks[url] = min(delay_ms, self._rechecks.get(url, delay_ms))
            elif url in self.monitors and url not in self._busy:
                self._plan_earlier(url, now + delay_ms)

    def _plan_earlier(self, url: str, at: int) -> None:
        """Check a URL at this time at the latest; its interval continues from there."""
        if at < self._due[url]:
            self._plan(url, at)
