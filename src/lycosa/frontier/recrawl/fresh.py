"""The near-optimal recrawl schedule: maximises freshness, weighted by importance, under a budget.

A page of `importance` w changes as a Poisson process of `change_rate` c a day and is fetched r
times a day at even intervals; it is fresh for the share (r/c)(1 - exp(-c/r)) of the time. The
schedule maximises the sum of w x freshness under a budget of fetches a day (Cho and Garcia-Molina,
"Effective page refresh policies", ACM TODS 2003; Azar, Horvitz, Lubetzky, Peres and Shahaf,
"Tractable near-optimal policies for crawling", PNAS 2018). The objective is concave in each r, so
one multiplier rules all pages: the derivative by r, written with the age a = 1/r at which a page is
fetched,

    value(w, c, a) = (w/c) (1 - exp(-c a)(1 + c a))

is the value of a fetch at age `a`, in days of freshness weighted by importance. It grows with age
from 0 to w/c; a page is due when it reaches the `threshold`, and never if w/c is not above it. So
the due time follows from the page's own row and one number, and nothing has to be solved again when
a page is visited. The age solves in closed form: with u = -ln(1 - threshold c/w) and x = c a, x -
ln(1 + x) = u, the lower branch of Lambert's function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lycosa.frontier.recrawl.change_rate import Floats

HIGHEST_CLAIM = 0.999
"""Maximum probability of a claim: its weight enters a logarithm."""

HIGHEST_SILENCE = 0.9
"""Maximum trust in missing claims: pages without a claim are visited at a tenth of their rate, or
more often.
"""

STEER_GAIN = 0.2
"""Share of a day's mismatch that is corrected; more would oscillate (bench/freshness.py)."""

STEER_WEIGHT = 100.0
"""Damping of `steer`, in fetches: a day that allows this many counts half."""

_NEWTON_STEPS = 4
"""The start value is within a tenth of the root, and each step squares the error: four are enough
for float64.
"""

MIN_INTERVAL = 1e-9
"""Minimum interval in days (0.1 ms): avoids an infinite rate."""

_MIN_U = 1e-30
"""Avoids a division by 0; x is then 1e-15."""

_BISECTIONS = 48  # of a bracket some 50 wide in ln(threshold): to 2e-13


def age_in_changes(u: Any, sqrt: Callable[[Any], Any], log1p: Callable[[Any], Any]) -> Any:
    """Return x >= 0 with x - ln(1 + x) = u, by Newton's method, for floats and arrays; u > 0.

    The start sqrt(2u) + 2u/3 is a lower bound (Chatzigeorgiou, "Bounds on the Lambert function",
    IEEE Comm. Letters 2013).
    """
    x = sqrt(u * 2.0) + u * (2.0 / 3.0)
    for _ in range(_NEWTON_STEPS):
        x = x - (x - log1p(x) - u) * (x + 1.0) / x
    return x


def interval_days(importance: ArrayLike, change_rate: ArrayLike, threshold: ArrayLike) -> Floats:
    """Return the age at which pages become due, in days; infinite for pages that change too often
    or never.
    """
    weight, changes = (
        np.asarray(importance, dtype=np.float64),
        np.asarray(change_rate, dtype=np.float64),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.asarray(threshold, dtype=np.float64) * changes / weight
        u = np.maximum(-np.log1p(-np.minimum(share, 1.0)), _MIN_U)
        age = age_in_changes(u, np.sqrt, np.log1p) / changes
    result: Floats = np.where((share < 1.0) & (changes > 0), age, np.inf)
    return result


def interval_of(importance: float, change_rate: float, threshold: float) -> float:
    """Return `interval_days` of one page."""
    if change_rate <= 0 or importance <= 0:
        return math.inf
    share = threshold * change_rate / importance
    if share >= 1.0:
        return math.inf
    u: float = max(-math.log1p(-share), _MIN_U)
    return float(age_in_changes(u, math.sqrt, math.log1p)) / change_rate


def claimed_interval(interval: float, change_rate: float, claim: float, silence: float) -> float:
    """Return the interval in days of a page that sitemaps or feeds name.

    `claim`: the probability that a claim of a change since the last visit is right (0: none was
    made); `silence`: the share of changes that would have been announced (0: the page is in no
    list). The page is fresh with probability (1 - claim) exp(-c (1 - silence) t); it is due when
    that has fallen to where it would be after `interval` without signals (the effective age of
    Busa-Fekete et al., "A scalable crawling algorithm utilizing noisy change-indicating signals",
    WWW 2025).
    """
    if math.isinf(interval):
        return interval
    ahead = -math.log1p(-min(claim, HIGHEST_CLAIM)) / change_rate if claim > 0 else 0.0
    return max(interval - ahead, 0.0) / (1.0 - min(silence, HIGHEST_SILENCE))


def claimed_intervals(
    intervals: Floats, change_rate: ArrayLike, claim: ArrayLike, silence: ArrayLike
) -> Floats:
    """Return `claimed_interval` of n pages."""
    sure = np.clip(np.asarray(claim, dtype=np.float64), 0.0, HIGHEST_CLAIM)
    ahead = -np.log1p(-sure) / np.asarray(change_rate, dtype=np.float64)
    result: Floats = np.maximum(intervals - ahead, 0.0) / (
        1.0 - np.clip(np.asarray(silence, dtype=np.float64), 0.0, HIGHEST_SILENCE)
    )
    return result


def solve(
    importance: ArrayLike,
    change_rate: ArrayLike,
    budget_per_day: float,
    *,
    shortest_days: float = 0.0,
) -> float:
    """Return the threshold that spends the budget, by bisection.

    No page is fetched more often than each `shortest_days`. For a large table, pass a random sample
    and the budget multiplied by its share of the rows.

    Raises:
        ValueError: no budget.
    """
    if budget_per_day <= 0:
        raise ValueError("a schedule needs a budget above 0")
    weight = np.asarray(importance, dtype=np.float64)
    changes = np.asarray(change_rate, dtype=np.float64)
    hopeful = (weight > 0) & (changes > 0)
    if not hopeful.any():
        return 0.0
    high = math.log(float((weight[hopeful] / changes[hopeful]).max()))
    low = high - 50.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if rates(weight, changes, math.exp(middle), shortest_days).sum() > budget_per_day:
            low = middle
        else:
            high = middle
    return math.exp(high)


def rates(
    importance: ArrayLike, change_rate: ArrayLike, threshold: float, shortest_days: float = 0.0
) -> Floats:
    """Return the fetches a day of each page under a threshold; 0 for pages that never reach it."""
    intervals = interval_days(importance, change_rate, threshold)
    result: Floats = 1.0 / np.maximum(intervals, max(shortest_days, MIN_INTERVAL))
    return result


def steer(correction: float, required: float, allowed: float) -> float:
    """Return the factor on the threshold for the next day, after a day on which `required` pages
    were due and `allowed` could be fetched.

    `required`: those fetched and those still waiting at its end. 1 at first. The tables' threshold
    spends the budget in the long run; the factor corrects the remaining mismatch. It changes
    slowly, since pages must age before a higher threshold has an effect. It decays towards 1 and
    stays between 1/2 and 2.
    """
    ratio = min(max(required / allowed, 0.5), 2.0) if allowed > 0 else 1.0
    doubt = allowed / (allowed + STEER_WEIGHT)
    return float(correction ** (1.0 - STEER_GAIN) * ratio ** (STEER_GAIN * doubt))
