"""SIGKILL before steps of merge, purge and sweep: the same facts at every moment, and the next run
finishes the work.
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
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.test_purge import BAD, assert_archive_matches, commit_both, good_facts, secrets

LATER = 4_000_000_000_000

# The parent forks before polars and its threads are there; each child counts its calls and kills
# itself before that number.
SCRIPT = """
    import json, os, shutil, signal, sys

    origin, first, stride = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    CALLS = ("fsync", "link", "mkdir", "unlink", "replace", "open", "stat", "listdir", "rmdir")

    def work(root, step):
        from lycosa.store.compaction.compact import compact
        from lycosa.store.compaction.plan import CompactionSettings
        from lycosa.store.exclusion.purge import purge
        from lycosa.store.compaction.vacuum import vacuum
        from lycosa.store.workspace import Workspace

        left = [step]
        def guarded(call):
            def run(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)
            return run
        for name in CALLS:
            setattr(os, name, guarded(getattr(os, name)))
        workspace = Workspace.open(root)
        compact(workspace, CompactionSettings(gather=2))
        purge(workspace, ["host:bad.example.com"])
        vacuum(workspace, keep_replaced_ms=0, now_ms=4_000_000_000_000)

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


@pytest.mark.parametrize(
    ("first", "stride"),
    [(17, 45), *(pytest.param(first, 10, marks=pytest.mark.prove) for first in range(10))],
)
def test_a_kill_at_any_step_changes_no_fact(tmp_path: Path, first: int, stride: int) -> None:
    origin = Workspace.create(str(tmp_path / "w"), partitions=8)
    claim = origin.claim("w")
    commit_both(origin, claim, range(2))
    commit_both(origin, claim, range(1, 3), at=1_700_000_100_000)
    claim.release()
    before = good_facts(origin)
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), origin.root, str(first), str(stride)]
    steps = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert len(steps) * stride > 200
    heads = set()
    for step in steps:
        workspace = Workspace.open(f"{origin.root}-{step}")
        state = workspace.state()
        heads.add(state.head)
        assert {
            name: frame.equals(good_facts(workspace)[name]) for name, frame in before.items()
        } == dict.fromkeys(before, True)
        assert verify(workspace, deep=True).ok
        assert workspace.claim("heir").orphans() == []
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
