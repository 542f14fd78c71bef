"""Every worker gets its share of the pages, as far as single sites allow: the real coordinator and
sessions, in simulated time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.crawl.membership import Lease, Ping
from lycosa.store.workspace import DEFAULT_PARTITIONS, Workspace
from tests.cluster.balance import Balance, balance
from tests.cluster.sharing import SETTINGS, lead
from tests.crawl.crew import Crew, job
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

BAR = 0.15
NAMES = ("w1", "w2", "w3", "w4")


class Workers(Crew):
    """A crew with as many partitions as workspaces usually have."""

    def workspace(self) -> Workspace:
        return Workspace.open_or_create(str(self.root), DEFAULT_PARTITIONS)


@dataclass
class Steered:
    """Workers that do what a coordinator tells them, each as soon as it hears of it."""

    crew: Workers
    clock: SimulatedClock
    leases: dict[str, Lease] = field(default_factory=dict)
    moves: int = 0
    # pages that a worker fetched under earlier claims
    former: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        workspace = self.crew.workspace()
        plan = CoordinatorPlan(expected=len(NAMES), ends=True)
        self.leadership, self.coordinator = lead(workspace, self.clock, plan)
        self.leases = {name: Lease(self.clock, SETTINGS.hold) for name in NAMES}

    def run(self) -> None:
        """Until the coordinator has ended the crawl and everybody has obeyed."""
        next_ping = self.clock.monotonic_ms()
        while not (self.coordinator.done and not self.crew.members):
            if self.crew.members:
                self.crew.turn()
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
        lease, session = self.leases[name], self.crew.members.get(name)
        sent = lease.sending()
        claim, held, head, idle, waiting = 0, frozenset[int](), 0, False, dict[int, int]()
        fetched = self.former[name] + (session.worker.progress.pages if session is not None else 0)
        if session is not None:
            claim, held, waiting = (
                session.claim.entry,
                session.claim.partitions,
                session.worker.waiting_by_partition(),
            )
            idle, head = session.worker.idle()
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
            self.crew.leave(name)
            self.former[name] += session.worker.progress.pages
            self.moves += 1
        elif assigned:
            self.crew.join(name, assigned)


def crawled(folder: Path, seed: int, pages: int, *, all_known: bool) -> Balance:
    """Crawl 164 sites, the largest with a sixth of all pages, each its own registrable domain.
    `all_known`: all URLs are from the start.
    """
    web = Web(WebPlan.calm(seed=seed, hosts=164, pages=pages, static=1.0))
    clock = SimulatedClock(web.plan.epoch_ms)
    crew = Workers(
        folder,
        clock,
        job(web.real_pages() if all_known else web.seeds()),
        lambda name: SimulatedFetcher(web, clock),
    )
    steered = Steered(crew, clock)
    steered.run()
    result = balance(folder, len(NAMES))
    print(
        f"{result}; {steered.moves} times a worker got other partitions; "
        f"{(clock.now_ms() - web.plan.epoch_ms) / 1_000:,.0f} s"
    )
    assert sum(result.pages) >= pages
    return result


@pytest.mark.prove
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("pages", "all_known"), [(2_000, True), (4_000, False)], ids=["known size", "unknown size"]
)
def test_every_worker_gets_its_share(
    tmp_path: Path, seed: int, pages: int, all_known: bool
) -> None:
    """Of known size: as when pages are fetched again, or a crawl goes on. In a first crawl sizes
    are found out while pages are fetched, and what one has fetched nobody can take over.
    """
    result = crawled(tmp_path / "crawl", seed, pages, all_known=all_known)
    assert result.apart <= max(BAR, result.best + 0.05)
