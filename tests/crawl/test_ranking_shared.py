"""One of several workers computes a ranking, and all apply it.

The others do not wait forever for a worker that was killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from lycosa.crawl.recrawl import compute_schedule
from lycosa.crawl.recrawl.compute_schedule import (
    CHANGED,
    FOLDER,
    PATIENCE_MS,
    Ranker,
    RankingResult,
    Solved,
)
from lycosa.frontier.recrawl.change_rate import RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.store.storage.staging import generation_numbers
from lycosa.store.workspace import Workspace
from tests.waiting import ManualClock

RULES = RecrawlRules(policy=Policy.FRESH)
FRESH_MS = 3_600_000
SOLVED = Solved(0.5, 0.25, RatePrior((0.5, 0.5)), 7, 1)


class Cluster:
    """Three rankers of one workspace. `made` counts the computed rankings.

    The n-th ranking changes n rows, each with the URL key n.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.workspace = Workspace.create(str(root / "w"))
        self.rankers = [
            Ranker(self.workspace, self.clock, f"w{number}", FRESH_MS) for number in range(3)
        ]
        self.made = 0
        patch.setattr(compute_schedule, "rank", self._rank)

    def _rank(self, tables: object, collection: str, rules: object, changes: BinaryIO) -> Solved:
        self.made += 1
        rows = np.zeros(self.made, CHANGED)
        rows["url_key"] = self.made
        changes.write(rows.tobytes())
        return SOLVED


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def rows(result: RankingResult | None) -> list[int]:
    assert result is not None
    assert result.solved == SOLVED
    with result.changes:
        keys: list[int] = np.frombuffer(result.changes.read(), CHANGED)["url_key"].tolist()
    return keys


def test_one_worker_ranks_and_all_load_the_result(cluster: Cluster) -> None:
    for day in (1, 2, 3):
        for ranker in cluster.rankers[:2]:
            ranker.start("news", RULES)
        assert all(ranker.busy for ranker in cluster.rankers[:2])
        for ranker in cluster.rankers[:2]:
            assert rows(ranker.take()) == [day] * day
        assert not any(ranker.busy for ranker in cluster.rankers)
        cluster.rankers[2].start("news", RULES)  # later: the ranking exists already
        assert (rows(cluster.rankers[2].take()), cluster.made) == ([day] * day, day)
        cluster.clock.advance(2 * FRESH_MS)
    assert generation_numbers(cluster.workspace.storage, f"{FOLDER}/news") == [2, 3]
    cluster.rankers[2].start("news", RecrawlRules(policy=Policy.FRESH, budget_per_day=5.0))
    assert cluster.made == 4  # other rules need another ranking


def test_ranking_of_another_worker_is_awaited_with_a_timeout(cluster: Cluster) -> None:
    storage = cluster.workspace.storage
    storage.make_folder("run")
    storage.create("run/ranking-news-00000001.json", b"{}")  # of a worker that was killed
    for ranker in cluster.rankers[:2]:
        ranker.start("news", RULES)
    cluster.clock.advance(PATIENCE_MS - 1_000)
    assert cluster.rankers[1].take() is None
    assert cluster.made == 0
    cluster.clock.advance(10_000)
    assert cluster.rankers[1].take() is None
    assert (cluster.made, rows(cluster.rankers[1].take())) == (1, [1])
    assert cluster.rankers[0].take() is None  # it waited for the killed worker, too
    assert (rows(cluster.rankers[0].take()), cluster.made) == ([1], 1)
