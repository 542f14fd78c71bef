"""Pausing a collection from outside, while a real daemon crawls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lycosa.app.pausing import PausedByPeople, pause, paused, resume, set_paused
from lycosa.core.clock import SystemClock
from lycosa.core.errors import UsageError
from lycosa.store.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.app.daemons import QUICK, RUN, collection, daemon, site


def lycosa(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, "-w", str(workspace), *words], capture_output=True, text=True, check=False, timeout=60)


def test_a_paused_collection_rests_until_it_is_resumed(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    with site(tmp_path / "site", "127.0.6.31", 5) as server:
        home = f"http://127.0.6.31:{server.port}/"
        Workspace.create(str(workspace))
        (workspace / "lycosa.toml").write_text(QUICK + collection("one", home))
        assert lycosa(workspace, "collection", "pause", "one").returncode == 0
        with daemon(workspace, QUICK + collection("one", home)) as running:
            running.until(lambda: "every collection is paused" in running.live.get("message", ""))
            assert list(server.requests()) == []
            assert lycosa(workspace, "collection", "resume", "one").returncode == 0
            running.until_pages(6)
            set_paused(str(workspace), "one", paused=True, by="ada")
            running.until(lambda: running.live["collections"]["one"]["resting"])
            assert running.stop() == 0, running.errors
    wrong = lycosa(workspace, "collection", "pause", "on")
    assert wrong.returncode == 2
    assert "did you mean 'one'" in wrong.stderr


def test_what_is_kept(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    assert paused(storage) == {}
    pause(storage, "a", "ada")
    pause(storage, "a", "bob")
    pause(storage, "b")
    (tmp_path / "run" / "paused" / "c.json").write_text("{")
    (tmp_path / "run" / "paused" / "note").write_text("")
    assert {name: said["by"] for name, said in paused(storage).items()} == {"a": "ada", "b": "", "c": ""}
    assert PausedByPeople(SystemClock()).look(storage) == {"a", "b", "c"}
    resume(storage, "a")
    resume(storage, "a")
    assert set(paused(storage)) == {"b", "c"}
    for name in ("../x", "", "A", "a/b"):
        with pytest.raises(UsageError):
            pause(storage, name)
