"""The power goes between any two operations of a commit, an index generation, a merge, a purge, a sweep."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from lycosa.store.snapshot import INTERVAL
from tests.trust.disk import Disk, Leaves, Recorder, lay
from tests.trust.scenario import Life, begin, live, new_life, survives

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


def cut_at(recorded: Recorded, root: Path, moments: list[int], leaves: Leaves, chance: random.Random) -> int:
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
        survives(life, root / "w", promised, f"power cut before change {moment}, which leaves {leaves.value}")
        shutil.rmtree(root / "w")
    return len(seen)


def test_a_power_cut_loses_nothing_that_was_promised(recorded: Recorded, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    _, recorder = recorded
    for leaves in Leaves:
        assert cut_at(recorded, tmp_path, [chance.randrange(recorder.start, len(recorder.changes) + 1)], leaves, chance)


@pytest.mark.prove
@pytest.mark.parametrize("leaves", list(Leaves), ids=lambda leaves: leaves.name.lower())
def test_a_power_cut_between_any_two_operations(recorded: Recorded, tmp_path: Path, leaves: Leaves) -> None:
    _, recorder = recorded
    done = cut_at(recorded, tmp_path, list(range(recorder.start, len(recorder.changes) + 1, STRIDE)), leaves, random.Random(SEED))
    print(f"{done} disks of {len(recorder.changes) - recorder.start} changes by {recorder.calls} calls")
    assert done > 50 // STRIDE
