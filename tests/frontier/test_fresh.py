"""The schedule of the policy `fresh`.

A page is due exactly at the threshold; the budget is used up and its distribution is optimal. In
simulation, the policy reaches its quality floors (`make prove`).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.freshness import FLOORS, Result, below_floors, freshness, run
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.recrawl.change_rate import Floats
from lycosa.frontier.recrawl.fresh import (
    claimed_interval,
    claimed_intervals,
    interval_days,
    interval_of,
    rates,
    solve,
    steer,
)

weights = st.floats(1e-6, 1e6)
changes = st.floats(1e-4, 300.0)


def value(importance: float, change_rate: float, age_days: float) -> float:
    """Return the value of a fetch at an age.

    See `lycosa.frontier.recrawl.fresh`.
    """
    x = change_rate * age_days
    if x < 1e-3:  # series: the closed formula is inexact here
        return importance / change_rate * x * x * (0.5 - x * (1 / 3 - x / 8))
    return importance / change_rate * (1 - math.exp(-x) * (1 + x))


def _pages(seed: int, pages: int) -> tuple[Floats, Floats]:
    random = np.random.default_rng(seed)
    return 1 + random.pareto(1.1, pages), np.exp(random.normal(math.log(0.2), 1.8, pages))


@given(weights, changes, st.floats(1e-9, 0.999999))
def test_a_page_is_due_when_its_value_reaches_the_threshold(
    weight: float, change_rate: float, share: float
) -> None:
    threshold = share * weight / change_rate
    age = interval_of(weight, change_rate, threshold)
    assert value(weight, change_rate, age) == pytest.approx(threshold, rel=1e-6)
    assert interval_days([weight], [change_rate], threshold).tolist() == pytest.approx(
        [age], rel=1e-12
    )


def test_value_is_the_derivative_of_freshness() -> None:
    for change_rate, fetches in ((0.1, 0.3), (5.0, 1.0), (1.0, 20.0)):
        step = fetches * 1e-5
        rates_around = np.array([fetches - step, fetches + step])
        before, after = freshness(rates_around, np.array([change_rate] * 2)).tolist()
        slope = (after - before) / (2 * step)
        assert value(1.0, change_rate, 1 / fetches) == pytest.approx(slope, rel=1e-4)


def test_page_is_never_due_at_the_limits() -> None:
    never = interval_days([1.0, 1.0, 0.0, 1.0], [2.0, 0.0, 1.0, 1.0], [0.5, 0.1, 0.1, 2.0])
    # maximum value equals the threshold; rate zero; importance zero; maximum below the threshold
    assert np.isinf(never).all()
    assert [interval_of(1.0, 2.0, 0.5), interval_of(1.0, 0.0, 0.1), interval_of(0.0, 1.0, 0.1)] == [
        math.inf
    ] * 3
    assert 0 < interval_of(1.0, 1.0, 0.0) < 1e-10


@pytest.mark.parametrize("budget", [5.0, 100.0, 1_000.0])
def test_no_other_distribution_of_the_budget_is_better(budget: float) -> None:
    """Compares with 500 other distributions of the same budget, similar and dissimilar ones."""
    importance, change_rate = _pages(1, 500)
    threshold = solve(importance, change_rate, budget)
    best = rates(importance, change_rate, threshold)
    assert best.sum() == pytest.approx(budget, rel=1e-6)
    reached = importance @ freshness(best, change_rate)
    random = np.random.default_rng(2)
    for spread in np.geomspace(0.01, 2.0, 500):
        other = (best + 1e-3 * budget / 500) * np.exp(random.normal(0, spread, 500))
        assert importance @ freshness(other * budget / other.sum(), change_rate) < reached
    assert (best[importance / change_rate <= threshold] == 0).all()


def test_small_budget_is_not_spent_on_fast_changing_pages() -> None:
    importance, change_rate = np.ones(3), np.array([0.1, 1.0, 50.0])
    fetches = rates(importance, change_rate, solve(importance, change_rate, 1.0))
    assert fetches[2] == 0
    assert fetches[0] > 0
    assert fetches[1] > 0


def test_no_page_is_fetched_more_often_than_the_shortest_interval() -> None:
    importance, change_rate = _pages(5, 100)
    threshold = solve(importance, change_rate, 50.0, shortest_days=1.0)
    fetches = rates(importance, change_rate, threshold, shortest_days=1.0)
    assert (fetches.max(), fetches.sum()) == (pytest.approx(1.0), pytest.approx(50.0, rel=1e-6))
    plenty = rates(
        importance,
        change_rate,
        solve(importance, change_rate, 1e6, shortest_days=1.0),
        shortest_days=1.0,
    )
    assert plenty.tolist() == pytest.approx([1.0] * 100)


def test_a_schedule_without_pages_or_budget() -> None:
    assert (solve([], [], 10.0), solve([1.0], [0.0], 10.0)) == (0.0, 0.0)
    with pytest.raises(ValueError, match="budget"):
        solve([1.0], [1.0], 0.0)


def test_threshold_of_a_sample_approximates_that_of_all_pages() -> None:
    importance, change_rate = _pages(6, 50_000)
    importance = np.minimum(importance, 100.0)
    whole = solve(importance, change_rate, 5_000.0)
    assert solve(importance[:10_000], change_rate[:10_000], 1_000.0) == pytest.approx(
        whole, rel=0.05
    )


@given(st.floats(1e-3, 1e3), changes, st.floats(0, 1), st.floats(0, 1))
def test_claims_shorten_and_silence_lengthens_the_interval(
    interval: float, change_rate: float, claim: float, silence: float
) -> None:
    both = claimed_interval(interval, change_rate, claim, silence)
    assert claimed_intervals(
        np.array([interval]), [change_rate], [claim], [silence]
    ).tolist() == pytest.approx([both], abs=1e-12)
    assert (
        claimed_interval(interval, change_rate, claim, 0.0)
        <= interval
        <= claimed_interval(interval, change_rate, 0.0, silence)
        < math.inf
    )
    assert claimed_interval(interval, change_rate, 0.0, 0.0) == interval
    assert math.isinf(claimed_interval(math.inf, change_rate, claim, silence))


def test_claim_counts_as_the_age_of_equal_staleness() -> None:
    assert claimed_interval(10.0, 0.2, 0.5, 0.0) == pytest.approx(10.0 - math.log(2) / 0.2)
    assert claimed_interval(1.0, 0.2, 0.9, 0.0) == 0.0


def test_correction_adjusts_the_threshold_to_the_budget() -> None:
    assert steer(1.0, 200, 1_000) < 1.0 < steer(1.0, 5_000, 1_000)
    assert steer(1.0, 20, 10) < steer(1.0, 2_000, 1_000)  # few fetches: weak evidence
    assert steer(1.3, 0, 0) < 1.3  # decays
    correction = 1.0
    for _ in range(100):
        correction = steer(correction, 1e9, 1e6)
    assert 1.5 < correction <= 2.0


def test_fresh_policy_is_better_than_uniform_on_a_small_web() -> None:
    """The full simulation is `test_fresh_policy_is_close_to_the_optimum_and_better_than_simple_policies`."""
    fresh, learned, uniform = (
        run(policy, 1, 60, pages=600, days=20) for policy in ("fresh", "learned", "uniform")
    )
    assert fresh.share > 0.95
    assert learned.share > 0.85
    assert uniform.share < learned.share
    assert fresh.fetches <= 60.1


SIMPLE_POLICIES = ("uniform", "proportional", "adaptive")


@pytest.mark.prove
@pytest.mark.parametrize("budget", [1_000, 5_000])
@pytest.mark.parametrize("seed", [11, 12])  # not used for choosing constants
def test_fresh_policy_is_close_to_the_optimum_and_better_than_simple_policies(
    seed: int, budget: int
) -> None:
    results = [run(policy, seed, budget) for policy in ("fresh", "learned", *SIMPLE_POLICIES)]
    assert below_floors(results, FLOORS) == []


@pytest.mark.prove
def test_claims_of_changes_improve_freshness() -> None:
    learned, claims = (run(policy, 11, 1_000) for policy in ("learned", "claims"))
    assert claims.share > learned.share


def _result(policy: str, freshness: float, fetches: float = 1_000.0) -> Result:
    return Result(policy, 1, 1_000, fetches, freshness, freshness, 1.0)


def test_below_floors_reports_each_violation() -> None:
    good = [_result("fresh", 0.99), _result("learned", 0.93), _result("uniform", 0.6)]
    assert below_floors(good, FLOORS) == []
    assert len(below_floors([_result("fresh", 0.97), *good[1:]], FLOORS)) == 1
    assert len(below_floors([good[0], _result("learned", 0.89), good[2]], FLOORS)) == 1
    # a simple policy is better than the learned one
    assert len(below_floors([*good, _result("adaptive", 0.95)], FLOORS)) == 1
    assert len(below_floors([_result("fresh", 0.99, fetches=1_002.0), *good[1:]], FLOORS)) == 1
    assert len(below_floors(good[1:], FLOORS)) == 1  # no result of `fresh`
    assert below_floors([_result("claims", 0.5), *good], FLOORS) == []
