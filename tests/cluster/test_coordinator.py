"""The coordinator by itself: who is told to hold what, over simulated time and a real log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.cluster.placement import moves
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import ManualClock
from lycosa.crawl.membership import Lease, Ping, PingReply
from lycosa.store.log.claim import Claim
from lycosa.store.log.transaction import CommitContents
from lycosa.store.workspace import Workspace
from tests.cluster.sharing import lead

SETTINGS = ClusterSettings.model_validate(
    {"ping_interval": "200ms", "hold": "1500ms", "reassign": "3s"}
)
PARTITIONS = 16


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "w"), partitions=PARTITIONS)


@dataclass
class Worker:
    """A well-behaved worker, as `lycosa.crawl.membership` asks for."""

    name: str
    workspace: Workspace
    clock: ManualClock
    claim: Claim | None = None
    idle: bool = False
    leaving: bool = False
    waiting: dict[int, int] = field(default_factory=dict)
    claims: int = 0

    def __post_init__(self) -> None:
        self.lease = Lease(self.clock, SETTINGS.hold)

    @property
    def holds(self) -> frozenset[int]:
        return self.claim.partitions if self.claim is not None else frozenset()

    def ask(self, coordinator: Coordinator) -> PingReply:
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
        )
        answer = coordinator.ping(ping)
        self.lease.answered(sent, answer)
        return answer

    def act(self) -> None:
        """Do what the answer in force says."""
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
    """A coordinator and its workers, moved through time together."""

    def __init__(self, workspace: Workspace, names: str, **options: object) -> None:
        self.workspace = workspace
        self.clock = ManualClock()
        self.options = options
        self.workers = {name: Worker(name, workspace, self.clock) for name in names}
        self.lead()

    def lead(self) -> None:
        plan = CoordinatorPlan(**{"expected": len(self.workers), **self.options})  # type: ignore[arg-type]
        self.leadership, self.coordinator = lead(self.workspace, self.clock, plan, SETTINGS)

    def turn(self, seconds: float, silent: str = "") -> None:
        """Let time pass: everybody pings five times a second, but for the silent."""
        for _ in range(round(seconds * 5)):
            self.clock.advance(200)
            self.leadership.touch()
            self.coordinator.tick()
            for worker in self.workers.values():
                if worker.name not in silent:
                    worker.ask(self.coordinator)
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


def settled(workspace: Workspace, names: str, **options: object) -> Cluster:
    """A cluster after two seconds, when its partitions are dealt."""
    cluster = Cluster(workspace, names, **options)
    cluster.turn(2)
    return cluster


def test_first_partitions_are_dealt_evenly_once_all_are_there(workspace: Workspace) -> None:
    cluster = settled(workspace, "abcd")
    assert cluster.sizes() == dict.fromkeys("abcd", 4)
    assert all(worker.claims == 1 for worker in cluster.workers.values())


def test_those_who_are_there_begin_without_one_that_never_comes(workspace: Workspace) -> None:
    cluster = Cluster(workspace, "ab", expected=3)
    cluster.turn(9)
    assert cluster.sizes() == {"a": 0, "b": 0}
    cluster.turn(2)
    assert cluster.sizes() == {"a": 8, "b": 8}


def test_pings_do_not_each_repeat_the_placement(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = settled(workspace, "abcdefgh")
    placed: list[int] = []
    monkeypatch.setattr(Coordinator, "_place", lambda _, now: placed.append(now))
    cluster.turn(2)
    assert len(placed) == 10


def test_a_worker_that_joins_gets_its_share_from_the_others(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab")
    cluster.workers["c"] = Worker("c", workspace, cluster.clock)
    cluster.turn(3)
    assert sorted(cluster.sizes().values()) == [5, 5, 6]
    claims = [worker.claims for worker in cluster.workers.values()]
    cluster.turn(60)
    assert [worker.claims for worker in cluster.workers.values()] == claims


@pytest.mark.proves("cluster-reassign")
def test_a_silent_workers_partitions_go_to_the_others_after_reassign(workspace: Workspace) -> None:
    cluster = settled(workspace, "abc")
    before = cluster.workers["a"].holds
    cluster.turn(2.8, silent="a")
    assert cluster.workspace.state().holders[min(before)] == cluster.workers["a"].claim.entry  # type: ignore[union-attr]
    cluster.turn(2, silent="a")
    assert len(cluster.workers["b"].holds) + len(cluster.workers["c"].holds) == PARTITIONS
    cluster.turn(4)
    assert sum(cluster.sizes().values()) == PARTITIONS
    assert all(4 <= size <= 7 for size in cluster.sizes().values())


@pytest.mark.proves("cluster-reassign", "cluster-coordinator")
@pytest.mark.parametrize(
    ("change", "waits_s", "then_s"),
    [
        pytest.param(lambda cluster: cluster.coordinator.gone("a"), 2.4, 2, id="the engine knows"),
        pytest.param(Cluster.lead, 2.8, 1.5, id="a new coordinator"),
    ],
)
def test_partitions_of_a_silent_worker_wait_for_reassign(
    workspace: Workspace, change: Callable[[Cluster], object], waits_s: float, then_s: float
) -> None:
    cluster = settled(workspace, "ab")
    change(cluster)
    cluster.turn(waits_s, silent="a")
    assert len(cluster.workers["b"].holds) == 8
    cluster.turn(then_s, silent="a")
    assert len(cluster.workers["b"].holds) == PARTITIONS


def test_a_dead_workers_partitions_go_to_others_at_once_if_that_is_certain(
    workspace: Workspace,
) -> None:
    cluster = settled(workspace, "ab")
    del cluster.workers["a"]
    cluster.coordinator.gone("a", certain=True)
    cluster.turn(0.8)
    assert len(cluster.workers["b"].holds) == PARTITIONS


def test_who_leaves_is_told_to_stop_and_is_followed_at_once(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab")
    cluster.workers["a"].leaving = True
    cluster.turn(1.4)
    assert cluster.workers["a"].lease.answer.stop
    assert cluster.sizes() == {"a": 0, "b": PARTITIONS}


@pytest.mark.proves("cluster-coordinator")
def test_a_new_coordinator_moves_nothing_and_says_nothing_at_first(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab")
    held = {name: worker.holds for name, worker in cluster.workers.items()}
    cluster.lead()
    assert cluster.workers["a"].ask(cluster.coordinator).lost
    last_number = cluster.workers["a"].lease.acknowledged
    cluster.turn(1.2)
    assert cluster.workers["a"].lease.acknowledged == last_number
    cluster.turn(10)
    assert cluster.workers["a"].lease.acknowledged > last_number
    assert {name: worker.holds for name, worker in cluster.workers.items()} == held
    assert all(worker.claims == 1 for worker in cluster.workers.values())


def test_work_goes_from_the_loaded_to_the_idle(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab")
    a, b = cluster.workers["a"], cluster.workers["b"]
    a.waiting = dict.fromkeys(a.holds, 1_000) | dict.fromkeys(a.holds, 1000)
    b.waiting = dict.fromkeys(b.holds, 0) | a.waiting
    b.idle = True
    cluster.turn(6)
    load: Mapping[int, int] = a.waiting
    assert [sum(load.get(p, 0) for p in worker.holds) for worker in (a, b)] == [4_000, 4_000]


def test_a_crawl_ends_when_all_are_idle_at_the_logs_head(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab", ends=True)
    a, b = cluster.workers["a"], cluster.workers["b"]
    a.idle = True
    cluster.turn(3)
    assert ended(cluster) == ""
    b.idle = True
    cluster.turn(1)
    assert ended(cluster) == "finished"
    cluster.turn(1)
    assert cluster.coordinator.done
    assert cluster.sizes() == {"a": 0, "b": 0}


@pytest.mark.proves("cluster-quotas")
def test_a_budget_is_granted_in_shares_and_ends_the_crawl(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab", ends=True, budgets=[PageBudget("news", 100)])
    granted = [
        worker.lease.granted(worker.claim.entry)["news"]
        for worker in cluster.workers.values()
        if worker.claim
    ]
    assert (granted, cluster.coordinator.status()["granted"]) == ([50, 50], {"news": 100})
    a = cluster.workers["a"].claim
    assert a is not None
    a.commit(a.next_folder(), {}, CommitContents(counters={"pages.news": 50}))
    cluster.turn(2)
    b = cluster.workers["b"].claim
    assert b is not None
    b.commit(b.next_folder(), {}, CommitContents(counters={"pages.news": 50}))
    cluster.turn(1)
    assert ended(cluster) == "max_pages"


@pytest.mark.proves("cluster-quotas")
def test_what_the_dead_might_have_archived_is_not_granted_again_until_it_is_taken_up(
    workspace: Workspace,
) -> None:
    cluster = settled(workspace, "abc", budgets=[PageBudget("news", 90)])
    a, b, c = (cluster.workers[name] for name in "abc")
    assert a.claim
    died = a.claim.partitions
    cluster.turn(3.2, silent="a")  # its partitions are given to the others
    before = {worker.name: worker.claim.entry for worker in (b, c) if worker.claim}
    granted = [worker.lease.granted(before[worker.name]).get("news", 0) for worker in (b, c)]
    assert sum(granted) <= 60
    cluster.turn(3, silent="a")  # both hold them now, and say that they are ready
    assert died <= b.holds | c.holds
    granted = [
        worker.lease.granted(worker.claim.entry)["news"] for worker in (b, c) if worker.claim
    ]
    assert granted == [45, 45]


def test_an_idle_workers_grant_goes_to_those_with_work(workspace: Workspace) -> None:
    cluster = settled(workspace, "ab", budgets=[PageBudget("news", 90)])
    cluster.workers["b"].idle = True
    cluster.turn(2)
    a = cluster.workers["a"]
    assert a.claim
    assert a.lease.granted(a.claim.entry) == {"news": 90}


def ended(cluster: Cluster) -> str:
    return cluster.coordinator.ended


def test_workers_are_told_among_how_many_they_share_connections(workspace: Workspace) -> None:
    cluster = settled(workspace, "abc")
    assert [worker.lease.answer.among for worker in cluster.workers.values()] == [3, 3, 3]
    cluster.workers["a"].idle = True
    cluster.turn(1)
    assert [worker.lease.answer.among for worker in cluster.workers.values()] == [3, 2, 2]


def test_who_has_done_most_gives_even_its_last_partition_away() -> None:
    loads = {"a": {1: 700.0}, "b": {2: 0.1}, "c": {3: 0.1}}
    # it has to catch up
    assert moves(loads, ("b", "c"), {"a": 300.0, "b": 900.0, "c": 800.0}) == {}
    assert moves(loads, ("b", "c"), {"a": 880.0, "b": 900.0, "c": 800.0}) == {}
    assert moves(loads, ("b", "c"), {"a": 950.0, "b": 900.0, "c": 800.0}) == {1: "c"}
    assert moves(loads, ("b", "c")) == {}
