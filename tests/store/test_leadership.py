"""Leadership of a workspace: one at a time, by epochs; who comes after a dead leader waits, and a
plain crawl keeps out.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lycosa.core.clock import ManualClock, SystemClock
from lycosa.core.errors import OwnedError
from lycosa.store.coordination.leadership import (
    NOTE,
    RETAINED_EPOCHS,
    LeaderCandidate,
    Leadership,
    Timing,
    epoch_path,
    leader_of,
    newest_epoch,
    require_no_leader,
)
from lycosa.store.workspace import Workspace

TIMING = Timing(hold=1_500, reassign=3_000)


def candidate(workspace: Workspace, clock: ManualClock, cluster: str = "c") -> LeaderCandidate:
    return LeaderCandidate(workspace.storage, f"leader of {cluster}", cluster, TIMING, clock)


def lead(workspace: Workspace, clock: ManualClock, cluster: str = "c") -> Leadership:
    leadership = candidate(workspace, clock, cluster).look()
    assert leadership is not None
    return leadership


def test_the_first_leader_need_not_wait(workspace: Workspace) -> None:
    clock = ManualClock()
    leadership = lead(workspace, clock)
    assert (leadership.epoch, leadership.holds, leadership.clean) == (1, True, True)
    assert leadership.assigns_from == leadership.answers_from == clock.monotonic_ms()


def test_leading_runs_out_before_workers_leases_do(workspace: Workspace) -> None:
    clock = ManualClock()
    leadership = lead(workspace, clock)
    clock.advance(int(TIMING.hold * 0.8) - 1)
    assert leadership.holds
    clock.advance(1)
    assert not leadership.holds
    assert leadership.touch()  # nobody led meanwhile
    assert leadership.holds


def test_another_cluster_waits_until_the_note_stands_still(workspace: Workspace) -> None:
    clock = ManualClock()
    first, other = lead(workspace, clock), candidate(workspace, clock, "other")
    for _ in range(20):
        clock.advance(500)
        first.touch()
        assert other.look() is None
    assert other.rival is not None
    assert other.rival.cluster == "c"
    clock.advance(TIMING.reassign - 1)
    assert other.look() is None
    clock.advance(1)
    second = other.look()
    assert second is not None
    assert (second.epoch, second.clean) == (2, False)
    assert second.answers_from == clock.monotonic_ms() + TIMING.hold
    assert second.assigns_from == clock.monotonic_ms() + TIMING.reassign
    assert not first.touch()
    assert first.lost
    assert not first.holds


def test_a_later_life_of_the_same_cluster_takes_over_at_once_and_is_silent(
    workspace: Workspace,
) -> None:
    clock = ManualClock()
    first = lead(workspace, clock)
    second = lead(workspace, clock)
    assert second.epoch == 2
    assert second.answers_from - clock.monotonic_ms() == TIMING.hold
    clock.advance(TIMING.reassign // 6)
    assert not first.touch()
    assert second.touch()


def test_who_ended_leaves_nothing_to_wait_for(workspace: Workspace) -> None:
    clock = ManualClock()
    lead(workspace, clock).end()
    assert leader_of(workspace.storage) is None
    second = lead(workspace, clock, "other")
    assert (second.epoch, second.clean) == (2, True)


def test_who_ends_before_a_former_leaders_word_ran_out_hands_the_waiting_on(
    workspace: Workspace,
) -> None:
    clock = ManualClock()
    lead(workspace, clock)
    lead(workspace, clock).end()
    assert leader_of(workspace.storage) is not None
    assert not lead(workspace, clock).clean


def test_an_old_leaders_late_note_does_not_make_a_new_one_ended(workspace: Workspace) -> None:
    clock = ManualClock()
    first = lead(workspace, clock)
    first.end()
    note = workspace.storage.read(NOTE)
    assert note is not None
    second = lead(workspace, clock)
    workspace.storage.replace(NOTE, note)
    assert candidate(workspace, clock, "other").look() is None
    clock.advance(TIMING.reassign // 6)
    assert second.touch()


def test_of_many_only_one_wins_an_epoch(workspace: Workspace) -> None:
    start, won = threading.Barrier(8), []

    def run(number: int) -> None:
        each = LeaderCandidate(workspace.storage, str(number), str(number), TIMING, SystemClock())
        start.wait()
        leadership = each.look()
        if leadership is not None:
            won.append(leadership)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.epoch for each in won] == [1]


def test_old_epochs_go_and_the_highest_stays(workspace: Workspace) -> None:
    clock = ManualClock()
    for epoch in range(1, RETAINED_EPOCHS + 5):
        assert lead(workspace, clock).epoch == epoch
    left = sorted(Path(workspace.path("run")).glob("leader-*.json"))
    assert len(left) == RETAINED_EPOCHS
    assert newest_epoch(workspace.storage) == RETAINED_EPOCHS + 4


def test_who_slept_through_many_lives_leads_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    sleeper = candidate(workspace, clock)
    create = type(workspace.storage).create

    def asleep(storage: object, relative: str, content: bytes, **more: int) -> bool:
        monkeypatch.undo()
        for _ in range(RETAINED_EPOCHS + 3):
            lead(workspace, clock)
        assert workspace.storage.size(epoch_path(1)) is None
        return create(workspace.storage, relative, content, **more)

    monkeypatch.setattr(type(workspace.storage), "create", asleep)
    assert sleeper.look() is None
    assert newest_epoch(workspace.storage) == RETAINED_EPOCHS + 3


def test_a_plain_crawl_keeps_out_of_a_living_cluster_and_takes_over_a_dead_one(
    workspace: Workspace,
) -> None:
    timing = Timing(hold=250, reassign=500)
    leadership = LeaderCandidate(workspace.storage, "leader", "c", timing).look()
    assert leadership is not None
    ending = threading.Event()

    def touch() -> None:
        while not ending.wait(0.02):
            leadership.touch()

    toucher = threading.Thread(target=touch)
    toucher.start()
    try:
        with pytest.raises(OwnedError, match="a cluster crawl is running in"):
            workspace.own("crawl")
        with workspace.own("run", beside_leader=True):
            pass
    finally:
        ending.set()
        toucher.join()
    with workspace.own("crawl"):  # waits for half a second
        assert leader_of(workspace.storage) is not None


def test_without_a_cluster_nothing_is_waited_for(workspace: Workspace) -> None:
    require_no_leader(workspace.storage, ManualClock())
