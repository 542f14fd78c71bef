"""The backup recipes of docs/how-to/maintenance.md work during a crawl."""

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
    """Return the shell block of the page that starts with a comment of this title."""
    match = re.search(
        rf"^```sh\n# {re.escape(title)}\n(.*?)^```",
        RECIPES.read_text(encoding="utf-8"),
        flags=re.M | re.S,
    )
    assert match is not None, f"docs/how-to/maintenance.md has no recipe {title!r}"
    return match[1]


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


def _commit_and_compact(root: str, stop: Event) -> None:
    """Commit pages, compact and vacuum until `stop` is set."""
    workspace = Workspace.open(root)
    number = 0
    while not stop.is_set():
        claim = workspace.claim("w")
        for _ in range(5):
            commit_pages(workspace, claim, range(number, number + 3))
            number += 3
        claim.next_folder()  # an unused folder, as after the kill of a worker
        compact(workspace)
        vacuum(workspace)


@pytest.mark.proves("durability-backup")
def test_backup_during_commits_is_consistent(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "crawl"), partitions=4)
    (tmp_path / "crawl" / "lycosa.toml").write_text("")
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    child = spawn.Process(target=_commit_and_compact, args=(workspace.root, stop))
    child.start()
    heads = []
    try:
        while workspace.state().head < 20 and child.is_alive():
            time.sleep(0.05)
        for number in range(BACKUPS):
            backup = tmp_path / f"backup{number % 2}"  # the third one overwrites the first
            before = workspace.state().head
            run("backup", workspace.root, str(backup))
            heads.append(before)
            restored = str(tmp_path / f"restored{number}")
            run("restore", restored, str(backup))
            _check_restored(restored, before)
    finally:
        stop.set()
        child.join()
    assert child.exitcode == 0
    assert heads[-1] > heads[0]


def _check_restored(root: str, before: int) -> None:
    """Check that a restored workspace is complete, consistent and writable.

    `before`: its version when the backup started.
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
def test_recipes_are_not_empty(title: str) -> None:
    assert recipe(title).strip()
