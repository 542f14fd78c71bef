"""Pauses of hosts: after an exchange, and between availability checks and the crawl's fetches."""

from __future__ import annotations

from typing import Protocol

from lycosa.core.records import Exchange, UrlId
from lycosa.crawl.policy.outcome import Judgement
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.clocks import BUSY
from lycosa.frontier.politeness.delay import (
    Reason,
    domain_pause_ms,
    domain_wide_pause_ms,
    failures_after,
    pause_ms,
    reasons,
    transfer_ms,
    usual_ms,
)
from lycosa.frontier.politeness.latency import slow_down
from lycosa.frontier.scheduler.queue import HostQueue

# pauses that only the operator's settings determine
_OWN = frozenset((Reason.DELAY, Reason.COURTESY, Reason.MAX_DELAY))


class HostPauses:
    """Writes pauses into the rows of hosts and the clocks of the frontier."""

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl
        self._clock = crawl.clock

    def book(self, task: Task, exchange: Exchange, verdict: Judgement, server: str) -> None:
        """Record a fetch in the row of its host, and set the pause of the host."""
        crawl = self._crawl
        queue = crawl.frontier.hosts[task.identity.host_key]
        host = queue.row
        host.record_visit(exchange, server, failures_after(host.fails, verdict.host_failed))
        spent_ms = transfer_ms(
            exchange.duration_ms,
            exchange.connect_ms,
            sent=bool(exchange.request_head or exchange.response_head),
        )
        if exchange.response_head:
            queue.observe_latency(max(exchange.first_byte_ms - exchange.connect_ms, 0))
        delays: list[tuple[str, int]] = []
        crawl_delay_ms = crawl.hosts.crawl_delay_ms(task.origin, host)
        slower = slow_down(queue.latency) if queue.latency else 1.0
        names = queue.heads.keys() | {row.collection for row in task.rows}
        for name in names or crawl.assignments:
            delay_reasons = reasons(
                crawl.assignments[name].pace,
                duration_ms=spent_ms,
                crawl_delay_ms=crawl_delay_ms,
                retry_after_ms=verdict.wait_ms,
                failures=host.fails,
                slow_down=slower,
                host_key=host.host_key,
            )
            if delay_reasons and (not delays or delay_reasons[0][1] > delays[0][1]):
                # a host of several collections has the longest of their pauses
                delays = delay_reasons
        pause = pause_ms(delays)
        now = self._clock.monotonic_ms()
        until = exchange.started_at + exchange.duration_ms + pause
        host.set_pause(usual_ms(delays), until)
        crawl.buffer.batch.change_host(host)
        crawl.frontier.finished(
            task.identity.host_key,
            now,
            pause,
            domain_pause=domain_pause_ms(delays),
            may_burst=_OWN.issuperset([name for name, _ in delays]),
        )
        rest = domain_wide_pause_ms(exchange.status, delays)
        if rest:
            clocks = crawl.frontier.clocks
            clocks.delay_domain(host.registrable_domain, now, now + rest)
            # Another host of the domain may have set a longer pause, which this row replaces.
            crawl.buffer.batch.change_domain(
                host,
                self._clock.now_ms() + clocks.domain_paused_until(host.registrable_domain) - now,
            )

    def rest(self, queue: HostQueue, pause: int, *, lasting: bool = False) -> None:
        """Pause the host for `pause` ms: once, or if `lasting` after each fetch."""
        host = queue.row
        host.defer_until(self._clock.now_ms() + pause, delay_ms=pause if lasting else 0)
        now = self._clock.monotonic_ms()
        self._crawl.frontier.delay(host.host_key, now, now + pause)


LOOK_AGAIN_MS = 100
"""Retry interval for a host that is busy."""


class AvailabilityChecks(Protocol):
    """Interface of availability checks. Called by the worker's own thread."""

    def turn(self, now: int, *, may_start: bool) -> None:
        """Process results, and start due checks if `may_start`.

        Called in every iteration of the loop, at least five times a second; must not block. `now`:
        monotonic ms; `may_start`: whether the worker may fetch at all.
        """
        ...


class CheckPace:
    """Decides when a check may request a host, and reserves the host.

    Check and crawl delay each other for at most one pause: if the host is busy with a slow response
    for that long, the check is made concurrently; after a check of a host with due URLs, the crawl
    has priority.
    """

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl

    def pause_ms(self, identity: UrlId, least_ms: int) -> int:
        """Return the pause of the host after a check.

        At least `least_ms`, and at least the pause of the crawl; twice that if URLs of the host are
        queued.
        """
        queue = self._crawl.frontier.hosts.get(identity.host_key)
        if queue is None:
            return least_ms
        pause = max(least_ms, self._crawls_pause_ms(identity, least_ms))
        return 2 * pause if queue.size else pause

    def ready_at(self, identity: UrlId, now: int, waited_ms: int, pause_ms: int) -> int:
        """Return when a check may be made, or when to call this again.

        `waited_ms`: time since the check was due. A result of `now`: it may be made now.
        """
        at = self._crawl.frontier.clocks.check_at(identity.host_key, self._domain(identity))
        if at <= now or waited_ms >= pause_ms:
            return now
        return min(now + LOOK_AGAIN_MS if at == BUSY else at, now + pause_ms - waited_ms)

    def start(self, identity: UrlId, now: int) -> bool:
        """Reserve the host for a check.

        The result is the argument `queued` of `finish`.
        """
        return self._crawl.frontier.start_unqueued(identity.host_key, self._domain(identity), now)

    def finish(self, identity: UrlId, now: int, least_ms: int, *, queued: bool) -> None:
        """Record the end of a reserved check.

        The crawl waits as after its own fetch; for an unknown host, `least_ms`.
        """
        pause = self._crawls_pause_ms(identity, least_ms)
        self._crawl.frontier.finish_unqueued(
            identity.host_key, self._domain(identity), now, pause, queued=queued
        )

    def _crawls_pause_ms(self, identity: UrlId, least_ms: int) -> int:
        queue = self._crawl.frontier.hosts.get(identity.host_key)
        if queue is None:
            return least_ms
        assignments = self._crawl.assignments
        return max(
            [
                queue.row.delay_ms,
                *(assignments[name].pace.delay_ms for name in queue.heads if name in assignments),
            ]
        )

    def _domain(self, identity: UrlId) -> str:
        return self._crawl.domains.registrable(identity.host)
