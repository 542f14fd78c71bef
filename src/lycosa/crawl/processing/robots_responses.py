"""Responses to requests for robots.txt: redirects, retries, and rules that become valid."""

from __future__ import annotations

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Visit, VisitKind
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.policy.host_delay import HostRest
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement
from lycosa.crawl.policy.robots_cache import MAX_HOPS
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.frontier.politeness.delay import backoff_ms


class RobotsProcessor:
    """Stores the rules of each origin and releases its host."""

    def __init__(self, crawl: CrawlState, discovery: Discovery, rest: HostRest) -> None:
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
            # else as if it redirected too often: nothing of an excluded host is requested
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
            # the fetch is booked on the host that answered
            if origin_id.host_key != task.identity.host_key:
                self._rest.heed(queue, crawl.robots.crawl_delay_ms(task.origin))
            crawl.buffer.batch.change_host(queue.row)
            crawl.frontier.release(origin_id.host_key)
            self._discovery.from_robots(task.origin, crawl.robots.sitemaps(task.origin))
