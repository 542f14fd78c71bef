"""Estimate change rates of pages from visits that each observe one bit: changed or unchanged.

A page changes as a Poisson process of `rate` changes a day. A visit `t` days after the one before
finds a change with probability 1 - exp(-rate t); several changes look like one, so counting them is
biased (Cho and Garcia-Molina, "Estimating frequency of change", ACM TOIT 2003). The likelihood of a
history with irregular intervals is

    product over changed visits of (1 - exp(-rate t))  x  exp(-rate x sum of t over unchanged
    visits)

Numbers of fixed size represent it: the unchanged days, and of the changed visits the weight and the
first two moments of ln t. The changed part is exact when their intervals are equal; else a
log-normal of these moments represents the intervals, and a Gauss-Hermite rule of three points the
log-normal. Half an unchanged interval as the only prior gives Cho and Garcia-Molina's
bias-corrected estimator. Here the prior is learned from the collection's own pages (empirical
Bayes): the mixing weights over a fixed grid of rates that make all histories likeliest. With few
visits the prior dominates, with many the history.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

DAY_MS = 86_400_000

GRID: Floats = np.exp(np.linspace(math.log(1 / 2_000), math.log(288.0), 41))
"""Changes per day, a factor of 1.39 apart: from once in five years to once in five minutes, the
shortest interval of the schedule.
"""

HALF_LIFE_DAYS = 180.0
"""Half-life of an observation: rates drift with seasons and redesigns."""

MIN_DAYS = 1 / DAY_MS
"""Minimum interval (1 ms), because its logarithm is used."""

_LOG_GRID: Floats = np.log(GRID)
_TINY = 1e-300
_CHUNK = 4_096  # rows at once: their 41 x 8 bytes, three times over, stay within some megabytes

_PARENT_PAGES = 2.0
"""Weight of the parent in a learned prior, in pages, so that rates without observations stay
possible.
"""

# early stopping keeps the prior smooth; the exact maximum is a handful of spikes
_PRIOR_ROUNDS = 30


class ChangeStats(NamedTuple):
    """Statistics of a page's visits about its changes.

    All 0 before the second visit. Natural logarithms of days.
    """

    changed: float = 0.0  # weight of the visits that found a change
    unchanged_days: float = 0.0  # weighted days known to be without a change
    changed_log_days: float = 0.0  # weighted sum of ln(days) before the visits that found a change
    changed_log_squares: float = 0.0  # weighted sum of their squares
    dated: float = 0.0  # weight of the changes whose time is known


class RatePrior(NamedTuple):
    """The distribution of rates in a collection: a weight for each rate of `GRID`, with sum 1."""

    weights: tuple[float, ...]


class ClaimTrust(NamedTuple):
    """How many of a host's claims of a change (lastmod in sitemaps and feeds) were right, wrong, or
    missing.
    """

    right: float = 0.0
    wrong: float = 0.0
    missed: float = 0.0  # the page had changed without a claim


def observe(
    stats: ChangeStats, interval_ms: float, changed: bool, half_life_days: float = HALF_LIFE_DAYS
) -> ChangeStats:
    """Add one visit that was caused by the schedule and not by a claim.

    `interval_ms`: time since the visit before.
    """
    days = max(interval_ms / DAY_MS, MIN_DAYS)
    weight, unchanged, logs, squares, dated = _faded(stats, days, half_life_days)
    if not changed:
        return ChangeStats(weight, unchanged + days, logs, squares, dated)
    log = math.log(days)
    return ChangeStats(weight + 1.0, unchanged, logs + log, squares + log * log, dated)


def observe_dated(
    stats: ChangeStats, interval_ms: float, half_life_days: float = HALF_LIFE_DAYS
) -> ChangeStats:
    """Add a change whose time is known, `interval_ms` after the last visit: a claim caused the
    visit and was right.

    `observe` would be biased: visits caused by a change always observe one.
    """
    days = max(interval_ms / DAY_MS, MIN_DAYS)
    weight, unchanged, logs, squares, dated = _faded(stats, days, half_life_days)
    return ChangeStats(weight, unchanged + days, logs, squares, dated + 1.0)


def prior_of(weights: ArrayLike) -> RatePrior:
    """Return a prior from a weight for each rate of `GRID`, in any unit."""
    column = np.asarray(weights, dtype=np.float64)
    return RatePrior(tuple((column / column.sum()).tolist()))


def lognormal_prior(median: float, spread: float) -> RatePrior:
    """Return a log-normal prior: median in changes per day, standard deviation of the logarithm."""
    distance = (_LOG_GRID - math.log(median)) / spread
    return prior_of(np.exp(-0.5 * distance * distance))


DEFAULT_PRIOR = lognormal_prior(1 / 30, 2.0)
"""Used until a prior is learned: once a month, within a factor of seven."""


def rate(stats: ChangeStats, prior: RatePrior = DEFAULT_PRIOR) -> float:
    """Return changes per day: the geometric mean of the posterior.

    The arithmetic mean of a new page would be dominated by a few high rates.
    """
    return float(rates([np.array([value]) for value in stats], prior)[0])


def rates(stats: Sequence[ArrayLike], prior: RatePrior = DEFAULT_PRIOR) -> Floats:
    """Return `rate` of many pages. `stats`: the columns of `ChangeStats`, n numbers each."""
    columns = _columns(stats)
    result = np.empty(len(columns[0]))
    for rows in _chunks(len(result)):
        chance = _posterior(log_likelihood([column[rows] for column in columns]), prior)
        result[rows] = np.exp(chance @ _LOG_GRID)
    return result


def log_likelihood(stats: Sequence[ArrayLike]) -> Floats:
    """Return the log-likelihood at each rate of `GRID`, as n x len(GRID). `stats`: see `rates`."""
    changed, unchanged, logs, squares, dated = _columns(stats)
    weight = np.maximum(changed, _TINY)
    mean = logs / weight
    deviation = np.sqrt(3.0 * np.maximum(squares / weight - mean * mean, 0.0))
    chance = np.zeros((len(changed), len(GRID)))
    # Gauss-Hermite: 0 and +-sqrt(3) standard deviations
    for share, offset in ((2 / 3, 0.0), (1 / 6, -1.0), (1 / 6, 1.0)):
        expected = np.exp(np.minimum(mean + offset * deviation, 50.0))[:, None] * GRID
        chance += share * np.log(np.maximum(-np.expm1(-expected), _TINY))
    result: Floats = (
        changed[:, None] * chance - unchanged[:, None] * GRID + dated[:, None] * _LOG_GRID
    )
    return result


def learn_prior(stats: Sequence[ArrayLike]) -> RatePrior:
    """Learn the prior of rates from a sample of pages by expectation maximisation from the default.

    `stats`: as for `rates`; pages without a second visit are ignored. 10,000 pages are enough.
    """
    seen = _seen(_columns(stats))
    if not len(seen[0]):
        return DEFAULT_PRIOR
    likelihood = _likelihood(seen)
    start = weights = np.asarray(DEFAULT_PRIOR.weights)
    for _ in range(_PRIOR_ROUNDS):
        chance = likelihood * weights
        chance /= chance.sum(axis=1, keepdims=True)
        weights = (chance.sum(axis=0) + _PARENT_PAGES * start) / (len(likelihood) + _PARENT_PAGES)
    return prior_of(weights)


def observe_claim(trust: ClaimTrust, claimed: bool, changed: bool) -> ClaimTrust:
    """Record a visit of a page that the host's sitemaps or feeds list.

    Whether they claimed a change since the last visit, and whether there was one.
    """
    right, wrong, missed = trust
    if claimed:
        return ClaimTrust(right + changed, wrong + (not changed), missed)
    return ClaimTrust(right, wrong, missed + changed)


def claim_weight(trust: ClaimTrust) -> float:
    """Return the probability that a claim is right: the mean of a Beta posterior, 1/2 at first."""
    return (trust.right + 1.0) / (trust.right + trust.wrong + 2.0)


def silence_weight(trust: ClaimTrust) -> float:
    """Return the share of changes with a claim: the mean of a Beta posterior, 0 until a claim was
    right.
    """
    return trust.right / (trust.right + trust.missed + 3.0)


def _faded(stats: ChangeStats, days: float, half_life_days: float) -> ChangeStats:
    factor = 0.5 ** (days / half_life_days)
    return ChangeStats(*(value * factor for value in stats))


def _columns(stats: Sequence[ArrayLike]) -> list[Floats]:
    return [np.asarray(column, dtype=np.float64) for column in stats]


def _seen(columns: Sequence[Floats]) -> list[Floats]:
    shown = (columns[0] > 0) | (columns[1] > 0) | (columns[4] > 0)
    return [column[shown] for column in columns]


def _likelihood(columns: Sequence[Floats]) -> Floats:
    """Return likelihoods, scaled so that the maximum of each row is 1."""
    logs = log_likelihood(columns)
    result: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return result


def _posterior(logs: Floats, prior: RatePrior) -> Floats:
    with_prior = logs + np.log(np.maximum(np.asarray(prior.weights), _TINY))
    return _normalised(np.exp(with_prior - with_prior.max(axis=1, keepdims=True)))


def _normalised(chance: Floats) -> Floats:
    result: Floats = chance / chance.sum(axis=1, keepdims=True)
    return result


def _chunks(rows: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK) for start in range(0, rows, _CHUNK))
