"""Test the cluster protocol with random schedules in simulated time.

The schedules contain stalls, kills, late and lost replies, fail-overs, merges and vacuums of the
real store, coordinator, leadership and lease (`tests.crawl.protocol`). Checked after every step: at
most one worker may fetch from a partition, no quota is exceeded, no log entry is written twice.
When the coordinator reports the end of a crawl, no work is left. At the end of every schedule the
remaining processes continue: the crawl ends, and every page was committed exactly once.
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
from lycosa.store.compaction import vacuum
from lycosa.store.coordination.leadership import Leadership
from lycosa.store.log import log, snapshot, state, transaction
from lycosa.store.log.state import LogState
from tests.crawl import protocol
from tests.crawl.protocol import PAGES, CoordinatorProcess, Violation, WorkerProcess, World

_PATIENCE = 250  # turns within which the remaining processes must end the crawl
_SPEEDS = st.sampled_from([-2, 0, 2])  # clocks, in percent
_MAX_WORKERS, _MAX_COORDINATORS = 4, 3

picks = st.integers(0, 11)


class Protocol(RuleBasedStateMachine):
    """One random schedule."""

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

    # -- progress
    # ------------------------------------------------------------

    @rule(turns=st.integers(1, 12))
    def execute_turns(self, turns: int) -> None:
        for _ in range(turns):
            self.world.turn()

    @rule(milliseconds=st.sampled_from([100, 500, 1_600, 3_100]))
    def wait(self, milliseconds: int) -> None:
        self.world.now += milliseconds
        self.world.check()

    # -- messages
    # ------------------------------------------------------------

    @rule(sender=picks, receiver=picks)
    def send(self, sender: int, receiver: int) -> None:
        workers, coordinators = self.world.workers, self.world.coordinators
        if workers and coordinators:
            self.world.send(
                workers[sender % len(workers)], coordinators[receiver % len(coordinators)]
            )

    @precondition(lambda self: self.world.messages)
    @rule(which=picks)
    def deliver(self, which: int) -> None:
        self.world.deliver(self.world.messages[which % len(self.world.messages)])
        self.world.check()

    @precondition(lambda self: self.world.messages)
    @rule(which=picks)
    def lose_message(self, which: int) -> None:
        del self.world.messages[which % len(self.world.messages)]

    # -- processes
    # ------------------------------------------------------------

    @precondition(lambda self: self.world.workers)
    @rule(which=picks, turns=st.integers(1, 18), stalls=st.booleans())
    def lose_worker(self, which: int, turns: int, stalls: bool) -> None:
        """A worker stalls, or continues while its pings are lost."""
        worker = self.world.workers[which % len(self.world.workers)]
        worker.stalled, worker.cut_off = stalls, not stalls
        for _ in range(turns):
            self.world.turn()

    @precondition(lambda self: self.world.coordinators)
    @rule(which=picks, turns=st.integers(1, 18))
    def pause_leader(self, which: int, turns: int) -> None:
        """It replies to pings, but neither renews its lease nor reads the log."""
        self.world.coordinators[which % len(self.world.coordinators)].stalled = True
        for _ in range(turns):
            self.world.turn()

    @rule()
    def end_failures(self) -> None:
        for process in self.world.processes:
            process.stalled = process.cut_off = False

    @rule(which=picks, steps=st.integers(0, 6), stalls=st.booleans())
    def begin_turn(self, which: int, steps: int, stalls: bool) -> None:
        """A process stops in the middle of an iteration."""
        alive = [each for each in self.world.processes if each.alive]
        process = alive[which % len(alive)]
        if not process.busy:
            assert isinstance(process, CoordinatorProcess | WorkerProcess)
            process.begin(process.turn)
        for _ in range(steps):
            process.step()
        process.stalled = process.stalled or stalls
        self.world.check()

    @precondition(lambda self: len(self.world.workers) > 1)
    @rule(which=picks, reported=st.booleans(), certain=st.booleans())
    def kill_worker(self, which: int, reported: bool, certain: bool) -> None:
        worker = self.world.workers[which % len(self.world.workers)]
        worker.kill()
        for coordinator in self.world.coordinators:
            if reported and coordinator.coordinator is not None:
                coordinator.coordinator.worker_died(worker.name, certain)

    @precondition(lambda self: len(self.world.workers) < _MAX_WORKERS)
    @rule(speed=_SPEEDS)
    def start_worker(self, speed: int) -> None:
        WorkerProcess(self.world, f"worker-{len(self.world.processes)}", speed)

    @precondition(lambda self: self.world.coordinators)
    @rule(which=picks)
    def kill_coordinator(self, which: int) -> None:
        self.world.coordinators[which % len(self.world.coordinators)].kill()

    @precondition(lambda self: self.world.coordinators and self.world.workers)
    @rule(which=picks, turns=st.integers(1, 8), killed=st.booleans())
    def restart_coordinator(self, which: int, turns: int, killed: bool) -> None:
        """The coordinator is restarted while a worker stalls.

        The previous coordinator was killed or is only stalled.
        """
        self.world.workers[which % len(self.world.workers)].stalled = True
        for coordinator in self.world.coordinators:
            if killed:
                coordinator.kill()
            coordinator.stalled = True
        CoordinatorProcess(self.world, f"leader-{len(self.world.processes)}", "ours", 0)
        for _ in range(turns):
            self.world.turn()

    @precondition(lambda self: len(self.world.coordinators) < _MAX_COORDINATORS)
    @rule(ours=st.booleans(), speed=_SPEEDS)
    def start_coordinator(self, ours: bool, speed: int) -> None:
        """Start another coordinator, of this cluster or another one."""
        CoordinatorProcess(
            self.world, f"leader-{len(self.world.processes)}", "ours" if ours else "theirs", speed
        )

    # -- maintenance
    # ------------------------------------------------------------

    @rule()
    def merge(self) -> None:
        self.world.compact()

    @rule()
    def vacuum(self) -> None:
        self.world.vacuum()

    # -- the end
    # ------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        try:
            self._run_to_end(world)
            world.check_log()
        finally:
            world.close()
            shutil.rmtree(self._folder)

    def _run_to_end(self, world: World) -> None:
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
            raise Violation(f"the crawl did not end; {sorted(world.visited())} were visited")
        expected_pages = world.budget or PAGES
        if len(world.visited()) != expected_pages:
            raise Violation(
                f"the crawl ended with {len(world.visited())} pages, not {expected_pages}"
            )


@pytest.fixture
def frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a snapshot every eight entries, so that schedules contain some."""
    for module in (snapshot, log, transaction, state, vacuum):
        monkeypatch.setattr(module, "INTERVAL", 8)


