"""Test batch jobs on an engine against those in one process."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lycosa.cluster.engines.local import LocalEngine
from lycosa.commands.maintenance.export import LibraryTask, export_on, export_task
from lycosa.config.reading import parse_config
from lycosa.config.settings import IndexSettings, StoreSettings
from lycosa.export.library.editions import LibrarySelection
from lycosa.maintenance.jobs import index_on, merge_on, rank_on, rank_workspace, vacuum_on
from lycosa.store.compaction.compact import compaction_is_due
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.coordination.owner import maintenance
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages
from tests.store.facts import facts, same

SETTINGS = CompactionSettings(gather=4)


def workspace_with_commits(root: Path) -> Workspace:
    """Create a workspace of many small commits."""
    workspace = Workspace.create(str(root), partitions=8)
    claim = workspace.claim("test")
    for number in range(12):
        commit_pages(
            workspace, claim, range(3 * number, 3 * number + 3), host=f"h{number % 5}.test"
        )
    claim.release()
    return workspace


def test_parallel_compaction_and_vacuum_keep_all_rows(tmp_path: Path) -> None:
    workspace = workspace_with_commits(tmp_path / "w")
    before = facts(workspace)
    with LocalEngine(2) as engine:
        report = merge_on(engine, workspace.root, SETTINGS)
        assert not report.gave_up
        assert report.files_before > report.files_after > 0
        assert len(report.entries) == len(set(report.entries)) > 1
        assert same(before, facts(workspace))
        assert not compaction_is_due(workspace.state(), SETTINGS)
        whole = merge_on(engine, workspace.root, SETTINGS, whole=True)
        assert (whole.files_before, whole.gave_up) == (report.files_after, "")
        with maintenance(workspace.storage):
            assert "another process" in merge_on(engine, workspace.root, SETTINGS).gave_up
        vacuumed = vacuum_on(
            engine, workspace.root, StoreSettings.model_validate({"keep_replaced": 0})
        )
        assert vacuumed.files >= report.files_before - report.files_after
        assert index_on(engine, workspace.root, IndexSettings(shards=2)).documents == 36
    assert same(before, facts(workspace))


@pytest.mark.proves("durability-maintenance-kill")
def test_compaction_succeeds_after_a_kill_of_its_process(tmp_path: Path) -> None:
    workspace = workspace_with_commits(tmp_path / "w")
    before = facts(workspace)
    finished = threading.Event()

    def kill_one() -> None:
        """Kill one of the first worker processes."""
        while not finished.is_set():
            for child in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    if "spawn_main" in " ".join(child.cmdline()):
                        os.kill(child.pid, signal.SIGKILL)
                        return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_one)
    with LocalEngine(2) as engine:
        killer.start()
        report = merge_on(engine, workspace.root, SETTINGS)
        finished.set()
        killer.join()
    assert not report.gave_up
    assert same(before, facts(workspace))
    assert not compaction_is_due(workspace.state(), SETTINGS)


def test_ranks_and_exports_of_an_engine_equal_those_of_one_process(tmp_path: Path) -> None:
    workspace = workspace_with_commits(tmp_path / "w")
    config = parse_config("")
    here, there = (
        LibraryTask(
            workspace.root,
            str(tmp_path / name),
            "jsonl",
            LibrarySelection(),
            config,
            2**26,
        )
        for name in ("here", "there")
    )
    with LocalEngine(2) as engine:
        info = rank_on(engine, workspace.root)
        again = rank_workspace(workspace.root)
        assert (again.generation, again.log_entry) == (info.generation + 1, info.log_entry)
        assert (again.pages, again.duplicates) == (info.pages, info.duplicates) == (36, 0)
        report, other = export_on(engine, there), export_task(here)
    assert (report.documents, report.files) == (other.documents, other.files) != (0, 0)
    files = [
        sorted(path.relative_to(root) for path in root.rglob("*.jsonl*"))
        for root in (tmp_path / "here", tmp_path / "there")
    ]
    assert files[0] == files[1]
    assert all(
        (tmp_path / "here" / path).read_bytes() == (tmp_path / "there" / path).read_bytes()
        for path in files[0]
    )
