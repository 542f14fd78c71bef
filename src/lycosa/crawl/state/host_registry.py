"""The hosts of a crawl: rows, queues, robots.txt."""

from __future__ import annotations

from lycosa.core.clock import Clock
from lycosa.core.records import HostRow, UrlId, UrlRow, VisitKind
from lycosa.crawl.admission.url_filter import HostTraps
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.state.commit_buffer import CommitBuffer
from lycosa.crawl.state.task import Task
from lycosa.fetch.robots_txt import robots_url
from lycosa.frontier.recrawl.change_rate import ClaimTrust
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.frontier.scheduler.scheduler import Scheduler
from lycosa.url.keys import Identifier


class HostRegistry:
    """Activates hosts, and keeps what is known of each. Changed rows go into the buffer."""

    def __init__(
        self,
        buffer: CommitBuffer,
        scheduler: Scheduler,
        robots: RobotsCache,
        traps: HostTraps,
        identifier: Identifier,
        clock: Clock,
    ) -> None:
        self._buffer = buffer
        self._frontier = scheduler.frontier
        self._scheduler = scheduler
        self._robots = robots
        self._traps = traps
        self._identifier = identifier
        self._clock = clock

    def queue(self, identity: UrlId) -> HostQueue:
        """The host of a URL, made active; a host that was not known is known from now on."""
        queue = self._frontier.hosts.get(identity.host_key) or self._scheduler.open(
            identity.host_key
        )
        return queue or self._scheduler.parked.new_host(self.add(identity))

    def add(self, identity: UrlId) -> HostRow:
        """Make the row of a host that was not known."""
        domain = self._identifier.domains.registrable(identity.host)
        row = HostRow(
            identity.host, identity.partition, identity.host_key, domain, self._clock.now_ms()
        )
        self._buffer.batch.change_host(row)
        return row

    def has_current_robots(self, origin: str, host_key: int, now_ms: int) -> bool:
        return self._robots.load_current(self.row(host_key).robots, origin, now_ms)

    def row(self, host_key: int) -> HostRow:
        """Return the row of an active host."""
        return self._frontier.hosts[host_key].row

    def crawl_delay_ms(self, origin: str, host: HostRow) -> int:
        """What the origin's robots.txt asks for. It stands in the host's row when it is not at
        hand: after a resume, or pushed out.
        """
        if not self._robots.holds(origin):
            for entry in host.robots:
                if entry.origin == origin:
                    self._robots.load(entry)
        return self._robots.crawl_delay_ms(origin)

    def robots_task(self, origin: str) -> Task:
        return Task(self._identifier.identify(robots_url(origin)), (), origin, VisitKind.ROBOTS)

    def count_trap(self, row: UrlRow, rule: str) -> None:
        """Count a URL that was put off because a trap rule suspects it."""
        host = self.queue(row.id).row
        self._traps.count(host, rule)
        self._buffer.batch.change_host(host)


def claim_trust(host: HostRow) -> ClaimTrust:
    """Return how often the host's sitemaps and feeds proved right."""
    return ClaimTrust(host.claims_right, host.claims_wrong, host.claims_missed)
