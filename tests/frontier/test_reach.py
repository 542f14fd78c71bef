"""The URLs that a limited crawl may fetch, by link distance."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.frontier.scheduler import reach as module
from lycosa.frontier.scheduler.reach import Reach, Unvisited


def _row(key: int, state: str = UrlState.KNOWN, visited_at: int = 0, operation: str = "") -> UrlRow:
    return UrlRow(
        UrlId(url="http://h/", host="h", partition=0, host_key=1, url_key=key),
        "c",
        0,
        operation,
        state=state,
        visited_at=visited_at,
    )


def _frame(rows: list[UrlRow]) -> pl.DataFrame:
    columns = [(row.id.url_key, row.state, row.visited_at or None, row.operation) for row in rows]
    types = [
        ("url_key", pl.UInt64()),
        ("state", pl.String()),
        ("visited_at", pl.Datetime("ms")),
        ("operation", pl.String()),
    ]
    return pl.DataFrame(columns, schema=types, orient="row")


@pytest.mark.parametrize("merge_at", [1, 3, 1_000])
def test_smallest_distance_is_kept(merge_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MERGE_AT", merge_at)
    chance = random.Random(7)
    reach, model = Reach(20, lambda host: None), dict[int, int]()
    keys = [chance.randrange(2**64) for _ in range(60)] + [0, 2**64 - 1]
    for _ in range(2_000):
        key, distance = chance.choice(keys), chance.randrange(25)
        better = distance <= 20 and distance < model.get(key, 99)
        assert reach.put(key, distance) is better
        if better:
            model[key] = distance
        probe = chance.choice(keys)
        assert reach.distance(probe) == model.get(probe)
    for distance in range(22):
        assert sorted(reach.at(distance).tolist()) == sorted(
            key for key, at in model.items() if at == distance
        )


def test_row_and_table_give_the_same_result() -> None:
    reach = Reach(None, lambda host: None)
    for key in (5, 2**63 + 9, 70):
        reach.put(key, 1)
    rows = [
        _row(5), _row(6), _row(2**63 + 9), _row(70, UrlState.VISITED, 1_000), _row(70, UrlState.KNOWN, 1_000), _row(5, operation="feed"),
        _row(5, UrlState.EXCLUDED),
    ]  # fmt: skip
    assert [reach.admits(row) for row in rows] == [True, False, True, False, False, False, False]
    for limit in (reach, Unvisited()):
        assert _frame(rows).select(limit.condition()).to_series().to_list() == [
            limit.admits(row) for row in rows
        ]
    empty = Reach(None, lambda host: None)
    assert not _frame(rows).select(empty.condition()).to_series().any()
    assert empty.at(0).dtype == np.uint64
