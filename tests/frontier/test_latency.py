"""Slowing down when a host does: what is noticed, what is noise, and how it relaxes."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.politeness.latency import (
    LEARNING,
    MAX_SLOW_DOWN,
    NOISE_MS,
    LatencyTracker,
    observe,
    remembered,
    slow_down,
)


def after(samples: Iterable[float], latency: LatencyTracker | None = None) -> LatencyTracker:
    latency = latency or LatencyTracker()
    for sample in samples:
        latency = observe(latency, sample)
    return latency


def around(middle: float, spread: float, number: int, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [middle * chance.lognormvariate(0, spread) for _ in range(number)]


def test_a_host_that_becomes_five_times_slower_is_noticed_and_relaxes() -> None:
    latency = after([200.0] * 100)
    factors = []
    for _ in range(20):
        latency = observe(latency, 1_000)
        factors.append(slow_down(latency))
    assert factors[1] == 1.0
    assert factors == sorted(factors)
    assert 3.5 < factors[-1] <= 5
    latency = after([200.0] * 20, latency)
    assert slow_down(latency) == 1.0


def test_the_pause_grows_at_most_eightfold() -> None:
    latency = after([100.0] * 100)
    assert slow_down(after([10_000.0] * 30, latency)) == MAX_SLOW_DOWN


def test_less_than_twice_as_slow_is_not_slow() -> None:
    assert slow_down(after([190.0] * 50, after([100.0] * 100))) == 1.0
    assert slow_down(after([250.0] * 25, after([100.0] * 100))) > 2.0


def test_one_slow_page_is_no_proof() -> None:
    assert slow_down(after([60_000.0], after([100.0] * 100))) == 1.0


def test_a_few_milliseconds_are_noise() -> None:
    assert slow_down(after([20.0] * 25, after([4.0] * 100))) == 1.0
    assert slow_down(after([NOISE_MS + 30] * 25, after([4.0] * 100))) > 2.0


def test_nothing_is_usual_before_enough_answers() -> None:
    for fast in range(12):
        assert slow_down(after([100.0] * fast + [10_000.0] * (12 - fast))) == 1.0
    assert slow_down(LatencyTracker()) == 1.0


def test_a_host_that_stays_slow_is_taken_as_it_is() -> None:
    latency = after([1_000.0] * 300, after([100.0] * 100))
    assert slow_down(latency) == 1.0
    assert latency.usual_ms == pytest.approx(1_000, rel=0.2)


@pytest.mark.parametrize(
    ("name", "samples", "most"),
    [
        ("pages of very different cost", around(200, 0.8, 5_000), 0.001),
        ("wild", around(200, 1.2, 5_000), 0.01),
        (
            "half of them cached",
            [5.0 if value < 200 else 500.0 for value in around(200, 1, 5_000)],
            0.06,
        ),
        (
            "one in ten slow",
            [500.0 if value > 720 else 5.0 for value in around(200, 1, 5_000)],
            0.001,
        ),
    ],
)
def test_answers_that_vary_anyway_are_seldom_taken_for_slowness(
    name: str, samples: list[float], most: float
) -> None:
    latency, slowed = LatencyTracker(), 0
    for sample in samples:
        latency = observe(latency, sample)
        slowed += slow_down(latency) > 1
    assert slowed <= most * len(samples), name


@pytest.mark.parametrize("seed", range(5))
def test_slowness_is_noticed_through_noise(seed: int) -> None:
    usual = after(around(200, 0.5, 100, seed))
    assert slow_down(after(around(1_000, 0.5, 15, seed + 100), usual)) > 2.0


def test_what_is_usual_survives_a_restart() -> None:
    latency = remembered(after([150.0] * 50).usual_ms)
    assert latency.usual_ms == pytest.approx(150)
    assert latency.samples == LEARNING
    assert slow_down(latency) == 1.0
    assert slow_down(after([1_500.0] * 20, latency)) > 2.0
    assert remembered(0) == LatencyTracker()


@given(st.lists(st.floats(0, 1e9), max_size=60))
def test_the_factor_is_always_between_one_and_eight(samples: list[float]) -> None:
    assert 1.0 <= slow_down(after(samples)) <= MAX_SLOW_DOWN
