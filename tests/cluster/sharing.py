"""A model of a polite crawl that several workers share: sites as trees, a page a second from each;
the coordinator is the real one.

Seconds of simulated days, so that many seeds can be looked at. What it leaves out: bytes, parsing,
failures; what it keeps is what decides about balance: a site's pages come one after the other, its
size shows only while it is fetched, and a hand-over costs time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import Clock, ManualClock
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.coordination.leadership import LeaderCandidate, Leadership, Timing
from lycosa.store.log.claim import Claim
from lycosa.store.workspace import Workspace

SETTINGS = ClusterSettings()
_SITE_FAN = 4  # sites that a site's first page leads to
_HAND_ON_S = 3  # until a link abroad is committed and read
_LET_GO_S = 2  # what is in flight, the commit, the release
_CLAIM_S = 2  # the claim, taking up


@dataclass(slots=True)
class Site:
    """A tree of pages. `waiting`: known and not fetched; children are found when their parent is
    fetched, breadth first.
    """

    size: int
    branching: int
    partition: int
    links: tuple[int, ...]
    discovered: int = 0
    fetched: int = 0

    @property
    def waiting(self) -> int:
        return self.discovered - self.fetched

    def fetch(self) -> bool:
        """Fetch the next page, if there is one. True if it was the first."""
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
    """Lead the workspace at once, whoever led it before."""
    timing = Timing(settings.hold, settings.reassign)
    leadership = LeaderCandidate(workspace.storage, "leader", "cluster", timing, clock).look()
    assert leadership is not None
    leadership.touch()
    state = workspace.state()
    return leadership, Coordinator(state, workspace.partitions, settings, clock, leadership, plan)


def sites(seed: int, number: int, pages: int, partitions: int, exponent: float = 1.0) -> list[Site]:
    """Sites of skewed size, each in a partition by lot."""
    draw = random.Random(seed)
    shares = [(rank + 1) ** -exponent for rank in range(number)]
    return [
        Site(
            max(1, round(pages * share / sum(shares))),
            draw.choice((2, 3, 5, 8)),
            draw.randrange(partitions),
            tuple(range(rank * _SITE_FAN + 1, min(rank * _SITE_FAN + 1 + _SITE_FAN, number))),
        )
        for rank, share in enumerate(shares)
    ]


@dataclass
class Worker:
    """One that does what it is told, within the seconds that this takes."""

    name: str
    crawl: Crawl
    claim: Claim | None = None
    pages: int = 0
    hand_overs: int = 0
    ready_at: int = 0  # s: it is busy letting go or taking up before
    letting_go: bool = False

    def __post_init__(self) -> None:
        self.lease = Lease(self.crawl.clock, SETTINGS.hold)

    @property
    def holds(self) -> frozenset[int]:
        return self.claim.partitions if self.claim is not None else frozenset()

    def ping(self) -> bool:
        """Whether more is to come soon."""
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
            and not crawl.under_way
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
        """One second."""
        now, assigned = self.crawl.second, self.lease.assigned_partitions
        if now < self.ready_at:
            return
        if self.letting_go:
            assert self.claim is not None
            self.claim.release()
            self.claim, self.letting_go = None, False
            self.hand_overs += 1
        if self.claim is None:
            if assigned:
                self.claim = self.crawl.workspace.claim(self.name, assigned, clock=self.crawl.clock)
                self.ready_at = now + _CLAIM_S
        elif assigned is not None and assigned != self.holds:
            self.letting_go, self.ready_at = True, now + _LET_GO_S
        else:
            self._fetch()

    def _fetch(self) -> None:
        held = self.holds
        for site in self.crawl.sites:
            if site.fetched < site.discovered and site.partition in held:
                first = site.fetch()
                self.pages += 1
                if first:
                    self.crawl.find(site, held)


@dataclass
class Crawl:
    """All of it. `all_known`: every page is from the start, as when a crawl is taken up again."""

    workspace: Workspace
    sites: list[Site]
    workers: int = 4
    all_known: bool = False
    second: int = 0
    # (second, site) of links that wait for their owner
    under_way: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.leadership, self.coordinator = lead(
            self.workspace, self.clock, CoordinatorPlan(expected=self.workers, ends=True)
        )
        self.members = [Worker(f"w{number + 1}", self) for number in range(self.workers)]
        for site in self.sites if self.all_known else ():
            site.discovered = site.size
        self.sites[0].discovered = max(self.sites[0].discovered, 1)

    def find(self, site: Site, held: frozenset[int]) -> None:
        """A first page was fetched: the sites that it leads to are found, at once or when their
        owner hears of them.
        """
        for number in site.links:
            at = self.second + (0 if self.sites[number].partition in held else _HAND_ON_S)
            self.under_way.append((at, number))

    def run(self, limit_s: int = 20_000) -> list[int]:
        """To the end; the pages of each worker, most first."""
        next_ping = 0
        while not self.coordinator.done:
            assert self.second < limit_s, "it does not end"
            for at, number in [each for each in self.under_way if each[0] <= self.second]:
                self.under_way.remove((at, number))
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
    def hand_overs(self) -> int:
        """How often a worker let go of what it held, but for the end."""
        return sum(worker.hand_overs for worker in self.members) - self.workers


def apart(pages: list[int]) -> float:
    """By how much of the mean the worker that is furthest from it differs."""
    mean = sum(pages) / len(pages)
    return max(abs(each - mean) for each in pages) / mean
