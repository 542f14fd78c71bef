"""SIGKILL before every single step of claim, commit and release, and before steps of merge, purge and
sweep: the state is the old one or the new one, and the next run finishes the work.
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
from tests.store.builders import commit_urls, rows_only
from tests.store.test_purge import BAD, assert_archive_matches, commit_both, good_facts, secrets

# One process forks a child for each step; the child counts its calls and kills itself before the
# call of that number.
SCRIPT = """
    import json, os, shutil, signal, sys
    from lycosa.store.log.transaction import CommitContents
    from lycosa.store.workspace import Workspace
    from tests.store.racing import FakeBuffer

    origin, parquet, scenario = sys.argv[1:]
    CALLS = ("fsync", "link", "mkdir", "unlink", "replace", "open", "stat", "listdir")

    def arm(step):
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

    def work(root, step):
        arm(step)
        workspace = Workspace.open(root)
        claim = workspace.claim("victim")
        folder = claim.next_folder()
        with open(workspace.path(folder.warc), "wb") as file:
            file.write(b"exchanges")
        contents = CommitContents(warc=folder.warc, inbox=["a.json"], counters={"n": 1})
        claim.commit(folder, {"urls": FakeBuffer(open(parquet, "rb").read())}, contents)
        claim.release()

    step, finished = 0, False
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
        step += 1
    print(json.dumps(step))
"""


@pytest.mark.proves("durability-atomic-commit")
def test_a_kill_before_any_step_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    origin = Workspace.create(str(tmp_path / "w"), partitions=8)
    before = origin.claim("earlier")
    commit_urls(origin, before, ["http://old.example.org/"])
    before.release()
    (Path(origin.storage.make_folder("inbox")) / "a.json").write_text("[]")
    parquet = tmp_path / "urls.parquet"
    rows_only(origin, ["http://new.example.org/"]).urls.write(str(parquet))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), origin.root, str(parquet), "commit"]
    steps = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert steps > 30
    seen = set()
    for step in range(steps):
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
        heir = workspace.claim("heir")
        orphaned = bool(heir.orphans())
        waiting = heir.inbox()
        assert not (committed and orphaned)
        assert waiting == ([] if committed else ["a.json"])
        commit_urls(
            workspace,
            heir,
            ["http://after.example.org/"],
            orphans_used=[orphan.path for orphan in heir.orphans()],
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

# The parent forks before polars and its threads are there; each child counts its calls and kills
# itself before that number.
REWRITING = """
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


@pytest.mark.proves("durability-maintenance-kill")
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
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(REWRITING),
        origin.root,
        str(first),
        str(stride),
    ]
    steps = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert len(steps) * stride > 200
    heads = set()
    for step in steps:
        workspace = Workspace.open(f"{origin.root}-{step}")
        heads.add(workspace.state().head)
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
