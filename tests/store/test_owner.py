"""One owner a machine: the lock dies with its process, the note says who it is."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lycosa.core.clock import ManualClock
from lycosa.core.errors import OwnedError
from lycosa.store.coordination import owner
from lycosa.store.coordination.owner import NOTE, TOUCH_INTERVAL_MS
from lycosa.store.workspace import Workspace

HOLDER = """
import sys, time
from lycosa.store.workspace import Workspace
owner = Workspace.open(sys.argv[1]).own("lycosa crawl http://x/")
print("held", flush=True)
time.sleep(60)
"""


def start_holder(workspace: Workspace) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, workspace.root], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_owner_is_refused_and_told_about_the_first(workspace: Workspace) -> None:
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
    # Killed: it had no chance to tidy up, and still nobody owns the workspace.
    assert Path(workspace.path(NOTE)).exists()
    assert workspace.owner() is None
    with workspace.own("lycosa run") as owner:
        assert owner.note.pid == os.getpid()
        current = workspace.owner()
        assert current is not None
        assert current.pid == os.getpid()
    assert workspace.owner() is None
    assert not Path(workspace.path(NOTE)).exists()


def test_the_note_is_private_and_carries_address_and_token(workspace: Workspace) -> None:
    with workspace.own("lycosa run") as owner:
        owner.publish("http://127.0.0.1:8000", "secret")
        assert stat.S_IMODE(os.stat(workspace.path(NOTE)).st_mode) == 0o600
        note = workspace.owner()
        assert note is not None
        assert (note.address, note.token) == ("http://127.0.0.1:8000", "secret")
        with pytest.raises(OwnedError, match=r"listens at http://127\.0\.0\.1:8000") as refusal:
            workspace.own("lycosa crawl")
        assert "secret" not in str(refusal.value)


def test_touching_rewrites_the_note_every_five_seconds(workspace: Workspace) -> None:
    clock = ManualClock()
    path = Path(workspace.path(NOTE))
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
def test_a_damaged_note_hides_only_the_details(workspace: Workspace, content: str) -> None:
    with workspace.own("lycosa run"):
        Path(workspace.path(NOTE)).write_text(content)
        assert workspace.owner() is not None
        with pytest.raises(OwnedError, match="another process is crawling"):
            workspace.own("lycosa crawl")


def test_nobody_owns_a_new_workspace(workspace: Workspace) -> None:
    assert workspace.owner() is None


def test_releasing_twice_does_not_free_somebody_elses_lock(workspace: Workspace) -> None:
    owner = workspace.own("a")
    owner.release()
    with workspace.own("b"):
        owner.release()
        with pytest.raises(OwnedError):
            workspace.own("c")


def elsewhere(workspace: Workspace, touched_at: str) -> None:
    """The note of an owner on another machine: its lock is not seen here."""
    note = {
        "pid": 7,
        "host": "elsewhere",
        "started_at": "2026-11-22T00:00:00Z",
        "command": "crawl",
        "touched_at": touched_at,
    }
    Path(workspace.path(NOTE)).parent.mkdir(exist_ok=True)
    Path(workspace.path(NOTE)).write_text(json.dumps(note))


def test_an_owner_on_another_machine_is_noticed_by_its_note(workspace: Workspace) -> None:
    elsewhere(workspace, "00:00:00")
    living = threading.Timer(0.5, elsewhere, (workspace, "00:00:05"))
    living.start()
    try:
        with pytest.raises(OwnedError, match="process 7 on elsewhere has been crawling"):
            workspace.own("lycosa crawl http://x/")
    finally:
        living.join()
    assert json.loads(Path(workspace.path(NOTE)).read_text())["host"] == "elsewhere"
    assert workspace.owner() is None  # nobody here


def test_a_note_that_one_left_who_was_killed_elsewhere_is_waited_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "SILENT_MS", 500)
    elsewhere(workspace, "00:00:00")
    with workspace.own("lycosa crawl http://x/") as owned:
        assert owned.note.pid == os.getpid()
