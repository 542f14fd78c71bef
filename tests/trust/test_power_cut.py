"""The power goes between any two operations of a commit, an index generation, a merge, a purge, a sweep."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.trust.disk import Disk, Leaves, lay
from tests.trust.scenario import Life, begin, live, survives

SEED = 20261122


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    return live(begin(str(tmp_path_factory.mktemp("life") / "w")))


def cut_at(life: Life, root: Path, moments: list[int], leaves: Leaves, chance: random.Random) -> int:
    """Cut the power at these moments; how many different disks that left."""
    disk, done, seen = Disk(), 0, set()
    for moment in moments:
        for change in life.recorder.changes[done:moment]:
            disk.apply(change)
        done = moment
        left = disk.cut(leaves, chance)
        promised = life.recorder.promised(moment)
        key = hash((frozenset(left.items()), frozenset(promised.items())))
        if key in seen:
            continue
        seen.add(key)
        lay(left, root / "w")
        survives(life, root / "w", promised, f"power cut before change {moment}, which leaves {leaves.value}")
        shutil.rmtree(root / "w")
    return len(seen)


def test_a_power_cut_loses_nothing_that_was_promised(life: Life, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    recorder = life.recorder
    for leaves in Leaves:
        assert cut_at(life, tmp_path, [chance.randrange(recorder.start, len(recorder.changes) + 1)], leaves, chance)


@pytest.mark.prove
@pytest.mark.parametrize("leaves", list(Leaves), ids=lambda leaves: leaves.name.lower())
def test_a_power_cut_between_any_two_operations(life: Life, tmp_path: Path, leaves: Leaves) -> None:
    recorder = life.recorder
    done = cut_at(life, tmp_path, list(range(recorder.start, len(recorder.changes) + 1)), leaves, random.Random(SEED))
    print(f"{done} disks of {len(recorder.changes) - recorder.start} changes by {recorder.calls} calls")
    assert done > 50
