"""The protocol of the cluster against random schedules: sleeps, kills, late and lost answers,
take-overs, merges and sweeps.

The real store, coordinator, leadership and lease, in simulated time (`tests.crawl.protocol`). After
every step: no two workers may fetch from one partition, no budget is exceeded, no entry is written
twice. When a crawl is said to have ended, nothing is left to do. At the end of every schedule all
that still lives is let go on: the crawl ends, with every page there once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lycosa.cluster.coordinator import Coordinator
from lycosa.cluster.member_state import MemberState
from lycosa.cluster.quota_leases import QuotaLeases
from lycosa.core.errors import WorkspaceError
from lycosa.crawl.membership import Lease
from lycosa.store.compaction import vacuum as sweep
from lycosa.store.coordination.leadership import Leadership
from lycosa.store.log import log, snapshot, state, transaction
from lycosa.store.log.state import LogState
from tests.crawl import protocol
from tests.crawl.protocol import PAGES, CoordinatorProcess, Violation, WorkerProcess, World

_PATIENCE = 250  # turns in which everything that still lives comes to its end
_SPEEDS = st.sampled_from([-2, 0, 2])  # clocks, in percent
_MAX_WORKERS, _MAX_COORDINATORS = 4, 3

picks = st.integers(0, 11)


class Protocol(RuleBasedStateMachine):
    """One schedule."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.world: World

    @initialize(
        budget=st.sampled_from([0, 8, 16]),
        workers=st.integers(2, 3),
        speeds=st.lists(_SPEEDS, min_size=4, max_size=4),
    )
    def begin(self, budget: int, workers: int, speeds: list[int]) -> None:
        self.world = World(f"{self._folder}/w", budget=budget, expected=workers)
        CoordinatorProcess(self.world, "leader-0", "ours", speeds[3])
        for number in range(workers):
            WorkerProcess(self.world, f"worker-{number}", speeds[number])
        for _ in range(4):
            self.world.turn()

    # -- things go their way
    # ------------------------------------------------------------

    @rule(turns=st.integers(1, 12))
    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            self.world.turn()

    @rule(milliseconds=st.sampled_from([100, 500, 1_600, 3_100]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.now += milliseconds
        self.world.check()

    # -- messages
    # ------------------------------------------------------------

    @rule(who=picks, whom=picks)
    def send(self, who: int, whom: int) -> None:
        workers, coordinators = self.world.workers, self.world.coordinators
        if workers and coordinators:
            self.world.send(workers[who % len(workers)], coordinators[whom % len(coordinators)])

    @precondition(lambda self: self.world.messages)
    @rule(which=picks)
    def deliver(self, which: int) -> None:
        self.world.deliver(self.world.messages[which % len(self.world.messages)])
        self.world.check()

    @precondition(lambda self: self.world.messages)
    @rule(which=picks)
    def lose(self, which: int) -> None:
        del self.world.messages[which % len(self.world.messages)]

    # -- processes
    # ------------------------------------------------------------

    @precondition(lambda self: self.world.workers)
    @rule(which=picks, turns=st.integers(1, 18), sleeps=st.booleans())
    def lose_touch(self, which: int, turns: int, sleeps: bool) -> None:
        """A worker sleeps, or works on while nothing that it says is heard."""
        worker = self.world.workers[which % len(self.world.workers)]
        worker.stalled, worker.cut_off = sleeps, not sleeps
        for _ in range(turns):
            self.world.turn()

    @precondition(lambda self: self.world.coordinators)
    @rule(which=picks, turns=st.integers(1, 18))
    def leader_sleeps(self, which: int, turns: int) -> None:
        """It answers pings all the same, but does not touch the lease, nor read the log."""
        self.world.coordinators[which % len(self.world.coordinators)].stalled = True
        for _ in range(turns):
            self.world.turn()

    @rule()
    def all_is_well(self) -> None:
        for process in self.world.processes:
            process.stalled = process.cut_off = False

    @rule(which=picks, steps=st.integers(0, 6), sleeps=st.booleans())
    def go_a_little_way(self, which: int, steps: int, sleeps: bool) -> None:
        """A process begins its round and stops in the middle of it."""
        living = [each for each in self.world.processes if each.alive]
        process = living[which % len(living)]
        if not process.busy:
            assert isinstance(process, CoordinatorProcess | WorkerProcess)
            process.begin(process.work if isinstance(process, CoordinatorProcess) else process.turn)
        for _ in range(steps):
            process.step()
        process.stalled = process.stalled or sleeps
        self.world.check()

    @precondition(lambda self: len(self.world.workers) > 1)
    @rule(which=picks, known=st.booleans(), certain=st.booleans())
    def kill_a_worker(self, which: int, known: bool, certain: bool) -> None:
        worker = self.world.workers[which % len(self.world.workers)]
        worker.kill()
        for coordinator in self.world.coordinators:
            if known and coordinator.coordinator is not None:
                coordinator.coordinator.gone(worker.name, certain)

    @precondition(lambda self: len(self.world.workers) < _MAX_WORKERS)
    @rule(speed=_SPEEDS)
    def start_a_worker(self, speed: int) -> None:
        WorkerProcess(self.world, f"worker-{len(self.world.processes)}", speed)

    @precondition(lambda self: self.world.coordinators)
    @rule(which=picks)
    def kill_a_coordinator(self, which: int) -> None:
        self.world.coordinators[which % len(self.world.coordinators)].kill()

    @precondition(lambda self: self.world.coordinators and self.world.workers)
    @rule(which=picks, turns=st.integers(1, 8), dead=st.booleans())
    def take_over(self, which: int, turns: int, dead: bool) -> None:
        """The engine starts the coordinator anew while a worker is cut off; the former life may be
        dead or only thought to be.
        """
        self.world.workers[which % len(self.world.workers)].stalled = True
        for coordinator in self.world.coordinators:
            if dead:
                coordinator.kill()
            coordinator.stalled = True
        CoordinatorProcess(self.world, f"leader-{len(self.world.processes)}", "ours", 0)
        for _ in range(turns):
            self.world.turn()

    @precondition(lambda self: len(self.world.coordinators) < _MAX_COORDINATORS)
    @rule(ours=st.booleans(), speed=_SPEEDS)
    def start_a_coordinator(self, ours: bool, speed: int) -> None:
        """Whether or not the former one is dead."""
        CoordinatorProcess(
            self.world, f"leader-{len(self.world.processes)}", "ours" if ours else "theirs", speed
        )

    # -- upkeep
    # ------------------------------------------------------------

    @rule()
    def merge(self) -> None:
        self.world.compact()

    @rule()
    def sweep(self) -> None:
        self.world.vacuum()

    # -- the end
    # ------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        try:
            self._come_to_an_end(world)
            world.check_log()
        finally:
            world.close()
            shutil.rmtree(self._folder)

    def _come_to_an_end(self, world: World) -> None:
        world.messages.clear()
        for process in world.processes:
            process.stalled = process.cut_off = False
        for _ in range(_PATIENCE):
            world.turn()
            if any(
                each.coordinator is not None
                and each.coordinator.done
                and each.leadership
                and each.leadership.holds
                for each in world.coordinators
            ):
                break
            if not any(
                each.leadership is None or not each.leadership.lost for each in world.coordinators
            ):
                CoordinatorProcess(world, f"leader-{len(world.processes)}", "ours", 0)
            if all(worker.ended for worker in world.workers):
                WorkerProcess(world, f"worker-{len(world.processes)}", 0)
        else:
            raise Violation(f"the crawl came to no end; {sorted(world.visited())} were visited")
        expected_pages = world.budget or PAGES
        if len(world.visited()) != expected_pages:
            raise Violation(
                f"the crawl ended with {len(world.visited())} pages, not {expected_pages}"
            )


@pytest.fixture
def short_hundreds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots come every eighth entry, so that schedules see some."""
    for module in (snapshot, log, transaction, state, sweep):
        monkeypatch.setattr(module, "INTERVAL", 8)


def explore(
    machine: type[Protocol], schedules: int, steps: int, *, always_the_same: bool = False
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=schedules,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            database=None,
            derandomize=always_the_same,
            print_blob=False,
        ),
    )


@pytest.mark.proves("cluster-one-worker", "cluster-fencing", "cluster-deaths")
@pytest.mark.usefixtures("short_hundreds")
@pytest.mark.parametrize(
    ("schedules", "steps"), [(15, 30), pytest.param(1_000, 50, marks=pytest.mark.prove)]
)
def test_the_protocol_holds_under_random_schedules(schedules: int, steps: int) -> None:
    explore(Protocol, schedules, steps)


# -- the checks can fail: one rule after the other is broken, and schedules are found in which that
# does harm ----------------------


def _fetches_without_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "holds", property(lambda self: self.acknowledged > 0))


def _leader_never_falls_silent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "holds", property(lambda self: self._until >= 0))


def _new_leader_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    begin = Leadership.__init__

    def init(self: Leadership, *positional: Any, **named: Any) -> None:
        begin(self, *positional, **named)
        self.answers_from = self.assigns_from = 0

    patch.setattr(Leadership, "__init__", init)


def _gives_away_what_may_be_held(patch: pytest.MonkeyPatch) -> None:
    deliver = Coordinator._deliver

    def at_once(self: Coordinator, active: dict[str, MemberState], now: int) -> None:
        for member in self.members.values():
            member.exposed = {
                partition: number
                for partition, number in member.exposed.items()
                if partition in member.assigned
            }
        deliver(self, active, now)

    patch.setattr(Coordinator, "_deliver", at_once)


def _reassigns_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "SETTINGS", protocol.SETTINGS.model_copy(update={"reassign": 1_000}))


def _forgets_grants_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuotaLeases, "end", lambda self, claim: self._living.pop(claim, None))


def _new_coordinator_grants_at_once(patch: pytest.MonkeyPatch) -> None:
    begin = QuotaLeases.__init__

    def init(self: QuotaLeases, *positional: Any, **named: Any) -> None:
        begin(self, *positional, **named)
        self._unconfirmed = set()

    patch.setattr(QuotaLeases, "__init__", init)


def _ends_without_looking_at_the_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Coordinator,
        "_all_idle",
        lambda self: bool(self.members) and all(each.ping.idle for each in self.members.values()),
    )


def _outranked_claims_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogState, "require", lambda self, claim: None)


def _applies_less_than_it_says(patch: pytest.MonkeyPatch) -> None:
    read = WorkerProcess.unapplied
    patch.setattr(
        WorkerProcess,
        "unapplied",
        lambda self, tables: read(self, tables)[1:] or [0][: bool(read(self, tables))],
    )


BREAKS = [
    _fetches_without_lease,
    _leader_never_falls_silent,
    _new_leader_does_not_wait,
    _reassigns_too_early,
    _ends_without_looking_at_the_head,
    _applies_less_than_it_says,
    pytest.param(_outranked_claims_commit, marks=pytest.mark.prove),
    pytest.param(_forgets_grants_of_the_dead, marks=pytest.mark.prove),
    pytest.param(_new_coordinator_grants_at_once, marks=pytest.mark.prove),
]


@pytest.mark.usefixtures("short_hundreds")
@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_rule_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises((Violation, WorkspaceError)):
        explore(Protocol, 400, 40, always_the_same=True)


@pytest.mark.parametrize("careful", [True, False])
def test_a_partition_that_moves_is_told_to_the_taker_when_the_giver_has_let_it_go(
    careful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not careful:
        _gives_away_what_may_be_held(monkeypatch)
    schedule = Protocol()
    schedule.begin(budget=0, workers=2, speeds=[0, 0, 0, 0])
    try:
        for giver in schedule.world.workers:
            giver.cut_off = True  # it works on, and does not hear that it is to give something away
        WorkerProcess(schedule.world, "taker", 0)
        if careful:
            schedule.go_on(turns=6)
        else:
            with pytest.raises(Violation, match=r"may (both )?fetch from"):
                schedule.go_on(turns=6)
    finally:
        schedule.world.close()
