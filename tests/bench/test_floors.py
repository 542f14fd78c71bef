"""The floors of the benchmarks: the comparison itself, and, marked `floors`, the check that CI
makes and that `make bench` begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from bench.crawl import Run, markdown
from bench.floors import CONTENDERS, TARGETS, check, fallen, measure_round, quick_floors

FLOORS = {
    f"{name}/scrapy on {target}": floor
    for target in TARGETS
    for name, floor in (("lycosa", 2.0), ("links", 10.0))
}


def test_a_ratio_may_be_fifteen_percent_below_its_floor_and_no_more() -> None:
    floors = {"a/b on c": 4.0}
    assert fallen({"a/b on c": 9.0}, floors) == []
    assert fallen({"a/b on c": 3.41}, floors) == []
    assert fallen({"a/b on c": 3.39}, floors) == [
        "a/b on c: 3.39 is more than 15% below its floor 4.0"
    ]
    assert fallen({"a/b on d": 9.0}, floors) == ["a/b on c: not measured (floor 4.0)"]


def test_every_ratio_that_the_check_measures_has_a_floor() -> None:
    ours = [name for name in CONTENDERS if name != "scrapy"]
    assert set(quick_floors()) == {
        f"{name}/scrapy on {target}" for name in ours for target in TARGETS
    }
    assert all(floor > 1 for floor in quick_floors().values())


def _rounds(
    *speeds: dict[str, float],
) -> tuple[list[Sequence[str]], Callable[[Sequence[str]], list[Run]]]:
    """Rounds in which our pipeline is so many times as fast as Scrapy (2.0 where nothing is said),
    and which targets were asked for.
    """
    asked: list[Sequence[str]] = []

    def made(targets: Sequence[str]) -> list[Run]:
        speed = speeds[len(asked)]
        asked.append(list(targets))
        costs = {
            target: {"lycosa": 10 / speed.get(target, 2.0), "links": 1.0, "scrapy": 10.0}
            for target in targets
        }
        return [
            Run(name, target, 0, 100, 100, costs[target][name], 1.0, 100.0, 100.0, 0.1)
            for target in targets
            for name in CONTENDERS
        ]

    return asked, made


def test_one_round_is_enough_where_nothing_fell() -> None:
    asked, made = _rounds({TARGETS[0]: 1.91})
    assert check(made, FLOORS)[1] == []
    assert asked == [list(TARGETS)]


def test_only_what_is_low_is_measured_on_and_the_median_counts() -> None:
    asked, made = _rounds({TARGETS[0]: 1.0}, {TARGETS[0]: 1.75}, {TARGETS[0]: 1.8})
    assert check(made, FLOORS)[1] == []
    assert asked == [list(TARGETS), [TARGETS[0]], [TARGETS[0]]]


def test_what_falls_must_fall_twice() -> None:
    low, high = {TARGETS[1]: 1.6}, {TARGETS[1]: 2.0}
    asked, made = _rounds(low, low, low, high)
    assert check(made, FLOORS)[1] == []
    assert asked[1:] == [[TARGETS[1]]] * 3
    _, made = _rounds(*[low] * 6)
    assert check(made, FLOORS)[1] == [
        f"lycosa/scrapy on {TARGETS[1]}: 1.6 is more than 15% below its floor 2.0"
    ]


@pytest.mark.floors
def test_no_ratio_fell_below_its_floor() -> None:
    runs, complaints = check(measure_round, quick_floors())
    assert not complaints, "\n".join([*complaints, markdown(runs)])
