"""Makes checks when they are due, in step with the crawl, and acts on them: archive first, then
judge, then tell.

A check waits for the pause of its host (`Pace`), and for the other checks of that host; for nothing
else. Intervals hold from due time to due time, so a monitor keeps its second of the minute.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from lycosa.config.monitor import Monitor
from lycosa.core.clock import Clock, ClockStep
from lycosa.core.errors import FetchError
from lycosa.core.records import CHECKS, Exchange, UrlId, Visit, VisitKind
from lycosa.crawl.state.task import Task
from lycosa.crawl.state.visit_rows import build_visit
from lycosa.fetch.check import Check
from lycosa.http.decode import parse_head
from lycosa.uptime.notifications import Desk
from lycosa.uptime.outages import Event, Found, Heard, Watchman
from lycosa.uptime.verdict import UP, judge_check

MAX_AT_ONCE = 256
"""Checks under way: a thousand monitors that answer nothing for ten seconds need 170."""

_FIRST_SPREAD_MS = 20  # the first checks begin so much after one another
_AT_ONCE_A_HOST = 8  # where no pause is wanted
_TICK_MS = 1_000


class Runner(Protocol):
    """Makes checks (`lycosa.fetch.check.CheckRunner`)."""

    def start(self, check: Check) -> None: ...

    def take(self) -> list[Check]: ...

    def close(self) -> None: ...


class Pace(Protocol):
    """When hosts may be asked (`lycosa.crawl.policy.availability_checks.CheckPace`)."""

    def pause_ms(self, identity: UrlId, least_ms: int) -> int: ...

    def ready_at(self, identity: UrlId, now: int, waited_ms: int, pause_ms: int) -> int: ...

    def start(self, identity: UrlId, now: int) -> bool: ...

    def finish(self, identity: UrlId, now: int, least_ms: int, *, queued: bool) -> None: ...


@dataclass(slots=True)
class Watched:
    """One monitor and its last check. Times of the monotonic clock in ms, but for
    `last.fetched_at`.
    """

    monitor: Monitor
    identity: UrlId
    due: int
    number: int = 0  # of its one valid entry in the heap
    busy: bool = False  # it waits for its host, or is under way
    under_way: bool = False
    again_ms: int | None = None  # asked for while it was under way
    last: Visit | None = None
    text: str = ""


@dataclass(slots=True)
class _Line:
    """The checks of one host that are due."""

    waiting: deque[Watched] = field(default_factory=deque)
    under_way: int = 0
    free_at: int = 0  # the pause after the last check is over
    listed: bool = False


@dataclass(slots=True)
class _Flying:
    watched: Watched
    queued: bool


class Checker:
    """Makes the checks of one process (it is the worker's `Checks`). Not for several threads at
    once.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        pace: Pace,
        keep: Callable[[Exchange, Visit], None],
        identify: Callable[[str], UrlId],
        watchman: Watchman,
        desk: Desk,
        clock: Clock,
        excluded: Callable[[str], bool] = lambda url: False,
        say: Callable[[Event], None] = lambda event: None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`keep` makes a check durable; `say` is told of every event; `tick` is called once a
        second.
        """
        self._runner, self._pace, self._keep, self._identify = runner, pace, keep, identify
        self._watchman, self._desk, self._clock = watchman, desk, clock
        self._excluded, self._say, self._tick = excluded, say, tick
        self._heap: list[tuple[int, int, str]] = []
        self._numbers = count(1)
        self._lines: dict[int, _Line] = {}
        self._ready: list[tuple[int, int]] = []  # heap of (time, host_key)
        self._under_way = 0
        self._next_tick = 0
        self._clock_step = ClockStep(clock)
        self.watched: dict[str, Watched] = {}

    def watch(self, monitors: Iterable[Monitor]) -> None:
        """These are the monitors from now on, with normalised URLs. New ones are checked at
        once.
        """
        now = self._clock.monotonic_ms()
        wanted = {monitor.url: monitor for monitor in monitors}
        for url in self.watched.keys() - wanted.keys():
            del self.watched[url]
        new = [monitor for url, monitor in wanted.items() if url not in self.watched]
        for url, monitor in wanted.items():
            if url in self.watched:
                self.watched[url].monitor = monitor
        for place, monitor in enumerate(new):
            watched = self.watched[monitor.url] = Watched(monitor, self._identify(monitor.url), 0)
            self._plan(watched, now + place * _FIRST_SPREAD_MS)
        self._watchman.watch(wanted)
        self._desk.watch(wanted)

    def turn(self, now: int, *, may_start: bool) -> None:
        """See `lycosa.crawl.policy.availability_checks.Checks`."""
        back_ms = self._clock_step.back_ms()
        if back_ms:
            self._watchman.set_back(back_ms)
            self._desk.set_back(back_ms)
        for check in self._runner.take():
            self._finish(check, now)
        if now >= self._next_tick:
            self._next_tick = now + _TICK_MS
            self._follow(self._watchman.tick(self._clock.now_ms()), now)
            self._desk.tick(self._clock.now_ms())
            self._tick()
        while self._heap and self._heap[0][0] <= now:
            _, number, url = heapq.heappop(self._heap)
            watched = self.watched.get(url)
            if watched is not None and watched.number == number and not watched.busy:
                self._line_up(watched, now)
        while (
            may_start and self._ready and self._ready[0][0] <= now and self._under_way < MAX_AT_ONCE
        ):
            _, host_key = heapq.heappop(self._ready)
            self._serve(host_key, now)

    def next_at(self) -> int | None:
        """When there is something to start at the earliest (for simulated time)."""
        times = [heap[0][0] for heap in (self._heap, self._ready) if heap]
        return min([*times, self._next_tick], default=None)

    def close(self) -> None:
        """Drop what is under way."""
        self._runner.close()

    # -- when
    # ------------------------------------------------------------

    def _plan(self, watched: Watched, at: int) -> None:
        watched.due, watched.number = at, next(self._numbers)
        heapq.heappush(self._heap, (at, watched.number, watched.identity.url))

    def _line_up(self, watched: Watched, now: int) -> None:
        watched.busy = True
        line = self._lines.setdefault(watched.identity.host_key, _Line())
        line.waiting.append(watched)
        self._list(watched.identity.host_key, line, max(now, line.free_at))

    def _list(self, host_key: int, line: _Line, at: int) -> None:
        if not line.listed:
            line.listed = True
            heapq.heappush(self._ready, (at, host_key))

    def _serve(self, host_key: int, now: int) -> None:
        """Start the host's next check if it may be asked, else see again when it may."""
        line = self._lines[host_key]
        line.listed = False
        while (
            line.waiting and self.watched.get(line.waiting[0].identity.url) is not line.waiting[0]
        ):
            line.waiting.popleft()  # it is no longer watched
        if not line.waiting:
            return
        watched = line.waiting[0]
        pause = self._pace.pause_ms(watched.identity, watched.monitor.pause)
        if line.under_way >= (1 if pause else _AT_ONCE_A_HOST):
            return  # its end will call again
        since = max(watched.due, line.free_at)
        at = max(
            line.free_at, self._pace.ready_at(watched.identity, now, max(0, now - since), pause)
        )
        if at > now:
            self._list(host_key, line, at)
            return
        line.waiting.popleft()
        if self._excluded(watched.identity.url):
            watched.busy = False
            self._plan(watched, now + watched.monitor.every)
        else:
            line.under_way += 1
            self._under_way += 1
            watched.under_way = True
            flying = _Flying(watched, self._pace.start(watched.identity, now))
            self._runner.start(Check(watched.identity.url, watched.monitor.timeout_ms, flying))
        if line.waiting:
            self._list(host_key, line, now)

    # -- what
    # ------------------------------------------------------------

    def _finish(self, check: Check, now: int) -> None:
        flying = check.token
        assert isinstance(flying, _Flying)
        watched, identity = flying.watched, flying.watched.identity
        pause = self._pace.pause_ms(identity, watched.monitor.pause)
        self._pace.finish(identity, now, watched.monitor.pause, queued=flying.queued)
        line = self._lines[identity.host_key]
        line.under_way -= 1
        line.free_at = now + pause
        self._under_way -= 1
        if line.waiting:
            self._list(identity.host_key, line, line.free_at)
        watched.busy = watched.under_way = False
        if (
            self.watched.get(identity.url) is not watched
            or check.exchange.error == FetchError.INTERRUPTED
        ):
            return
        every = watched.monitor.every
        self._plan(watched, watched.due + every * max(1, -(-(now - watched.due) // every)))
        if watched.again_ms is not None:
            self._look(watched, now + watched.again_ms)
            watched.again_ms = None
        found = self._record(watched, check)
        self._follow(self._watchman.hear(found, self._clock.now_ms()), now)
        self._desk.see(found, self._clock.now_ms())

    def _record(self, watched: Watched, check: Check) -> Found:
        exchange = check.exchange
        verdict = judge_check(watched.monitor, exchange)
        visit = build_visit(
            exchange,
            parse_head(exchange.response_head),
            Task(watched.identity, (), "", VisitKind.CHECK),
            CHECKS,
        )
        visit.kind, visit.verdict, visit.digest = VisitKind.CHECK, verdict.verdict, verdict.digest
        visit.changed = watched.last is None or (
            verdict.digest != "" and verdict.digest != watched.last.digest
        )
        visit.dns_ms, visit.connect_ms, visit.tls_ms, visit.first_byte_ms = (
            None if value is None else round(value, 3)
            for value in (check.dns_ms, check.connect_ms, check.tls_ms, check.first_byte_ms)
        )
        visit.certificate_until = check.certificate_until
        text = "" if verdict.verdict == UP else verdict.text
        bare = replace(
            exchange,
            request_head=b"",
            response_head=b"",
            body=b"",
            rendered=b"",
            truncated="",
            error_text=text,
            token=None,
        )
        self._keep(bare, visit)
        watched.last, watched.text = visit, verdict.text
        address = exchange.ip if exchange.status else ""
        at = min(visit.fetched_at, self._clock.now_ms())  # it was set back while the check ran
        return Found(visit.url, at, verdict.verdict, verdict.text, address, check.certificate_until)

    def _follow(self, heard: Heard, now: int) -> None:
        self._desk.take(heard.events, self._clock.now_ms())
        for event in heard.events:
            self._say(event)
        for url, wait_ms in heard.soon.items():
            watched = self.watched.get(url)
            if watched is None:
                continue
            if watched.under_way:
                watched.again_ms = (
                    wait_ms if watched.again_ms is None else min(wait_ms, watched.again_ms)
                )
            elif not watched.busy:
                self._look(watched, now + wait_ms)

    def _look(self, watched: Watched, at: int) -> None:
        """Check it at this time at the latest; then its interval goes on from there."""
        if at < watched.due:
            self._plan(watched, at)
