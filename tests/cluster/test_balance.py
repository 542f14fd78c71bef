"""Balance of pages between workers, with the real coordinator and sessions in simulated time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace
from tests.cluster.balance import Balance, balance
from tests.cluster.simulated_cluster import SETTINGS, lead
from tests.crawl.worker_group import WorkerGroup, job
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

MAX_DEVIATION = 0.15
NAMES = ("w1", "w2", "w3", "w4")


class DefaultWorkerGroup(WorkerGroup):
    """A worker group on a workspace with the default number of partitions."""

    def workspace(self) -> Workspace:
        return Workspace.open_or_create(str(self.root), DEFAULT_PARTITIONS)


@dataclass
class CoordinatedCrawl:
    """Workers that follow the assignments of a coordinator as soon as they receive them."""

    group: DefaultWorkerGroup
    clock: SimulatedClock
    leases: dict[str, Lease] = field(default_factory=dict)
    reassignments: int = 0
    # pages of each worker under its earlier claims
    earlier_pages: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        workspace = self.group.workspace()
        plan = CoordinatorPlan(expected=len(NAMES), ends=True)
        self.leadership, self.coordinator = lead(workspace, self.clock, plan)
        self.leases = {name: Lease(self.clock, SETTINGS.hold) for name in NAMES}

    def run(self) -> None:
        """Run until the coordinator has ended the crawl and all workers have left."""
        next_ping = self.clock.monotonic_ms()
        while not (self.coordinator.done and not self.group.members):
            if self.group.members:
                self.group.turn()
            else:
                self.clock.advance(100)
            if self.clock.monotonic_ms() >= next_ping:
                next_ping = self.clock.monotonic_ms() + SETTINGS.ping_interval
                self.leadership.touch()
                self.coordinator.tick()
                for name in NAMES:
                    self._ping(name)
                    if self.leases[name].answer.soon:
                        next_ping = min(
                            next_ping, self.clock.monotonic_ms() + SETTINGS.ping_interval // 10
                        )

    def _ping(self, name: str) -> None:
        lease, session = self.leases[name], self.group.members.get(name)
        sent = lease.sending()
        claim, held, head, idle, waiting = 0, frozenset[int](), 0, False, dict[int, int]()
        fetched = self.earlier_pages[name] + (
            session.worker.progress.pages if session is not None else 0
        )
        if session is not None:
            claim, held, waiting = (
                session.claim.entry,
                session.claim.partitions,
                session.worker.idleness.waiting,
            )
            idle, head = session.worker.idleness.idle, session.worker.idleness.head
        ping = Ping(
            name,
            "node",
            claim,
            held,
            head,
            idle,
            waiting=waiting,
            acknowledged=lease.acknowledged,
            ready=bool(claim),
            fetched=fetched,
        )
        lease.answered(sent, self.coordinator.ping(ping))
        assigned = lease.assigned_partitions
        if assigned is None or assigned == held:
            return
        if session is not None:
            self.group.leave(name)
            self.earlier_pages[name] += session.worker.progress.pages
            self.reassignments += 1
        elif assigned:
            self.group.join(name, assigned)


def crawled(folder: Path, seed: int, pages: int, *, all_known: bool) -> Balance:
    """Crawl 164 sites in different domains; the largest has a sixth of all pages.

    `all_known`: all URLs are known at the start.
    """
    web = Web(WebPlan.calm(seed=seed, hosts=164, pages=pages, static=1.0))
    clock = SimulatedClock(web.plan.epoch_ms)
    group = DefaultWorkerGroup(
        folder,
        clock,
        job(web.real_pages() if all_known else web.seeds()),
        lambda name: SimulatedFetcher(web, clock),
    )
    crawl = CoordinatedCrawl(group, clock)
    crawl.run()
    result = balance(folder, len(NAMES))
    print(
        f"{result}; {crawl.reassignments} reassignments; "
        f"{(clock.now_ms() - web.plan.epoch_ms) / 1_000:,.0f} s"
    )
    assert sum(result.pages) >= pages
    return result


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("pages", "all_known"), [(2_000, True), (4_000, False)], ids=["known size", "unknown size"]
)
def test_pages_are_balanced_between_workers(
    tmp_path: Path, seed: int, pages: int, all_known: bool
) -> None:
    """Sizes are known in a recrawl or resumed crawl. In a first crawl they are discovered late."""
    result = crawled(tmp_path / "crawl", seed, pages, all_known=all_known)
    assert result.deviation <= max(MAX_DEVIATION, result.best_deviation + 0.05)
