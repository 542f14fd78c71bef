"""Assignments of partitions and quotas by the coordinator, in simulated time with a real log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.cluster.placement import moves
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import ClusterSettings
from lycosa.crawl.membership import Lease, Ping, PingReply
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.workspace import Workspace
from tests.cluster.simulated_cluster import lead
from tests.waiting import ManualClock

SETTINGS = ClusterSettings.model_validate(
    {"ping_interval": "200ms", "hold": "1500ms", "reassign": "3s"}
)
PARTITIONS = 16


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=PARTITIONS)


@dataclass
class Worker:
    """A worker that follows the protocol of `lycosa.crawl.membership`."""

    name: str
    workspace: Workspace
    clock: ManualClock
    claim: Claim | None = None
    idle: bool = False
    seeds_failed: bool = False
    fetched: int = 0
    leaving: bool = False
    waiting: dict[int, int] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        self.lease = Lease(self.clock, SETTINGS.hold)

    @property
    def holds(self) -> frozenset[int]:
        return self.claim.partitions if self.claim is not None else frozenset()

    def ping(self, coordinator: Coordinator) -> PingReply:
        sent = self.lease.sending()
        head = self.workspace.state().head if self.claim is not None else 0
        ping = Ping(
            self.name,
            "node",
            self.claim.entry if self.claim else 0,
            self.holds,
            head,
            self.idle,
            waiting={p: n for p, n in self.waiting.items() if p in self.holds},
            acknowledged=self.lease.acknowledged,
            ready=self.claim is not None,
            leaving=self.leaving,
            fetched=self.fetched,
            seeds_failed=self.seeds_failed,
        )
        answer = coordinator.ping(ping)
        self.lease.answered(sent, answer)
        return answer

    def act(self) -> None:
        """Claim or release partitions as assigned by the last valid reply."""
        assigned = self.lease.assigned_partitions
        if assigned is None or assigned == self.holds:
            return
        if self.claim is not None:
            self.claim.release()
            self.claim = None
        elif assigned:
            self.claim = self.workspace.claim(self.name, assigned, clock=self.clock)
            self.claims += 1


class Cluster:
    """A coordinator and its workers in simulated time."""

    def __init__(self, workspace: Workspace, names: str, **options: object) -> None:
        self.workspace = workspace
        self.clock = ManualClock()
        self.options = options
        self.workers = {name: Worker(name, workspace, self.clock) for name in names}
        self.lead()

    def lead(self) -> None:
        options = {"expected": len(self.workers), **self.options}
        plan = CoordinatorPlan(**options)  # type: ignore[arg-type]
        self.leadership, self.coordinator = lead(self.workspace, self.clock, plan, SETTINGS)

    def advance(self, seconds: float, silent: str = "") -> None:
        """Advance the time. Every worker that is not `silent` pings five times per second."""
        for _ in range(round(seconds * 5)):
            self.clock.advance(200)
            self.leadership.touch()
            self.coordinator.tick()
            for worker in self.workers.values():
                if worker.name not in silent:
                    worker.ping(self.coordinator)
                    worker.act()
            held = [
                p
                for worker in self.workers.values()
                for p in worker.holds
                if worker.lease.holds and p in worker.lease.answer.partitions
            ]
            assert len(held) == len(set(held)), "two workers may fetch from one partition"

    def sizes(self) -> dict[str, int]:
        return {name: len(worker.holds) for name, worker in self.workers.items()}


def balanced_cluster(workspace: Workspace, names: str, **options: object) -> Cluster:
    """Return a cluster after two seconds, when its partitions are assigned."""
    cluster = Cluster(workspace, names, **options)
    cluster.advance(2)
    return cluster


def test_first_partitions_are_assigned_evenly_when_all_workers_have_joined(
    workspace: Workspace,
) -> None:
    cluster = balanced_cluster(workspace, "abcd")
    assert cluster.sizes() == dict.fromkeys("abcd", 4)
    assert all(worker.claims == 1 for worker in cluster.workers.values())


def test_workers_start_without_an_expected_worker_that_never_joins(workspace: Workspace) -> None:
    cluster = Cluster(workspace, "ab", expected=3)
    cluster.advance(9)
    assert cluster.sizes() == {"a": 0, "b": 0}
    cluster.advance(2)
    assert cluster.sizes() == {"a": 8, "b": 8}


def test_placement_is_not_computed_for_every_ping(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = balanced_cluster(workspace, "abcdefgh")
    placed: list[int] = []
    monkeypatch.setattr(Coordinator, "_place", lambda _, now: placed.append(now))
    cluster.advance(2)
    assert len(placed) == 10


def test_joining_worker_gets_partitions_of_the_others(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab")
    cluster.workers["c"] = Worker("c", workspace, cluster.clock)
    cluster.advance(3)
    assert sorted(cluster.sizes().values()) == [5, 5, 6]
    claims = [worker.claims for worker in cluster.workers.values()]
    cluster.advance(60)
    assert [worker.claims for worker in cluster.workers.values()] == claims


@pytest.mark.proves("cluster-reassign")
def test_partitions_of_a_silent_worker_are_reassigned_to_the_others(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "abc")
    before = cluster.workers["a"].holds
    cluster.advance(2.8, silent="a")
    claim = cluster.workers["a"].claim
    assert claim is not None
    assert cluster.workspace.state().holders[min(before)] == claim.entry
    cluster.advance(2, silent="a")
    assert len(cluster.workers["b"].holds) + len(cluster.workers["c"].holds) == PARTITIONS
    cluster.advance(4)
    assert sum(cluster.sizes().values()) == PARTITIONS
    assert all(4 <= size <= 7 for size in cluster.sizes().values())


@pytest.mark.proves("cluster-reassign", "cluster-coordinator")
@pytest.mark.parametrize(
    ("change", "waits_s", "then_s"),
    [
        pytest.param(
            lambda cluster: cluster.coordinator.worker_died("a"), 2.4, 2, id="reported as ended"
        ),
        pytest.param(Cluster.lead, 2.8, 1.5, id="a new coordinator"),
    ],
)
def test_partitions_of_a_silent_worker_wait_for_reassign(
    workspace: Workspace, change: Callable[[Cluster], object], waits_s: float, then_s: float
) -> None:
    cluster = balanced_cluster(workspace, "ab")
    change(cluster)
    cluster.advance(waits_s, silent="a")
    assert len(cluster.workers["b"].holds) == 8
    cluster.advance(then_s, silent="a")
    assert len(cluster.workers["b"].holds) == PARTITIONS


def test_partitions_of_a_worker_that_certainly_ended_are_reassigned_at_once(
    workspace: Workspace,
) -> None:
    cluster = balanced_cluster(workspace, "ab")
    del cluster.workers["a"]
    cluster.coordinator.worker_died("a", certain=True)
    cluster.advance(0.8)
    assert len(cluster.workers["b"].holds) == PARTITIONS


def test_leaving_worker_is_stopped_and_replaced_at_once(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab")
    cluster.workers["a"].leaving = True
    cluster.advance(1.4)
    assert cluster.workers["a"].lease.answer.stop
    assert cluster.sizes() == {"a": 0, "b": PARTITIONS}


@pytest.mark.proves("cluster-coordinator")
def test_new_coordinator_keeps_assignments_and_sends_no_replies_at_first(
    workspace: Workspace,
) -> None:
    cluster = balanced_cluster(workspace, "ab")
    held = {name: worker.holds for name, worker in cluster.workers.items()}
    cluster.lead()
    assert cluster.workers["a"].ping(cluster.coordinator).lost
    last_number = cluster.workers["a"].lease.acknowledged
    cluster.advance(1.2)
    assert cluster.workers["a"].lease.acknowledged == last_number
    cluster.advance(10)
    assert cluster.workers["a"].lease.acknowledged > last_number
    assert {name: worker.holds for name, worker in cluster.workers.items()} == held
    assert all(worker.claims == 1 for worker in cluster.workers.values())


def test_partitions_move_from_a_loaded_to_an_idle_worker(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab")
    a, b = cluster.workers["a"], cluster.workers["b"]
    a.waiting = dict.fromkeys(a.holds, 1_000)
    b.waiting = dict.fromkeys(b.holds, 0) | a.waiting
    b.idle = True
    cluster.advance(6)
    assert [sum(a.waiting.get(p, 0) for p in worker.holds) for worker in (a, b)] == [4_000, 4_000]


def test_crawl_ends_when_all_workers_are_idle_at_the_head_of_the_log(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab", ends=True)
    a, b = cluster.workers["a"], cluster.workers["b"]
    a.idle = True
    cluster.advance(3)
    assert cluster.coordinator.ended == ""
    b.idle = True
    cluster.advance(1)
    assert cluster.coordinator.ended == "finished"
    cluster.advance(1)
    assert cluster.coordinator.done
    assert cluster.sizes() == {"a": 0, "b": 0}


def test_crawl_whose_seeds_all_failed_ends_before_their_retries_only_without_pages(
    workspace: Workspace,
) -> None:
    cluster = balanced_cluster(workspace, "ab", ends=True)
    a, b = cluster.workers["a"], cluster.workers["b"]
    a.seeds_failed, b.idle, b.fetched = True, True, 1
    cluster.advance(3)
    assert cluster.coordinator.ended == ""
    b.fetched = 0
    cluster.lead()  # does not remember pages
    cluster.advance(10)
    assert cluster.coordinator.ended == "finished"


@pytest.mark.proves("cluster-quotas")
def test_page_quota_is_leased_in_shares_and_ends_the_crawl(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab", ends=True, budgets=[PageBudget("news", 100)])
    granted = [
        worker.lease.granted(worker.claim.entry)["news"]
        for worker in cluster.workers.values()
        if worker.claim
    ]
    assert (granted, cluster.coordinator.status()["granted"]) == ([50, 50], {"news": 100})
    a = cluster.workers["a"].claim
    assert a is not None
    a.commit(a.next_folder(), {}, CommitContents(counters={"pages.news": 50}))
    cluster.advance(2)
    b = cluster.workers["b"].claim
    assert b is not None
    b.commit(b.next_folder(), {}, CommitContents(counters={"pages.news": 50}))
    cluster.advance(1)
    assert cluster.coordinator.ended == "max_pages"


@pytest.mark.proves("cluster-quotas")
def test_quota_of_a_dead_worker_is_not_leased_before_its_partitions_are_claimed(
    workspace: Workspace,
) -> None:
    cluster = balanced_cluster(workspace, "abc", budgets=[PageBudget("news", 90)])
    a, b, c = (cluster.workers[name] for name in "abc")
    assert a.claim
    lost = a.claim.partitions
    cluster.advance(3.2, silent="a")  # until its partitions are assigned to the others
    before = {worker.name: worker.claim.entry for worker in (b, c) if worker.claim}
    granted = [worker.lease.granted(before[worker.name]).get("news", 0) for worker in (b, c)]
    assert sum(granted) <= 60
    cluster.advance(3, silent="a")  # until both have claimed them and are ready
    assert lost <= b.holds | c.holds
    granted = [
        worker.lease.granted(worker.claim.entry)["news"] for worker in (b, c) if worker.claim
    ]
    assert granted == [45, 45]


def test_quota_of_an_idle_worker_is_moved_to_workers_with_urls(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "ab", budgets=[PageBudget("news", 90)])
    cluster.workers["b"].idle = True
    cluster.advance(2)
    a = cluster.workers["a"]
    assert a.claim
    assert a.lease.granted(a.claim.entry) == {"news": 90}


def test_replies_have_the_number_of_workers_that_share_connections(workspace: Workspace) -> None:
    cluster = balanced_cluster(workspace, "abc")
    assert [worker.lease.answer.among for worker in cluster.workers.values()] == [3, 3, 3]
    cluster.workers["a"].idle = True
    cluster.advance(1)
    assert [worker.lease.answer.among for worker in cluster.workers.values()] == [3, 2, 2]


def test_last_partition_of_the_worker_with_most_fetched_pages_is_moved() -> None:
    loads = {"a": {1: 700.0}, "b": {2: 0.1}, "c": {3: 0.1}}
    # A worker that has fetched fewer pages keeps its partition.
    assert moves(loads, ("b", "c"), {"a": 300.0, "b": 900.0, "c": 800.0}) == {}
    assert moves(loads, ("b", "c"), {"a": 880.0, "b": 900.0, "c": 800.0}) == {}
    assert moves(loads, ("b", "c"), {"a": 950.0, "b": 900.0, "c": 800.0}) == {1: "c"}
    assert moves(loads, ("b", "c")) == {}
