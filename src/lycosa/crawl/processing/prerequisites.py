"""Requests that precede the pages of a host, and processing of robots.txt.

They are for robots.txt, logins, and resources that a browser loads.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Visit, VisitKind
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.policy.host_delay import HostPauses
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement
from lycosa.crawl.policy.robots_cache import MAX_HOPS
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.clocks import BUSY
from lycosa.frontier.politeness.delay import backoff_ms

_AGAIN_MS = 10  # retry interval for a request that waits for the end of a fetch


class Prerequisites:
    """Starts the requests of `CrawlState.prerequisites`.

    It checks them only if one was added or may be due: a crawl may have thousands of hosts that do
    not respond. Times are monotonic milliseconds.
    """

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl
        self._at = 0  # earliest start of those that remained at the last check
        self._left = 0

    @property
    def next_time(self) -> int | None:
        """The earliest time at which a request may start; None if there are none."""
        waiting = len(self._crawl.prerequisites)
        if not waiting:
            return None
        return 0 if waiting > self._left else self._at

    def recheck(self) -> None:
        """Record that requests were added or removed outside the worker's loop."""
        self._at = 0

    def start(self, now: int, free_slots: int, begin: Callable[[Task], None]) -> int:
        """Start requests with hosts that are ready, at most `free_slots`.

        Returns the remaining slots.
        """
        waiting = self._crawl.prerequisites
        if free_slots <= 0 or (len(waiting) <= self._left and now < self._at):
            return free_slots
        frontier = self._crawl.frontier
        self._at = BUSY
        for _ in range(len(waiting)):
            task = waiting.popleft()
            # the host may have been parked since
            self._crawl.hosts.queue(task.identity)
            ready_at = frontier.ready_at(task.identity.host_key)
            if free_slots > 0 and ready_at <= now:
                frontier.start(task.identity.host_key, now)
                begin(task)
                free_slots -= 1
                continue
            waiting.append(task)
            # A request that waits for the end of a fetch of its host or domain has no time yet.
            self._at = min(self._at, now + _AGAIN_MS if ready_at == BUSY else ready_at)
        self._left = len(waiting)
        return free_slots


class RobotsProcessor:
    """Stores the rules of each origin and releases its host."""

    def __init__(self, crawl: CrawlState, discovery: Discovery, rest: HostPauses) -> None:
        self._crawl = crawl
        self._discovery = discovery
        self._rest = rest
        self._retries = crawl.config.fetch.retries
        self._clock = crawl.clock

    def process(self, exchange: Exchange, task: Task, visit: Visit, verdict: Judgement) -> None:
        """Act on the response to a request for robots.txt."""
        crawl = self._crawl
        origin_id = crawl.identifier.identify(f"{task.origin}/")
        if verdict.outcome is FetchOutcome.REDIRECT and task.hop < MAX_HOPS:
            target = crawl.identifier.identify(visit.redirect_to)
            # else treated as too many redirects: nothing is requested from an excluded host
            if not crawl.excluded(target.url):
                crawl.hosts.queue(target)
                crawl.prerequisites.append(
                    Task(target, (), task.origin, VisitKind.ROBOTS, 1, task.hop + 1)
                )
                return
        if verdict.outcome is FetchOutcome.RETRY and task.attempt <= self._retries:
            crawl.prerequisites.append(
                Task(task.identity, (), task.origin, VisitKind.ROBOTS, task.attempt + 1, task.hop)
            )
            wait = max(backoff_ms(crawl.config.fetch.retry_wait, task.attempt), verdict.wait_ms)
            now = self._clock.monotonic_ms()
            crawl.frontier.delay(task.identity.host_key, now, now + wait)
            return
        queue = crawl.frontier.hosts.get(origin_id.host_key)
        if exchange.error == FetchError.ADDRESS_REFUSED and task.hop == 0:
            crawl.refused_origins.add(task.origin)
            crawl.frontier.release(origin_id.host_key)
        elif queue is not None:
            entry = crawl.robots.received(task.origin, exchange)
            queue.row.replace_robots(entry)
            # the fetch is recorded at the host of the last redirect; the origin's host gets a pause
            if origin_id.host_key != task.identity.host_key:
                self._rest.rest(queue, crawl.robots.crawl_delay_ms(task.origin), lasting=True)
            crawl.buffer.batch.change_host(queue.row)
            crawl.frontier.release(origin_id.host_key)
            self._discovery.from_robots(task.origin, crawl.robots.sitemaps(task.origin))
