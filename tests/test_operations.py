"""The recipes of docs/how-to/maintenance.md work: a backup made during a crawl can be restored and crawled
on.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages

RECIPES = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "maintenance.md"
BACKUPS = 4


def recipe(title: str) -> str:
    """The shell lines that stand in the handbook behind a comment with this title."""
    found = re.search(
        rf"^```sh\n# {re.escape(title)}\n(.*?)^```",
        RECIPES.read_text(encoding="utf-8"),
        flags=re.M | re.S,
    )
    assert found is not None, f"docs/how-to/maintenance.md has no recipe {title!r}"
    return found[1]


def run(title: str, workspace: str, backup: str) -> None:
    script = f"set -eu\n{recipe(title)}"
    done = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "W": workspace, "B": backup},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _work(root: str, stop: Event) -> None:
    """Claims, commits, merges and sweeps without a rest, until told."""
    workspace = Workspace.open(root)
    number = 0
    while not stop.is_set():
        claim = workspace.claim("w")
        for _ in range(5):
            commit_pages(workspace, claim, range(number, number + 3))
            number += 3
        claim.next_folder()  # what a killed worker leaves
        compact(workspace)
        vacuum(workspace)


@pytest.mark.proves("durability-backup")
def test_backup_of_a_living_workspace(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "crawl"), partitions=4)
    (tmp_path / "crawl" / "lycosa.toml").write_text("")
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    child = spawn.Process(target=_work, args=(workspace.root, stop))
    child.start()
    heads = []
    try:
        while workspace.state().head < 20 and child.is_alive():
            time.sleep(0.05)
        for number in range(BACKUPS):
            backup = tmp_path / f"backup{number % 2}"  # the third is made over the first
            before = workspace.state().head
            run("backup", workspace.root, str(backup))
            heads.append(before)
            restored = str(tmp_path / f"restored{number}")
            run("restore", restored, str(backup))
            _use(restored, before)
    finally:
        stop.set()
        child.join()
    assert child.exitcode == 0
    assert heads[-1] > heads[0]


def _use(root: str, before: int) -> None:
    """A restored workspace holds all that was committed when its backup began, is sound, and can be
    worked on.
    """
    workspace = Workspace.open(root)
    state = workspace.state()
    assert state.head >= before
    assert state.head == max(workspace.log.numbers())
    report = verify(workspace, deep=True)
    assert report.ok, report.findings
    pages = LiveTables(workspace).scan("pages").collect().height
    assert pages == state.counters["pages"]
    claim = workspace.claim("again")
    commit_pages(workspace, claim, range(100_000, 100_005))
    claim.release()
    assert LiveTables(workspace).scan("pages").collect().height == pages + 5


@pytest.mark.parametrize("title", ["backup", "restore"])
def test_recipes_are_there(title: str) -> None:
    assert recipe(title).strip()
