"""How long a host is left alone after an exchange, by all that asks for a pause."""

from __future__ import annotations

from lycosa.core.records import Exchange
from lycosa.crawl.policy.outcome import Judgement
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.delay import (
    Reason,
    domain_pause_ms,
    domain_rest_ms,
    failures_after,
    pause_ms,
    reasons,
    transfer_ms,
    usual_ms,
)
from lycosa.frontier.politeness.latency import slow_down
from lycosa.frontier.scheduler.queue import HostQueue

# pauses that are the operator's alone
_OWN = frozenset((Reason.DELAY, Reason.COURTESY, Reason.MAX_DELAY))


class HostRest:
    """Writes pauses into the rows of hosts and the clocks of the frontier."""

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl
        self._clock = crawl.clock

    def book(self, task: Task, exchange: Exchange, verdict: Judgement, server: str) -> None:
        """Book the fetch on its host and set how long the host is left alone."""
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
        for name in {*queue.heads, *(row.collection for row in task.rows)} or crawl.assignments:
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
                # a host that several collections crawl is treated as the strictest of them wants
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
            may_burst=all(name in _OWN for name, _ in delays),
        )
        rest = domain_rest_ms(exchange.status, delays)
        if rest:
            clocks = crawl.frontier.clocks
            clocks.delay_domain(host.registrable_domain, now, now + rest)
            # Another host of it may have asked for a longer rest, which this row replaces in the
            # tables.
            crawl.buffer.batch.change_domain(
                host,
                self._clock.now_ms() + clocks.domain_rests_until(host.registrable_domain) - now,
            )

    def rest(self, queue: HostQueue, pause: int) -> None:
        """Leave the host alone for that long, once."""
        host = queue.row
        host.defer_until(self._clock.now_ms() + pause)
        now = self._clock.monotonic_ms()
        self._crawl.frontier.delay(host.host_key, now, now + pause)

    def heed(self, queue: HostQueue, pause: int) -> None:
        """The host's robots.txt, which another host answered, asks for a pause: it holds from the
        redirect on that led there.
        """
        host = queue.row
        host.defer_until(self._clock.now_ms() + pause, delay_ms=pause)
        now = self._clock.monotonic_ms()
        self._crawl.frontier.delay(host.host_key, now, now + pause)
