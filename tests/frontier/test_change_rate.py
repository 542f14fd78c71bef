"""Estimation of change rates, and the refetch budget.

Estimates equal the exact likelihood where it is known, and stay finite. The budget holds in every
time window.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.frontier.recrawl.change_rate import (
    DAY_MS,
    DEFAULT_PRIOR,
    GRID,
    ChangeStats,
    ClaimTrust,
    Floats,
    claim_weight,
    learn_prior,
    log_likelihood,
    lognormal_prior,
    observe,
    observe_claim,
    observe_dated,
    prior_of,
    rate,
    rates,
    silence_weight,
)
from lycosa.frontier.recrawl.refetch_budget import PERIOD_MS, Budget

FLAT = prior_of(np.ones(len(GRID)))
Visits = list[tuple[float, bool]]


def _stats(visits: Visits, half_life_days: float = math.inf) -> ChangeStats:
    stats = ChangeStats()
    for days, changed in visits:
        stats = observe(stats, days * DAY_MS, changed, half_life_days)
    return stats


def _exact(visits: Visits) -> Floats:
    """Return ln(likelihood) of a history at each rate of the grid."""
    total = np.zeros(len(GRID))
    for days, changed in visits:
        total += np.log(-np.expm1(-GRID * days)) if changed else -GRID * days
    return total


def _history(random: np.random.Generator, true_rate: float, intervals: Floats) -> Visits:
    changed = random.random(len(intervals)) < -np.expm1(-true_rate * intervals)
    return list(zip(intervals.tolist(), changed.tolist(), strict=True))


def _table(all_stats: list[ChangeStats]) -> list[Floats]:
    return [np.array(column) for column in zip(*all_stats, strict=True)]


@given(st.floats(0.01, 100), st.integers(0, 30), st.integers(0, 30))
def test_likelihood_is_exact_for_equal_intervals(days: float, changed: int, unchanged: int) -> None:
    visits = [(days, True)] * changed + [(days, False)] * unchanged
    columns = [[value] for value in _stats(visits)]
    np.testing.assert_allclose(log_likelihood(columns)[0], _exact(visits), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("visits", "changed"), [(10, 3), (20, 15), (8, 1), (50, 49)])
def test_half_an_unchanged_visit_gives_the_estimator_of_cho_and_garcia_molina(
    visits: int, changed: int
) -> None:
    """The estimator is -ln((n - X + 0.5)/(n + 0.5)) / interval.

    The maximum of the likelihood is interpolated by a parabola through the three highest points of
    the grid.
    """
    days = 2.0
    stats = _stats(
        [(days, True)] * changed + [(days, False)] * (visits - changed) + [(days / 2, False)]
    )
    logs = log_likelihood([[value] for value in stats])[0]
    top = int(logs.argmax())
    left, middle, right = logs[top - 1 : top + 2]
    step = math.log(GRID[1] / GRID[0])
    result = GRID[top] * math.exp(step * 0.5 * (left - right) / (left - 2 * middle + right))
    assert result == pytest.approx(
        -math.log((visits - changed + 0.5) / (visits + 0.5)) / days, rel=0.03
    )


def test_irregular_intervals_approximate_the_exact_posterior() -> None:
    random = np.random.default_rng(1)
    errors = []
    for _ in range(300):
        true = float(np.exp(random.normal(math.log(0.2), 1.5)))
        visits = _history(
            random, true, random.lognormal(math.log(2.0), 1.0, random.integers(2, 30))
        )
        logs = _exact(visits) + np.log(np.asarray(DEFAULT_PRIOR.weights))
        chance = np.exp(logs - logs.max())
        errors.append(
            math.log(
                rate(_stats(visits)) / math.exp(float(chance @ np.log(GRID)) / float(chance.sum()))
            )
        )
    assert np.abs(errors).max() < 0.15
    assert np.abs(errors).mean() < 0.02


def test_estimate_is_unbiased_when_pages_change_between_visits() -> None:
    """The pages change three times between two visits, of which a visit detects one. Counting the
    detected changes underestimates the rate; the likelihood does not.
    """
    random = np.random.default_rng(2)
    true = 3.0
    histories = [_history(random, true, random.exponential(1.0, 60) + 0.05) for _ in range(200)]
    result = rates(_table([_stats(history) for history in histories]), FLAT)
    counted = [
        sum(changed for _, changed in history) / sum(days for days, _ in history)
        for history in histories
    ]
    assert np.mean(np.log(result / true)) == pytest.approx(0.0, abs=0.05)
    assert np.mean(np.log(np.array(counted) / true)) < -0.5


def test_error_decreases_with_the_number_of_visits() -> None:
    random = np.random.default_rng(3)
    true = np.exp(random.normal(math.log(0.2), 1.5, 400))
    errors = []
    for visits in (2, 10, 50):
        result = rates(
            _table(
                [_stats(_history(random, value, random.exponential(3.0, visits))) for value in true]
            ),
            DEFAULT_PRIOR,
        )
        errors.append(float(np.sqrt(np.mean(np.log(result / true) ** 2))))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5


def test_old_visits_lose_weight_by_the_half_life() -> None:
    fast, slow = [(1.0, True)] * 60, [(1.0, False)] * 120
    forgetting, never = (rate(_stats(fast + slow, half_life)) for half_life in (30.0, math.inf))
    assert forgetting < never / 3


def test_visits_after_an_announced_change_do_not_inflate_the_rate() -> None:
    """A page that is visited only after it announced a change has changed at every visit. Using
    the dates of the changes keeps the estimate correct.
    """
    random = np.random.default_rng(4)
    dated, naive = ChangeStats(), ChangeStats()
    for days in random.exponential(1 / 0.2, 200):
        dated = observe_dated(dated, days * DAY_MS, math.inf)
        naive = observe(naive, days * DAY_MS, True, math.inf)
    assert rate(dated, FLAT) == pytest.approx(0.2, rel=0.2)
    assert rate(naive, FLAT) > 1.0


def test_rate_of_a_row_equals_rate_in_a_table() -> None:
    random = np.random.default_rng(5)
    rows = [_stats(_history(random, 0.3, random.exponential(2.0, visits))) for visits in range(20)]
    prior = lognormal_prior(0.5, 1.0)
    assert rates(_table(rows), prior).tolist() == pytest.approx([rate(row, prior) for row in rows])
    assert len(rates([[]] * 5)) == 0


def test_long_tables_are_processed_in_chunks() -> None:
    stats = ChangeStats(3.0, 5.0, 1.0, 2.0, 0.0)
    many = rates([np.full(9_000, value) for value in stats])
    assert np.unique(many).tolist() == pytest.approx([rate(stats)])


@given(st.lists(st.tuples(st.floats(0, 1e5), st.booleans()), max_size=20))
def test_rate_of_any_history_is_within_the_grid(visits: Visits) -> None:
    assert GRID[0] * 0.999 <= rate(_stats(visits, 180.0)) <= GRID[-1] * 1.001


def test_a_prior_is_learned_from_the_collection() -> None:
    """Half of the pages change daily, half twice a year.

    After two visits the learned prior has a smaller error than the default prior.
    """
    random = np.random.default_rng(6)
    true = np.where(np.arange(2_000) % 2 == 0, 1.0, 1 / 180)
    table = _table([_stats(_history(random, value, random.exponential(3.0, 2))) for value in true])
    learned = learn_prior(table)
    assert sum(learned.weights) == pytest.approx(1.0)
    before, after = (
        np.mean(np.log(rates(table, prior) / true) ** 2) for prior in (DEFAULT_PRIOR, learned)
    )
    assert after < before * 0.75
    weights = np.asarray(learned.weights)
    assert weights[np.abs(np.log(GRID)) < 1].sum() == pytest.approx(0.5, abs=0.1)
    assert learn_prior([np.zeros(5)] * 5) == DEFAULT_PRIOR


def test_weight_of_claims_follows_their_accuracy() -> None:
    trust = ClaimTrust()
    assert (claim_weight(trust), silence_weight(trust)) == (0.5, 0.0)
    for _ in range(20):
        trust = observe_claim(trust, claimed=True, changed=True)
    accurate = trust
    assert claim_weight(accurate) > 0.9
    assert silence_weight(accurate) > 0.8
    for _ in range(60):
        trust = observe_claim(trust, claimed=True, changed=False)
    assert claim_weight(trust) < 0.3  # for example, lastmod is always the time of the request
    for _ in range(60):
        accurate = observe_claim(accurate, claimed=False, changed=True)
    assert silence_weight(accurate) < 0.3
    assert observe_claim(accurate, claimed=False, changed=False) == accurate


START = 1_700_000_000_000


def test_every_window_is_within_the_budget_plus_ten_minutes() -> None:
    budget = Budget(1_440.0, START)  # one fetch per minute
    fetches, waiting = list[int](), list[int]()
    for now in range(START, START + DAY_MS, 5_000):
        budget.turn(now)
        if now % 30_000 == START % 30_000:
            waiting.append(now)  # twice as many as the budget permits
        for due in [due for due in waiting if budget.earliest(due) <= now]:
            if budget.take(due, now):
                fetches.append(now)
                waiting.remove(due)
    assert 1_300 <= len(fetches) <= 1_440 + 10
    for first, at in enumerate(fetches):
        for span_ms in (60_000, PERIOD_MS, 3_600_000):
            inside = sum(1 for each in fetches[first : first + 100] if each < at + span_ms)
            assert inside <= span_ms / 60_000 + 11
    assert budget.spent == len(fetches)


@pytest.mark.proves("limits-recrawl")
def test_budget_accumulates_at_most_ten_minutes() -> None:
    budget = Budget(1_440.0, START)
    later = START + 10 * DAY_MS
    assert sum(budget.take(later, later) for _ in range(100)) == 10


def test_deferred_urls_are_fetched_earliest_due_first() -> None:
    budget = Budget(144.0 * 5, START)  # five fetches per ten minutes
    waiting = {START - 1_000 * number for number in range(1, 101)}
    fetched: list[int] = []
    now = START
    while waiting and now < START + DAY_MS:
        now += 10_000
        budget.turn(now)
        # the latest due is offered first
        offered = [due for due in sorted(waiting, reverse=True) if budget.earliest(due) <= now]
        for due in offered:
            if budget.take(due, now):
                fetched.append(sorted(waiting).index(due))
                waiting.discard(due)
    assert not waiting
    assert fetched[0] == 99  # no URL had been deferred yet
    assert max(fetched[1:]) < 5  # always one of the five deferred URLs that are due earliest


def test_earliest_time_is_equal_for_rows_and_tables_when_the_budget_is_spent() -> None:
    budget = Budget(144.0, START)
    for number in range(20):
        budget.take(START + number, START + 30)
    assert not budget.open
    dues = [START - 5, START + 5, START + PERIOD_MS, START + 3 * PERIOD_MS]
    frame = pl.DataFrame({"due": dues}, schema={"due": pl.Int64})
    assert frame.select(budget.earliest_expr(pl.col("due"))).to_series().to_list() == [
        budget.earliest(due) for due in dues
    ]
    assert budget.earliest(dues[0]) > START + 30
    assert budget.earliest(dues[3]) == dues[3]


def test_requested_fetches_are_deducted_from_the_later_budget() -> None:
    budget = Budget(144.0, START)
    assert budget.take(START, START)
    for _ in range(3):
        budget.spend()
    assert not any(budget.take(now, now) for now in range(START, START + PERIOD_MS // 2, 1_000))
    assert budget.spent == 4
