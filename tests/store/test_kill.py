"""SIGKILL before system calls of claim, commit, release, compaction, purge and vacuum.

The state is the old or the new one, and the next run finishes the work.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import purge
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_urls, url_buffers
from tests.store.facts import same
from tests.store.test_purge import BAD, assert_archive_matches, commit_both, good_rows, secrets

# One process forks a child per step. The child counts its system calls and kills itself before the
# call with that number.
KILLING = """
import json, os, shutil, signal, sys

CALLS = ("fsync", "link", "mkdir", "unlink", "replace", "open", "stat", "listdir", "rmdir")

def kill_before(step):
    remaining = [step]
    def guarded(call):
        def run(*arguments, **options):
            remaining[0] -= 1
            if remaining[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)
        return run
    for name in CALLS:
        setattr(os, name, guarded(getattr(os, name)))

def run_steps(work, origin, first, stride):
    steps, step, finished = [], first, False
    while not finished:
        root = f"{origin}-{step}"
        shutil.copytree(origin, root)
        child = os.fork()
        if child == 0:
            work(root, step)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), status
        finished = status == 0
        steps.append(step)
        step += stride
    print(json.dumps(steps))
"""

COMMITTING = """
    from lycosa.store.log.transaction import CommitContents
    from lycosa.store.workspace import Workspace
    from tests.store.racing import FakeBuffer

    origin, parquet = sys.argv[1:]

    def work(root, step):
        kill_before(step)
        workspace = Workspace.open(root)
        claim = workspace.claim("victim")
        folder = claim.next_folder()
        with open(workspace.path(folder.warc), "wb") as file:
            file.write(b"exchanges")
        contents = CommitContents(warc=folder.warc, inbox=["a.json"], counters={"n": 1})
        claim.commit(folder, {"urls": FakeBuffer(open(parquet, "rb").read())}, contents)
        claim.release()

    run_steps(work, origin, 0, 1)
"""


def killed_steps(script: str, *arguments: str) -> list[int]:
    """Run a script that calls `run_steps`. Return the steps; the last one was not killed."""
    program = KILLING + textwrap.dedent(script)
    command = [sys.executable, "-c", program, *arguments]
    steps: list[int] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return steps


@pytest.mark.proves("durability-atomic-commit")
def test_kill_before_any_step_of_a_commit_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    origin = Workspace.create(str(tmp_path / "w"), partitions=8)
    before = origin.claim("earlier")
    commit_urls(origin, before, ["http://old.example.org/"])
    before.release()
    (Path(origin.storage.make_folder("inbox")) / "a.json").write_text("[]")
    parquet = tmp_path / "urls.parquet"
    url_buffers(origin, ["http://new.example.org/"]).urls.write(str(parquet))
    steps = killed_steps(COMMITTING, origin.root, str(parquet))
    assert len(steps) > 30
    seen = set()
    for step in steps:
        workspace = Workspace.open(f"{origin.root}-{step}")
        state = workspace.state()
        urls = set(LiveTables(workspace, state).scan("urls").collect()["url"])
        committed = state.counters["n"] == 1
        assert urls == {"http://old.example.org/"} | (
            {"http://new.example.org/"} if committed else set()
        )
        report = verify(workspace)
        assert not [
            finding
            for finding in report.findings
            if finding.severity == "error" and finding.where.startswith(("log", "data"))
        ]
        successor = workspace.claim("successor")
        orphaned = bool(successor.orphans())
        waiting = successor.inbox()
        assert not (committed and orphaned)
        assert waiting == ([] if committed else ["a.json"])
        commit_urls(
            workspace,
            successor,
            ["http://after.example.org/"],
            orphans_used=[orphan.path for orphan in successor.orphans()],
        )
        assert workspace.state().rows("urls") == 2 + committed
        seen.add((state.head, committed, orphaned))
    assert {(head, committed) for head, committed, _ in seen} == {
        (3, False),
        (4, False),
        (5, True),
        (6, True),
    }
    assert (4, False, True) in seen


LATER = 4_000_000_000_000

# The children import lycosa: the parent must fork before polars starts its threads.
REWRITING = """
    def work(root, step):
        from lycosa.store.compaction.compact import compact
        from lycosa.store.compaction.plan import CompactionSettings
        from lycosa.store.exclusion.purge import purge
        from lycosa.store.compaction.vacuum import vacuum
        from lycosa.store.workspace import Workspace

        kill_before(step)
        workspace = Workspace.open(root)
        compact(workspace, CompactionSettings(gather=2))
        purge(workspace, ["host:bad.example.com"])
        vacuum(workspace, keep_replaced_ms=0, now_ms=4_000_000_000_000)

    run_steps(work, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.mark.proves("durability-maintenance-kill")
@pytest.mark.parametrize(
    ("first", "stride"),
    [(17, 45), *(pytest.param(first, 10, marks=pytest.mark.prove) for first in range(10))],
)
def test_kill_at_any_step_of_maintenance_changes_no_row(
    tmp_path: Path, first: int, stride: int
) -> None:
    origin = Workspace.create(str(tmp_path / "w"), partitions=8)
    claim = origin.claim("w")
    commit_both(origin, claim, range(2))
    commit_both(origin, claim, range(1, 3), at=1_700_000_100_000)
    claim.release()
    before = good_rows(origin)
    steps = killed_steps(REWRITING, origin.root, str(first), str(stride))
    assert len(steps) * stride > 200
    heads = set()
    for step in steps:
        workspace = Workspace.open(f"{origin.root}-{step}")
        heads.add(workspace.state().head)
        assert same(before, good_rows(workspace))
        assert verify(workspace, deep=True).ok
        assert workspace.claim("successor").orphans() == []
        assert not compact(workspace, whole=True).gave_up
        assert purge(workspace, [f"host:{BAD}"]).complete
        vacuum(workspace, keep_replaced_ms=0, now_ms=LATER)
        assert secrets(workspace) == []
        assert_archive_matches(workspace)
        assert verify(workspace, deep=True).ok
        named = {file.path for files in workspace.state().files.values() for file in files}
        named |= workspace.state().warcs.keys() | workspace.state().indexes.keys()
        assert {
            path for top in ("data", "base", "delta") for path in workspace.storage.files_below(top)
        } == named
        shutil.rmtree(workspace.root)
    assert len(heads) > (4 if stride < 20 else 2)
