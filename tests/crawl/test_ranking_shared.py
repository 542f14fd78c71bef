"""One of several workers ranks, the others take what it found; one that dies is not waited for for
ever.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from lycosa.core.clock import ManualClock
from lycosa.crawl.recrawl.rankers import PATIENCE_MS, RankerAmong
from lycosa.crawl.recrawl.ranking import CHANGED, Solved
from lycosa.crawl.recrawl.schedule import RankingResult
from lycosa.frontier.recrawl.change_rate import RatePrior
from lycosa.frontier.recrawl.due import Policy, RecrawlRules
from lycosa.store.storage.storage import open_storage

RULES = RecrawlRules(policy=Policy.FRESH)
FRESH_MS = 3_600_000


class Own:
    """Ranks when it is told to be done, and counts."""

    def __init__(self, mark: int) -> None:
        self.mark, self.starts, self.done, self.busy = mark, 0, False, False

    def start(self, collection: str, rules: RecrawlRules) -> None:
        self.starts, self.busy = self.starts + 1, True
        self.collection = collection

    def take(self) -> RankingResult | None:
        if not (self.busy and self.done):
            return None
        self.busy = self.done = False
        rows = np.zeros(self.mark, CHANGED)
        rows["url_key"] = self.mark
        return RankingResult(
            self.collection,
            Solved(0.5, 0.25, RatePrior((0.5, 0.5)), 7, self.mark),
            BytesIO(rows.tobytes()),
        )

    def close(self) -> None:
        self.busy = False


@pytest.fixture
def trio(tmp_path: Path) -> tuple[ManualClock, list[Own], list[RankerAmong]]:
    clock, storage = ManualClock(), open_storage(str(tmp_path))
    owns = [Own(mark) for mark in (1, 2, 3)]
    return clock, owns, [RankerAmong(storage, own, f"w{own.mark}", FRESH_MS, clock) for own in owns]


def rows(ranked: RankingResult | None) -> list[int]:
    assert ranked is not None
    with ranked.changes:
        keys: list[int] = np.frombuffer(ranked.changes.read(), CHANGED)["url_key"].tolist()
    return keys


def test_one_ranks_and_all_have_it(trio: tuple[ManualClock, list[Own], list[RankerAmong]]) -> None:
    clock, owns, rankers = trio
    for day in (1, 2, 3):
        for ranker in rankers[:2]:
            ranker.start("news", RULES)
        assert [own.starts for own in owns] == [day, 0, 0]
        assert rankers[1].take() is None
        assert all(ranker.busy for ranker in rankers[:2])
        owns[0].done = True
        assert rows(rankers[0].take()) == [1]
        clock.advance(10_000)
        taken = rankers[1].take()
        assert taken is not None
        assert taken.solved == Solved(0.5, 0.25, RatePrior((0.5, 0.5)), 7, 1)
        assert rows(taken) == [1]
        assert not any(ranker.busy for ranker in rankers)
        rankers[2].start("news", RULES)  # late: it is there already
        assert rows(rankers[2].take()) == [1]
        clock.advance(2 * FRESH_MS)
    other = RecrawlRules(policy=Policy.FRESH, budget_per_day=5.0)
    rankers[2].start("news", other)  # other rules: another ranking
    assert owns[2].starts == 1


def test_one_that_dies_is_not_waited_for_for_ever(
    trio: tuple[ManualClock, list[Own], list[RankerAmong]],
) -> None:
    clock, owns, rankers = trio
    for ranker in rankers[:2]:
        ranker.start("news", RULES)
    clock.advance(PATIENCE_MS - 1_000)
    assert rankers[1].take() is None
    assert owns[1].starts == 0
    clock.advance(10_000)
    assert rankers[1].take() is None
    assert owns[1].starts == 1
    rankers[2].start("news", RULES)  # meanwhile a third waits for the dead one, too
    clock.advance(PATIENCE_MS)
    assert rankers[2].take() is None
    owns[1].done = True
    assert rows(rankers[1].take()) == [2, 2]
    clock.advance(10_000)
    assert rows(rankers[2].take()) == [2, 2]
    assert [own.starts for own in owns] == [1, 1, 0]
    clock.advance(2 * FRESH_MS)
    rankers[2].start("news", RULES)
    assert owns[2].starts == 1
