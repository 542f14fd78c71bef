"""Checks of availability beside a crawl: how the worker drives whoever makes them, and their place
among the host's fetches.

They are no rows of `urls` as sitemaps and feeds are (decision 6): a row waits in its host's queue,
for that host's back-off too, and refills look ten minutes ahead, while a check is due at its own
second and above all when the host is down. What holds for both are the clocks: a check waits for
the usual pause of its host and takes one itself.
"""

from __future__ import annotations

from typing import Protocol

from lycosa.core.records import UrlId
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.frontier.politeness.domain_clock import BUSY

LOOK_AGAIN_MS = 100
"""So soon is looked again at a host that is busy."""


class AvailabilityChecks(Protocol):
    """Who makes checks. Called by the worker's own thread."""

    def turn(self, now: int, *, may_start: bool) -> None:
        """Take in what was found, and start what is due if anything may be fetched now (monotonic
        ms). Called at every turn of the loop, five times a second at least; must not wait.
        """
        ...


class CheckPace:
    """When a check may ask a host, and its booking on the clocks of the crawl.

    Neither holds the other up for more than a pause: if the host is busy with one slow answer for
    that long, a check is made beside it; and after a check of a host where the crawl has something
    to ask, the crawl comes first.
    """

    def __init__(self, crawl: CrawlState) -> None:
        self._crawl = crawl

    def pause_ms(self, identity: UrlId, least_ms: int) -> int:
        """How long after a check the next one of the host waits: at least `least_ms`, and what the
        crawl waits there.
        """
        queue = self._crawl.frontier.hosts.get(identity.host_key)
        if queue is None:
            return least_ms
        pause = max(least_ms, self._crawls_pause_ms(identity, least_ms))
        return 2 * pause if queue.size else pause

    def ready_at(self, identity: UrlId, now: int, waited_ms: int, pause_ms: int) -> int:
        """When a check that is due since `waited_ms` may be made, or when to ask again; at most
        `now`: it may be made now.
        """
        at = self._crawl.frontier.clocks.check_at(identity.host_key, self._domain(identity))
        if at <= now or waited_ms >= pause_ms:
            return now
        return min(now + LOOK_AGAIN_MS if at == BUSY else at, now + pause_ms - waited_ms)

    def start(self, identity: UrlId, now: int) -> bool:
        """Book a check on its host; what is returned is for `finish`."""
        return self._crawl.frontier.start_unqueued(identity.host_key, self._domain(identity), now)

    def finish(self, identity: UrlId, now: int, least_ms: int, *, queued: bool) -> None:
        """A check that was booked has ended: the crawl waits as after a fetch of its own, where it
        does not know the host `least_ms`.
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
