"""A simulated polite crawl by several workers, with the real coordinator.

Sites are trees of pages, and each site yields one page per second. A run takes seconds, so tests
can use many seeds. The model has what affects balance: pages of a site are fetched one after the
other, the size of a site is unknown until it is fetched, and reassigning partitions takes time. It
has no content, parsing or failures.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import Clock
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.coordination.leadership import LeaderCandidate, Leadership, Timing
from lycosa.store.log.claim import Claim
from lycosa.store.workspace import Workspace
from tests.waiting import ManualClock

SETTINGS = ClusterSettings()
_SITE_LINKS = 4  # sites linked from the first page of a site
_REMOTE_LINK_S = 3  # until the owner of a remote partition has read a link
_RELEASE_S = 2  # end of requests in flight, commit, release
_CLAIM_S = 2  # claim, loading of the state


@dataclass(slots=True)
class Site:
    """A tree of pages. Fetching a page discovers its children, breadth first."""

    size: int
    branching: int
    partition: int
    links: tuple[int, ...]
    discovered: int = 0
    fetched: int = 0

    @property
    def waiting(self) -> int:
        """Number of discovered pages that are not fetched."""
        return self.discovered - self.fetched

    def fetch(self) -> bool:
        """Fetch the next page, if any. Return whether it was the first."""
        if not self.waiting:
            return False
        self.fetched += 1
        self.discovered = max(self.discovered, min(self.fetched * self.branching + 1, self.size))
        return self.fetched == 1


def lead(
    workspace: Workspace,
    clock: Clock,
    plan: CoordinatorPlan,
    settings: ClusterSettings = SETTINGS,
) -> tuple[Leadership, Coordinator]:
    """Become the leader of a workspace. Return the leadership and a coordinator."""
    timing = Timing(settings.hold, settings.reassign)
    leadership = LeaderCandidate(
        workspace.storage, "leader", "cluster", timing, clock
    ).try_to_lead()
    assert leadership is not None
    leadership.touch()
    state = workspace.state()
    return leadership, Coordinator(state, workspace.partitions, settings, clock, leadership, plan)


def sites(seed: int, number: int, pages: int, partitions: int, exponent: float = 1.0) -> list[Site]:
    """Return sites of skewed sizes in random partitions."""
    chance = random.Random(seed)
    shares = [(rank + 1) ** -exponent for rank in range(number)]
    return [
        Site(
            max(1, round(pages * share / sum(shares))),
            chance.choice((2, 3, 5, 8)),
            chance.randrange(partitions),
            tuple(range(rank * _SITE_LINKS + 1, min(rank * _SITE_LINKS + 1 + _SITE_LINKS, number))),
        )
        for rank, share in enumerate(shares)
    ]


@dataclass
class Worker:
    """A worker that follows the assignments of the coordinator, with delays."""

    name: str
    crawl: Crawl
    claim: Claim | None = None
    pages: int = 0
    reassignments: int = 0
    ready_at: int = 0  # second at which a claim or release is complete
    releasing: bool = False

    def __post_init__(self) -> None:
        self.lease = Lease(self.crawl.clock, SETTINGS.hold)

    @property
    def holds(self) -> frozenset[int]:
        return self.claim.partitions if self.claim is not None else frozenset()

    def ping(self) -> bool:
        """Ping the coordinator. Return whether it wants the next ping soon."""
        sent, crawl = self.lease.sending(), self.crawl
        waiting = dict[int, int]()
        held = self.holds
        for site in crawl.sites:
            if site.partition in held and site.discovered:
                waiting[site.partition] = waiting.get(site.partition, 0) + site.waiting
        idle = (
            self.claim is not None
            and crawl.second >= self.ready_at
            and not any(waiting.values())
            and not crawl.pending_links
        )
        head = crawl.coordinator.head if idle else 0
        ping = Ping(
            self.name,
            "node",
            self.claim.entry if self.claim else 0,
            held,
            head,
            idle,
            waiting=waiting,
            fetched=self.pages,
            acknowledged=self.lease.acknowledged,
            ready=self.claim is not None,
        )
        answer = crawl.coordinator.ping(ping)
        self.lease.answered(sent, answer)
        return answer.soon

    def turn(self) -> None:
        """Simulate one second."""
        now, assigned = self.crawl.second, self.lease.assigned_partitions
        if now < self.ready_at:
            return
        if self.releasing:
            assert self.claim is not None
            self.claim.release()
            self.claim, self.releasing = None, False
            self.reassignments += 1
        if self.claim is None:
            if assigned:
                self.claim = self.crawl.workspace.claim(self.name, assigned, clock=self.crawl.clock)
                self.ready_at = now + _CLAIM_S
        elif assigned is not None and assigned != self.holds:
            self.releasing, self.ready_at = True, now + _RELEASE_S
        else:
            self._fetch()

    def _fetch(self) -> None:
        held = self.holds
        for site in self.crawl.sites:
            if site.fetched < site.discovered and site.partition in held:
                first = site.fetch()
                self.pages += 1
                if first:
                    self.crawl.follow_links(site, held)


@dataclass
class Crawl:
    """A simulated crawl. `all_known`: all pages are known at the start, as in a resumed crawl."""

    workspace: Workspace
    sites: list[Site]
    workers: int = 4
    all_known: bool = False
    second: int = 0
    # (second at which the link is read, site)
    pending_links: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.leadership, self.coordinator = lead(
            self.workspace, self.clock, CoordinatorPlan(expected=self.workers, ends=True)
        )
        self.members = [Worker(f"w{number + 1}", self) for number in range(self.workers)]
        for site in self.sites if self.all_known else ():
            site.discovered = site.size
        self.sites[0].discovered = max(self.sites[0].discovered, 1)

    def follow_links(self, site: Site, held: frozenset[int]) -> None:
        """Discover the sites linked from a first page; those in remote partitions later."""
        for number in site.links:
            at = self.second + (0 if self.sites[number].partition in held else _REMOTE_LINK_S)
            self.pending_links.append((at, number))

    def run(self, limit_s: int = 20_000) -> list[int]:
        """Simulate the crawl to its end. Return the pages of the workers, descending."""
        next_ping = 0
        while not self.coordinator.done:
            assert self.second < limit_s, "the crawl does not end"
            for at, number in [each for each in self.pending_links if each[0] <= self.second]:
                self.pending_links.remove((at, number))
                self.sites[number].discovered = max(self.sites[number].discovered, 1)
            for worker in self.members:
                worker.turn()
            if self.second >= next_ping:
                self.leadership.touch()
                self.coordinator.tick()
                soon = [worker.ping() for worker in self.members]
                next_ping = self.second + (1 if any(soon) else SETTINGS.ping_interval // 1000)
            self.second += 1
            self.clock.advance(1_000)
        return sorted((worker.pages for worker in self.members), reverse=True)

    @property
    def reassignments(self) -> int:
        """Number of releases by workers, except those at the end."""
        return sum(worker.reassignments for worker in self.members) - self.workers
