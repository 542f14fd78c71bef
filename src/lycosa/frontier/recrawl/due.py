"""The recrawl policies of a collection: when a known URL is fetched again. Pure functions of a row
and the rules.

- `never`: each page is fetched once.
- `age`: when the page is older than `max_age_ms`; by age (`timer`), when a link to it is found
  (`on_link`), or both.
- `daily`: once a day, at a minute of the day in UTC.
- `fresh`: when a fetch is worth the threshold of the near-optimal schedule
  (`lycosa.frontier.recrawl.fresh`).

`due_at` computes this for one row, `due_expr` for a table. For every policy: nothing is due before
`not_before` (Retry-After, retries after failures); a URL that was never visited is due; an excluded
one never is. A page that is gone is checked ever more rarely, then never. `POLICIES` lists the
policies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from lycosa.core.dataclass import dataclass
from lycosa.core.records import UrlRow, UrlState
from lycosa.frontier.recrawl.change_rate import DAY_MS, Floats
from lycosa.frontier.recrawl.fresh import (
    claimed_interval,
    claimed_intervals,
    interval_days,
    interval_of,
)

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

DEPTH_DECAY = 0.7
"""Factor of the importance of a page for each link from a seed."""

_MAX_MS = 100 * 365 * DAY_MS
"""Maximum interval (a century): avoids an overflow of 64 bits."""

_MAX_PUT_OFF_MS = 100 * DAY_MS
"""No failure, budget, trap or Retry-After defers a URL for longer."""


class Policy(StrEnum):
    """When a visited page is due again."""

    NEVER = "never"
    AGE = "age"
    DAILY = "daily"
    FRESH = "fresh"


class LinkAction(StrEnum):
    """The effect of a link to a known URL."""

    QUEUE = "queue"  # it is due now
    ONLY_REFERRER = "only_referrer"  # the referrer is added, nothing else
    REFRESH = "refresh"  # it is queued already: the referrer is merged, with the date of this link


@dataclass(slots=True, frozen=True)
class RecrawlRules:
    """Settings of a collection, and for `fresh` the values of the daily computation. Durations in
    ms, rates per day.

    Raises:
        ValueError: a duration or a rate that is not above 0, `daily_at` outside a day, or a longest
        below its shortest.
    """

    policy: Policy = Policy.NEVER
    max_age_ms: int = DAY_MS  # age
    timer: bool = True  # age: due by age alone
    on_link: bool = False  # age: due when a link to it is found
    daily_at: int = 0  # daily: minute of the day, UTC
    budget_per_day: float = 1_000.0  # fresh: fetches a day for all pages
    threshold: float = 0.0  # fresh: minimum gain of a fetch in weighted days of freshness
    default_rate: float = 1 / 30  # fresh: for pages whose rate was never estimated
    shortest_ms: int = 5 * MINUTE_MS  # fresh: minimum interval
    # fresh: maximum interval of all pages; None: no limit
    failed_first_ms: int = HOUR_MS  # after the first failed visit; doubled with each further one
    failed_longest_ms: int = 7 * DAY_MS
    gone_first_ms: int = DAY_MS  # after a page was gone for the first time; doubled each time
    gone_longest_ms: int = 30 * DAY_MS  # the last check is after this time
    once_since_ms: int | None = None  # URLs that were visited since then are not due; None: all

    def __post_init__(self) -> None:
        above_zero = (
            self.max_age_ms,
            self.budget_per_day,
            self.default_rate,
            self.shortest_ms,
            self.failed_first_ms,
            self.gone_first_ms,
        )
        if min(above_zero) <= 0 or self.threshold < 0 or not 0 <= self.daily_at < 24 * 60:
            raise ValueError(
                "durations, rates and budgets must be above 0, daily_at a minute of "
                "the day (0 to 1439)"
            )
        if (
            self.failed_longest_ms < self.failed_first_ms
            or self.gone_longest_ms < self.gone_first_ms
        ):
            raise ValueError("a longest duration must not be below its first one")

    @property
    def gone_checks(self) -> int:
        """Number of checks of a gone page, until the interval was `gone_longest_ms` once."""
        return 1 + math.ceil(math.log2(self.gone_longest_ms / self.gone_first_ms))


def due_at(rules: RecrawlRules, row: UrlRow, now: int | None = None) -> int | None:
    """Return when a URL is due, in ms since 1970; None: never.

    `fails` of a gone page: its consecutive visits as gone, at least 1. With `now`, dates that were
    written by a fast clock delay nothing: a visit farther in the future than the interval, and a
    `not_before` farther than any, count as past.
    """
    state, visited_at, not_before = row.state, row.visited_at, row.not_before
    if state == UrlState.EXCLUDED or (state == UrlState.VISITED and visited_at <= 0):
        return None
    if now is not None and not_before > now + _MAX_PUT_OFF_MS:
        not_before = 0
    if state == UrlState.KNOWN:
        return max(not_before, 0)
    if _is_repetition(rules, visited_at, now):
        return None
    policy = POLICIES[rules.policy]
    if state != UrlState.GONE:
        wait = policy.wait(rules, row)
    else:
        wait = _gone_wait(rules, row.fails) if policy.checks_gone else None
    if wait is None:
        return None
    return max(0 if now is not None and visited_at > now + wait else visited_at + wait, not_before)


def due_expr(rules: RecrawlRules, now: int | None = None) -> pl.Expr:
    """Return `due_at` over the columns of `urls`: Int64 ms since 1970, null for never.

    Reads state, visited_at, not_before and fails (times as Datetime("ms") or Int64), and for
    `fresh` depth, importance, change_rate, claim and silence; nulls are taken as 0. Rows of other
    collections must have been filtered out.
    """
    visited_at = pl.col("visited_at").cast(pl.Int64).fill_null(0)
    not_before = pl.col("not_before").cast(pl.Int64).fill_null(0).clip(lower_bound=0)
    if now is not None:
        not_before = pl.when(not_before > now + _MAX_PUT_OFF_MS).then(0).otherwise(not_before)
    never = pl.lit(None, dtype=pl.Int64)
    policy, state = POLICIES[rules.policy], pl.col("state")
    wait = (
        pl.when(state == UrlState.GONE.value)
        .then(_gone_wait_expr(rules) if policy.checks_gone else never)
        .when(visited_at > 0)
        .then(policy.wait_expr(rules, visited_at))
        .otherwise(never)
    )
    again = visited_at + wait
    if now is not None:
        again = pl.when(visited_at > now + wait).then(0).otherwise(again)
    again = again.clip(lower_bound=not_before)
    is_stored = state.is_in([UrlState.VISITED.value, UrlState.GONE.value])
    if rules.once_since_ms is not None:
        is_stored &= ~visited_at.is_between(rules.once_since_ms, visited_at if now is None else now)
    return (
        pl.when(state == UrlState.KNOWN.value)
        .then(not_before)
        .when(is_stored)
        .then(again)
        .otherwise(never)
    )


def on_link(
    rules: RecrawlRules,
    *,
    state: str,
    visited_at: int,
    not_before: int,
    fails: int,
    now: int,
    waiting: bool = False,
) -> LinkAction:
    """Return the effect of a link to a known URL at `now` (ms since 1970). `waiting`: the URL is
    queued or in flight.

    A page whose `not_before` is in the future stays due at that time. A gone page is queued when
    it is also past its own schedule; after the last check of that schedule, when it is older than
    `gone_longest_ms`: a link indicates that it may be back.
    """
    if state == UrlState.EXCLUDED:
        return LinkAction.ONLY_REFERRER
    if waiting or state == UrlState.KNOWN or not_before > now:
        return LinkAction.REFRESH
    least = rules.max_age_ms
    if state == UrlState.GONE:
        least = max(least, _gone_wait(rules, fails) or rules.gone_longest_ms)
    # a visit in the future was recorded by a wrong clock
    old = not -least <= now - visited_at <= least and not _is_repetition(rules, visited_at, now)
    return (
        LinkAction.QUEUE
        if rules.policy is Policy.AGE and rules.on_link and old
        else LinkAction.ONLY_REFERRER
    )


def retry_wait_ms(rules: RecrawlRules, fails: int) -> int:
    """Return the delay after the `fails`-th failed visit in a row, without immediate retries:
    doubled up to `failed_longest_ms`.
    """
    return min(rules.failed_first_ms << min(max(fails, 1) - 1, 40), rules.failed_longest_ms)


def importance(in_links: float, depth: int, linking_hosts: float = 0.0) -> float:
    """Return the importance of a page, above 0, from the pages and hosts that link to it, and its
    depth.

    Linking pages count by their square root: the navigation of a site links from every page.
    """
    return (math.sqrt(1.0 + max(in_links, 0.0)) + max(linking_hosts, 0.0)) * DEPTH_DECAY ** max(
        depth, 0
    )


def weights_and_rates(
    rules: RecrawlRules, depth: ArrayLike, importance: ArrayLike, change_rate: ArrayLike
) -> tuple[Floats, Floats]:
    """Return importance and change rate of n pages, with unknown values (0) replaced as in
    `due_at`. Input of `fresh.solve`.
    """
    weight, changes = (
        np.asarray(importance, dtype=np.float64),
        np.asarray(change_rate, dtype=np.float64),
    )
    by_depth = DEPTH_DECAY ** np.maximum(np.asarray(depth, dtype=np.float64), 0.0)
    return np.where(weight > 0, weight, by_depth), np.where(
        changes > 0, changes, rules.default_rate
    )


def _is_repetition(rules: RecrawlRules, visited_at: int, now: int | None) -> bool:
    since = rules.once_since_ms
    return since is not None and since <= visited_at <= (visited_at if now is None else now)


def _gone_wait(rules: RecrawlRules, fails: int) -> int | None:
    looks = max(fails, 1)
    return (
        None
        if looks > rules.gone_checks
        else min(rules.gone_first_ms << (looks - 1), rules.gone_longest_ms)
    )


def _gone_wait_expr(rules: RecrawlRules) -> pl.Expr:
    """Return one branch for each number of checks: there are few, and nothing is rounded."""
    looks = pl.col("fails").fill_null(0).clip(lower_bound=1)
    start = pl.lit(None, dtype=pl.Int64)
    return reduce(
        lambda rest, look: (
            pl.when(looks == look)
            .then(pl.lit(_gone_wait(rules, look), dtype=pl.Int64))
            .otherwise(rest)
        ),
        range(rules.gone_checks, 0, -1),
        start,
    )


def _fresh_wait(rules: RecrawlRules, row: UrlRow) -> int | None:
    weight = row.importance if row.importance > 0 else importance(0.0, row.depth)
    changes = row.change_rate if row.change_rate > 0 else rules.default_rate
    interval = interval_of(weight, changes, rules.threshold)
    days = claimed_interval(interval, changes, row.claim, row.silence)
    if days * DAY_MS >= _MAX_MS:
        return None
    return max(round(days * DAY_MS), rules.shortest_ms)


def _fresh_wait_expr(rules: RecrawlRules, visited_at: pl.Expr) -> pl.Expr:
    """Use numpy for each batch: as a polars expression the formula has thousands of nodes."""
    names = ("depth", "importance", "change_rate", "claim", "silence")

    def waits(columns: Sequence[pl.Series]) -> pl.Series:
        depth, weight, changes, claim, silence = (column.to_numpy() for column in columns)
        weight, changes = weights_and_rates(rules, depth, weight, changes)
        intervals = claimed_intervals(
            interval_days(weight, changes, rules.threshold), changes, claim, silence
        )
        rounded = np.clip(
            np.rint(np.minimum(intervals * DAY_MS, _MAX_MS)), rules.shortest_ms, None
        ).astype(np.int64)
        never = intervals * DAY_MS >= _MAX_MS
        return pl.Series(rounded).set(pl.Series(never), None)

    columns = [pl.col(name).cast(pl.Float64).fill_null(0.0) for name in names]
    return pl.map_batches(columns, waits, return_dtype=pl.Int64, is_elementwise=True)


@dataclass(slots=True, frozen=True)
class PolicyWait:
    """The interval after a visit, for one row and over the columns of `urls`; None and null: never.
    Both functions are equal.
    """

    wait: Callable[[RecrawlRules, UrlRow], int | None]
    wait_expr: Callable[[RecrawlRules, pl.Expr], pl.Expr]  # gets the times of the visits
    checks_gone: bool = True


def _milliseconds(value: int | None) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int64)


def _max_age(rules: RecrawlRules) -> int | None:
    return rules.max_age_ms if rules.timer else None


T = TypeVar("T", int, pl.Expr)


def _until_daily(rules: RecrawlRules, visited_at: T) -> T:
    return DAY_MS - (visited_at - rules.daily_at * MINUTE_MS) % DAY_MS


POLICIES: Mapping[Policy, PolicyWait] = {
    Policy.NEVER: PolicyWait(
        lambda rules, row: None, lambda rules, at: _milliseconds(None), checks_gone=False
    ),
    Policy.AGE: PolicyWait(
        lambda rules, row: _max_age(rules), lambda rules, at: _milliseconds(_max_age(rules))
    ),
    Policy.DAILY: PolicyWait(lambda rules, row: _until_daily(rules, row.visited_at), _until_daily),
    Policy.FRESH: PolicyWait(_fresh_wait, _fresh_wait_expr),
}
