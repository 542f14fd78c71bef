"""The power goes between any two operations of a commit, an index generation, a merge, a purge, a
sweep.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.log.entry import new_attempt
from lycosa.store.log.snapshot import INTERVAL, read_snapshot, write_header, write_snapshot, wrote
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.trust.disk import Disk, Leaves, Recorder, lay
from tests.trust.scenario import LATER, Life, append_exclusions, begin, live, new_life, survives

SEED = 20261122
STRIDE = int(os.environ.get("LYCOSA_CUT_STRIDE", "1"))


Recorded = tuple[Life, Recorder]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    workspace = begin(str(tmp_path_factory.mktemp("life") / "w"))
    life, recorder = new_life(workspace), Recorder(workspace.root)
    live(workspace, life, recorder)
    assert life.head > INTERVAL
    return life, recorder


def cut_at(
    recorded: Recorded, root: Path, moments: list[int], leaves: Leaves, chance: random.Random
) -> int:
    """Cut the power at these moments; how many different disks that left."""
    life, recorder = recorded
    disk, done, seen = Disk(), 0, set()
    for moment in moments:
        for change in recorder.changes[done:moment]:
            disk.apply(change)
        done = moment
        left = disk.cut(leaves, chance)
        promised = recorder.promised(moment)
        key = hash((frozenset(left.items()), frozenset(promised.items())))
        if key in seen:
            continue
        seen.add(key)
        lay(left, root / "w")
        survives(
            life,
            root / "w",
            promised,
            f"power cut before change {moment}, which leaves {leaves.value}",
        )
        shutil.rmtree(root / "w")
    return len(seen)


def test_a_power_cut_loses_nothing_that_was_promised(recorded: Recorded, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    _, recorder = recorded
    for leaves in (Leaves.NOTHING, Leaves.ZEROS, Leaves.CHANCE):
        assert cut_at(
            recorded,
            tmp_path,
            [chance.randrange(recorder.start, len(recorder.changes) + 1)],
            leaves,
            chance,
        )


def test_the_first_line_of_an_old_snapshot_is_on_the_disk(tmp_path: Path) -> None:
    storage = Workspace.create(str(tmp_path / "w"), partitions=8).storage
    storage.make_folder("log")
    attempts = [new_attempt() for _ in range(INTERVAL)]
    assert write_snapshot(storage, INTERVAL, attempts, {})
    recorder = Recorder(storage.root)
    with recorder.recording():
        write_header(storage, INTERVAL, attempts)
    lay(Disk(recorder.changes).cut(Leaves.NOTHING, random.Random(SEED)), tmp_path / "cut")
    left = Workspace.open(str(tmp_path / "cut")).storage
    assert read_snapshot(left, INTERVAL) is None
    assert wrote(left, INTERVAL, 1, attempts[0])


@pytest.mark.prove
def test_a_power_cut_while_old_entries_are_deleted(tmp_path: Path) -> None:
    """Of old snapshots the first lines stay: they say that their entries were written."""
    workspace = Workspace.create(str(tmp_path / "w"), partitions=8)
    (tmp_path / "w" / "log").mkdir()
    (tmp_path / "w" / "run").mkdir()
    state = workspace.state()
    append_exclusions(state, 3 * INTERVAL + 5)
    recorder, chance = Recorder(workspace.root), random.Random(SEED)
    with recorder.recording():
        assert (
            vacuum(workspace, keep_replaced_ms=0, keep_entries_ms=0, now_ms=LATER).entries
            == 2 * INTERVAL - 1
        )
    moments = {
        recorder.start,
        *(chance.randrange(recorder.start, len(recorder.changes)) for _ in range(3)),
        len(recorder.changes),
    }
    for moment in sorted(moments):
        disk = Disk(recorder.changes[:moment])
        for leaves in (Leaves.NOTHING, Leaves.NAMES, Leaves.CHANCE):
            lay(disk.cut(leaves, chance), tmp_path / "cut")
            left = Workspace.open(str(tmp_path / "cut"))
            assert left.state().head == state.head
            report = verify(left)
            assert report.ok, (
                f"power cut before change {moment}, which leaves {leaves.value}: {report.findings}"
            )
            assert left.claim("heir").entry == state.head + 1
            shutil.rmtree(left.root)


@pytest.mark.prove
@pytest.mark.parametrize("leaves", list(Leaves), ids=lambda leaves: leaves.name.lower())
def test_a_power_cut_between_any_two_operations(
    recorded: Recorded, tmp_path: Path, leaves: Leaves
) -> None:
    _, recorder = recorded
    done = cut_at(
        recorded,
        tmp_path,
        list(range(recorder.start, len(recorder.changes) + 1, STRIDE)),
        leaves,
        random.Random(SEED),
    )
    print(
        f"{done} disks of {len(recorder.changes) - recorder.start} changes by {recorder.calls} "
        "calls"
    )
    assert done > 50 // STRIDE
