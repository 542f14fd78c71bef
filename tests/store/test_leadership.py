"""Leader election by epochs, and the exclusive owner of a workspace on one machine.

The successor of a dead leader waits, and a single crawl is refused while a cluster leads. The lock
of an owner ends with its process.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from lycosa.core.clock import SystemClock
from lycosa.core.errors import OwnedError
from lycosa.processes.platform import boot_id
from lycosa.store.coordination import owner
from lycosa.store.coordination.cluster_lock import ClusterLock, all_ended, lock_scope
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
from lycosa.store.coordination.owner import NOTE as OWNER_NOTE
from lycosa.store.coordination.owner import TOUCH_INTERVAL_MS, own
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.waiting import ManualClock, run_concurrently

TIMING = Timing(hold=1_500, reassign=3_000)


def candidate(workspace: Workspace, clock: ManualClock, cluster: str = "c") -> LeaderCandidate:
    return LeaderCandidate(workspace.storage, f"leader of {cluster}", cluster, TIMING, clock)


def become_leader(workspace: Workspace, clock: ManualClock, cluster: str = "c") -> Leadership:
    leadership = candidate(workspace, clock, cluster).try_to_lead()
    assert leadership is not None
    return leadership


def test_first_leader_does_not_wait(workspace: Workspace, clock: ManualClock) -> None:
    leadership = become_leader(workspace, clock)
    assert (leadership.epoch, leadership.holds, leadership.clean) == (1, True, True)
    assert leadership.assigns_from == leadership.answers_from == clock.monotonic_ms()


@pytest.mark.proves("cluster-coordinator")
def test_leadership_expires_before_the_leases_of_workers(
    workspace: Workspace, clock: ManualClock
) -> None:
    leadership = become_leader(workspace, clock)
    clock.advance(int(TIMING.hold * 0.8) - 1)
    assert leadership.holds
    clock.advance(1)
    assert not leadership.holds
    assert leadership.touch()  # no other leader meanwhile
    assert leadership.holds


@pytest.mark.proves("cluster-coordinator")
def test_another_cluster_waits_until_the_leader_note_is_stale(
    workspace: Workspace, clock: ManualClock
) -> None:
    first, other = become_leader(workspace, clock), candidate(workspace, clock, "other")
    for _ in range(20):
        clock.advance(500)
        first.touch()
        assert other.try_to_lead() is None
    assert other.rival is not None
    assert other.rival.cluster == "c"
    clock.advance(TIMING.reassign - 1)
    assert other.try_to_lead() is None
    clock.advance(1)
    second = other.try_to_lead()
    assert second is not None
    assert (second.epoch, second.clean) == (2, False)
    assert second.answers_from == clock.monotonic_ms() + TIMING.hold
    assert second.assigns_from == clock.monotonic_ms() + TIMING.reassign
    assert not first.touch()
    assert first.lost
    assert not first.holds


def test_restarted_leader_of_the_same_cluster_replies_only_after_the_hold_time(
    workspace: Workspace,
    clock: ManualClock,
) -> None:
    first = become_leader(workspace, clock)
    second = become_leader(workspace, clock)
    assert (second.epoch, second.answers_from - clock.monotonic_ms()) == (2, TIMING.hold)
    clock.advance(TIMING.reassign // 6)
    assert not first.touch()
    assert second.touch()


def test_next_leader_does_not_wait_after_a_clean_end(
    workspace: Workspace, clock: ManualClock
) -> None:
    become_leader(workspace, clock).end()
    assert leader_of(workspace.storage) is None
    second = become_leader(workspace, clock, "other")
    assert (second.epoch, second.clean) == (2, True)


def test_end_during_the_hold_of_a_former_leader_is_not_clean(
    workspace: Workspace,
    clock: ManualClock,
) -> None:
    become_leader(workspace, clock)
    become_leader(workspace, clock).end()
    assert leader_of(workspace.storage) is not None
    assert not become_leader(workspace, clock).clean


def test_late_note_of_an_old_leader_does_not_end_the_new_one(
    workspace: Workspace, clock: ManualClock
) -> None:
    become_leader(workspace, clock).end()
    note = workspace.storage.read(NOTE)
    assert note is not None
    second = become_leader(workspace, clock)
    workspace.storage.replace(NOTE, note)
    assert candidate(workspace, clock, "other").try_to_lead() is None
    clock.advance(TIMING.reassign // 6)
    assert second.touch()


@pytest.mark.proves("cluster-coordinator")
def test_only_one_of_many_candidates_wins_an_epoch(workspace: Workspace) -> None:
    leaderships = []

    def run(number: int) -> None:
        name = str(number)
        leadership = LeaderCandidate(
            workspace.storage, name, name, TIMING, SystemClock()
        ).try_to_lead()
        if leadership is not None:
            leaderships.append(leadership)

    run_concurrently(*(partial(run, number) for number in range(8)))
    assert [leadership.epoch for leadership in leaderships] == [1]


def test_old_epochs_are_deleted_and_the_newest_is_kept(
    workspace: Workspace, clock: ManualClock
) -> None:
    for epoch in range(1, RETAINED_EPOCHS + 5):
        assert become_leader(workspace, clock).epoch == epoch
    assert len(sorted(Path(workspace.path("run")).glob("leader-*.json"))) == RETAINED_EPOCHS
    assert newest_epoch(workspace.storage) == RETAINED_EPOCHS + 4


def test_candidate_that_paused_during_many_epochs_does_not_lead(
    workspace: Workspace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = candidate(workspace, clock)
    create = type(workspace.storage).create

    def create_late(storage: object, relative: str, content: bytes, **more: int) -> bool:
        monkeypatch.undo()
        for _ in range(RETAINED_EPOCHS + 3):
            become_leader(workspace, clock)
        assert workspace.storage.size(epoch_path(1)) is None
        return create(workspace.storage, relative, content, **more)

    monkeypatch.setattr(type(workspace.storage), "create", create_late)
    assert paused.try_to_lead() is None
    assert newest_epoch(workspace.storage) == RETAINED_EPOCHS + 3


@pytest.mark.proves("cluster-single-crawl")
def test_single_crawl_is_refused_during_a_cluster_crawl_and_starts_after_its_lease(
    workspace: Workspace,
) -> None:
    timing = Timing(hold=250, reassign=500)
    leadership = LeaderCandidate(workspace.storage, "leader", "c", timing).try_to_lead()
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
        with own(workspace.storage, "run"):
            pass
    finally:
        ending.set()
        toucher.join()
    messages: list[str] = []
    with workspace.own("crawl", report=messages.append):  # waits until `reassign` has passed
        assert leader_of(workspace.storage) is not None
    (message,) = messages
    assert message.startswith("waiting 500ms: the last cluster crawl did not end (leader on ")


def scoped_leader(workspace: Workspace, clock: ManualClock, cluster: str = "c") -> Leadership:
    """Return a leader whose cluster has the lock of this machine."""
    leadership = LeaderCandidate(
        workspace.storage,
        f"leader of {cluster}",
        cluster,
        TIMING,
        clock,
        scope=lock_scope(workspace.storage),
    ).try_to_lead()
    assert leadership is not None
    return leadership


HELD_CLUSTER_LOCK = """
import sys, time
from lycosa.store.coordination.cluster_lock import ClusterLock
from lycosa.store.storage.storage import open_storage
lock = ClusterLock(open_storage(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.proves("cluster-single-crawl")
def test_nothing_waits_for_a_leader_if_all_processes_of_its_cluster_have_ended(
    workspace: Workspace, clock: ManualClock
) -> None:
    scoped_leader(workspace, clock)
    with start_holder(workspace, HELD_CLUSTER_LOCK) as worker:
        waiting = threading.Thread(target=require_no_leader, args=(workspace.storage, clock))
        waiting.start()  # the time of its clock stands still
        waiting.join(0.5)
        assert waiting.is_alive()
        worker.kill()
    waiting.join(60)
    assert not waiting.is_alive()
    assert leader_of(workspace.storage) is None
    assert become_leader(workspace, clock, "other").clean


def test_a_leader_that_might_not_know_all_workers_is_waited_for(
    workspace: Workspace, clock: ManualClock
) -> None:
    become_leader(workspace, clock)
    second = scoped_leader(workspace, clock)  # workers of the first may be on other machines
    assert not second.clean
    for expected in ("", "", lock_scope(workspace.storage)):
        note = leader_of(workspace.storage)
        assert note is not None
        assert note.scope == expected
        clock.advance(TIMING.reassign // 2)
        second.touch()


def test_a_cluster_of_another_machine_or_without_the_lock_is_waited_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own(workspace.storage, "crawl"):
        ClusterLock(workspace.storage).release()
    assert all_ended(workspace.storage, lock_scope(workspace.storage))
    assert not all_ended(workspace.storage, "")
    assert not all_ended(workspace.storage, "another boot")
    monkeypatch.setattr(workspace.storage, "on_disk", False)
    assert not all_ended(workspace.storage, boot_id())


def test_lock_of_a_workspace_that_is_not_on_this_machine_creates_nothing(tmp_path: Path) -> None:
    ClusterLock(open_storage(str(tmp_path / "absent"))).release()
    assert not list(tmp_path.iterdir())


def test_no_wait_without_a_cluster(workspace: Workspace) -> None:
    require_no_leader(workspace.storage, ManualClock())


HOLDER = """
import sys, time
from lycosa.store.workspace import Workspace
owner = Workspace.open(sys.argv[1]).own("lycosa crawl http://x/")
print("held", flush=True)
time.sleep(60)
"""


def start_holder(workspace: Workspace, program: str = HOLDER) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", program, workspace.root], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.proves("cluster-single-crawl")
def test_second_owner_is_refused_with_the_process_id_of_the_first(workspace: Workspace) -> None:
    holder = start_holder(workspace)
    try:
        with pytest.raises(OwnedError) as refusal:
            workspace.own("lycosa run")
        for fact in (str(holder.pid), "lycosa crawl http://x/", f"kill {holder.pid}", "-w DIR"):
            assert fact in str(refusal.value)
        note = workspace.owner()
        assert note is not None
        assert (note.pid, note.command) == (holder.pid, "lycosa crawl http://x/")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    # The killed process left its note, but its lock is released.
    assert Path(workspace.path(OWNER_NOTE)).exists()
    assert workspace.owner() is None
    with workspace.own("lycosa run") as owner:
        assert owner.note.pid == os.getpid()
        current = workspace.owner()
        assert current is not None
        assert current.pid == os.getpid()
    assert workspace.owner() is None
    assert not Path(workspace.path(OWNER_NOTE)).exists()


def test_owner_note_is_private_and_has_address_and_token(workspace: Workspace) -> None:
    with workspace.own("lycosa run") as owner:
        owner.publish("http://127.0.0.1:8000", "secret")
        assert stat.S_IMODE(os.stat(workspace.path(OWNER_NOTE)).st_mode) == 0o600
        note = workspace.owner()
        assert note is not None
        assert (note.address, note.token) == ("http://127.0.0.1:8000", "secret")
        with pytest.raises(OwnedError, match=r"listens at http://127\.0\.0\.1:8000") as refusal:
            workspace.own("lycosa crawl")
        assert "secret" not in str(refusal.value)


def test_owner_note_is_rewritten_every_five_seconds(
    workspace: Workspace, clock: ManualClock
) -> None:
    path = Path(workspace.path(OWNER_NOTE))
    with workspace.own("lycosa run", clock) as owner:
        first = path.read_text()
        clock.advance(TOUCH_INTERVAL_MS - 1)
        owner.touch()
        assert path.read_text() == first
        clock.advance(1)
        owner.touch()
        second = json.loads(path.read_text())
        assert second["touched_at"] == "2023-11-14T22:13:25Z"
        assert {**second, "touched_at": ""} == {**json.loads(first), "touched_at": ""}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_damaged_owner_note_hides_only_the_details(workspace: Workspace, content: str) -> None:
    with workspace.own("lycosa run"):
        Path(workspace.path(OWNER_NOTE)).write_text(content)
        assert workspace.owner() is not None
        with pytest.raises(OwnedError, match="another process is crawling"):
            workspace.own("lycosa crawl")


def test_new_workspace_has_no_owner(workspace: Workspace) -> None:
    assert workspace.owner() is None


def test_second_release_does_not_free_the_lock_of_another_owner(workspace: Workspace) -> None:
    owner = workspace.own("a")
    owner.release()
    with workspace.own("b"):
        owner.release()
        with pytest.raises(OwnedError):
            workspace.own("c")


def write_remote_note(workspace: Workspace, touched_at: str) -> None:
    """Write the note of an owner on another machine, whose lock is not visible here."""
    note = {
        "pid": 7,
        "host": "elsewhere",
        "started_at": "2026-11-22T00:00:00Z",
        "command": "crawl",
        "touched_at": touched_at,
    }
    Path(workspace.path(OWNER_NOTE)).parent.mkdir(exist_ok=True)
    Path(workspace.path(OWNER_NOTE)).write_text(json.dumps(note))


def test_owner_on_another_machine_is_detected_by_its_note(workspace: Workspace) -> None:
    write_remote_note(workspace, "00:00:00")
    living = threading.Timer(0.5, write_remote_note, (workspace, "00:00:05"))
    living.start()
    try:
        with pytest.raises(OwnedError, match="process 7 on elsewhere has been crawling"):
            workspace.own("lycosa crawl http://x/")
    finally:
        living.join()
    assert json.loads(Path(workspace.path(OWNER_NOTE)).read_text())["host"] == "elsewhere"
    assert workspace.owner() is None  # on this machine


def test_owner_on_another_machine_without_sign_of_life_is_replaced(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "SILENT_MS", 500)
    write_remote_note(workspace, "00:00:00")
    with workspace.own("lycosa crawl http://x/") as owned:
        assert owned.note.pid == os.getpid()
