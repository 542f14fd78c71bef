"""The floors of the benchmarks: the comparison itself, and, marked `floors`, the two-minute check that `make bench` begins with."""

from __future__ import annotations

import pytest
from bench.crawl import markdown
from bench.floors import CONTENDERS, TARGETS, complaints, fallen, measure, quick_floors


def test_a_ratio_may_be_fifteen_percent_below_its_floor_and_no_more() -> None:
    floors = {"a/b on c": 4.0}
    assert fallen({"a/b on c": 9.0}, floors) == []
    assert fallen({"a/b on c": 3.41}, floors) == []
    assert fallen({"a/b on c": 3.39}, floors) == ["a/b on c: 3.39 is more than 15% below its floor 4.0"]
    assert fallen({"a/b on d": 9.0}, floors) == ["a/b on c: not measured (floor 4.0)"]


def test_every_ratio_that_the_check_measures_has_a_floor() -> None:
    ours = [name for name in CONTENDERS if name != "scrapy"]
    assert set(quick_floors()) == {f"{name}/scrapy on {target}" for name in ours for target in TARGETS}
    assert all(floor > 1 for floor in quick_floors().values())


@pytest.mark.floors
def test_no_ratio_fell_below_its_floor() -> None:
    runs = measure()
    found = complaints(runs)
    assert not found, "\n".join([*found, markdown(runs)])