def explore(
    machine: type[Protocol], schedules: int, steps: int, *, derandomize: bool = False
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
            derandomize=derandomize,
            print_blob=False,
        ),
    )


@pytest.mark.proves("cluster-one-worker", "cluster-fencing", "cluster-deaths")
@pytest.mark.usefixtures("frequent_snapshots")
@pytest.mark.parametrize(
    ("schedules", "steps"), [(15, 30), pytest.param(1_000, 50, marks=pytest.mark.prove)]
)
def test_random_schedules_keep_the_protocol_rules(schedules: int, steps: int) -> None:
    explore(Protocol, schedules, steps)


# -- broken rules of the protocol, to prove that the checks detect them
# ------------------------------------------------------------


def _fetches_without_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "holds", property(lambda self: self.acknowledged > 0))


def _leader_keeps_its_lease_forever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "holds", property(lambda self: self._until >= 0))


def _new_leader_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    begin = Leadership.__init__

    def init(self: Leadership, *positional: Any, **named: Any) -> None:
        begin(self, *positional, **named)
        self.answers_from = self.assigns_from = 0

    patch.setattr(Leadership, "__init__", init)


def _assigns_partitions_before_their_release(patch: pytest.MonkeyPatch) -> None:
    deliver = Coordinator._deliver

    def deliver_immediately(self: Coordinator, active: dict[str, MemberState], now: int) -> None:
        for member in self.members.values():
            member.exposed = {
                partition: number
                for partition, number in member.exposed.items()
                if partition in member.assigned
            }
        deliver(self, active, now)

    patch.setattr(Coordinator, "_deliver", deliver_immediately)


def _reassigns_before_the_lease_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "SETTINGS", protocol.SETTINGS.model_copy(update={"reassign": 1_000}))


def _forgets_leases_of_dead_workers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuotaLeases, "end", lambda self, claim: self._living.pop(claim, None))


def _new_coordinator_leases_immediately(patch: pytest.MonkeyPatch) -> None:
    begin = QuotaLeases.__init__

    def init(self: QuotaLeases, *positional: Any, **named: Any) -> None:
        begin(self, *positional, **named)
        self._unconfirmed = set()

    patch.setattr(QuotaLeases, "__init__", init)


def _ends_without_comparing_the_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Coordinator,
        "_all_idle",
        lambda self: bool(self.members) and all(each.ping.idle for each in self.members.values()),
    )


def _fenced_claims_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogState, "require", lambda self, claim: None)


def _applies_fewer_rows_than_reported(patch: pytest.MonkeyPatch) -> None:
    read = WorkerProcess.unapplied
    patch.setattr(
        WorkerProcess,
        "unapplied",
        lambda self, tables: read(self, tables)[1:] or [0][: bool(read(self, tables))],
    )


BREAKS = [
    _fetches_without_lease,
    _leader_keeps_its_lease_forever,
    _new_leader_does_not_wait,
    _reassigns_before_the_lease_ends,
    _ends_without_comparing_the_head,
    _applies_fewer_rows_than_reported,
    pytest.param(_fenced_claims_commit, marks=pytest.mark.prove),
    pytest.param(_forgets_leases_of_dead_workers, marks=pytest.mark.prove),
    pytest.param(_new_coordinator_leases_immediately, marks=pytest.mark.prove),
]


@pytest.mark.usefixtures("frequent_snapshots")
@pytest.mark.parametrize("broken", BREAKS)
def test_broken_rule_is_detected(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises((Violation, WorkspaceError)):
        explore(Protocol, 400, 40, derandomize=True)


@pytest.mark.parametrize("correct", [True, False])
def test_partition_is_assigned_only_after_its_previous_owner_released_it(
    correct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not correct:
        _assigns_partitions_before_their_release(monkeypatch)
    schedule = Protocol()
    schedule.begin(budget=0, workers=2, speeds=[0, 0, 0, 0])
    try:
        for owner in schedule.world.workers:
            owner.cut_off = True  # it continues, and does not receive the new assignment
        WorkerProcess(schedule.world, "joining", 0)
        if correct:
            schedule.execute_turns(turns=6)
        else:
            with pytest.raises(Violation, match=r"may (both )?fetch from"):
                schedule.execute_turns(turns=6)
    finally:
        schedule.world.close()
