"""The recrawl policies, and rules for links, failures and gone pages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.frontier.recrawl import due as policy
from lycosa.frontier.recrawl.change_rate import DAY_MS
from lycosa.frontier.recrawl.due import (
    HOUR_MS,
    MINUTE_MS,
    LinkAction,
    Policy,
    RecrawlRules,
    due_expr,
    importance,
    on_link,
    retry_wait_ms,
    weights_and_rates,
)
from lycosa.frontier.recrawl.fresh import solve


def due_at(
    rules: RecrawlRules, *, now: int | None = None, depth: int = 0, **values: Any
) -> int | None:
    return policy.due_at(rules, UrlRow(UrlId("", "", 0, 0, 0), "c", depth, **values), now)


NOON = 20_000 * DAY_MS + 12 * HOUR_MS  # 12:00 UTC
times = st.one_of(st.just(0), st.integers(1, 4_000_000_000_000))

all_rules = st.builds(
    RecrawlRules,
    policy=st.sampled_from(Policy),
    max_age_ms=st.integers(1, 10**11),
    timer=st.booleans(),
    daily_at=st.integers(0, 1439),
    threshold=st.one_of(st.just(0.0), st.floats(1e-9, 1e3)),
    default_rate=st.floats(1e-3, 10),
    gone_first_ms=st.integers(10**6, 10**8),
    gone_longest_ms=st.integers(10**8, 10**10),
    once_since_ms=st.one_of(st.none(), times),
)
rows = st.fixed_dictionaries(
    {
        "state": st.sampled_from([str(state) for state in UrlState]),
        "visited_at": times,
        "not_before": times,
        "fails": st.integers(0, 20),
        "depth": st.integers(0, 30),
        "importance": st.one_of(st.just(0.0), st.floats(1e-6, 1e6)),
        "change_rate": st.one_of(st.just(0.0), st.floats(1e-4, 288)),
        "claim": st.floats(0, 1),
        "silence": st.floats(0, 1),
    }
)


@settings(max_examples=300)
@given(
    all_rules, st.lists(rows, min_size=1, max_size=20), st.booleans(), st.one_of(st.none(), times)
)
def test_due_times_of_a_table_equal_those_of_its_rows(
    rules: RecrawlRules, table: list[dict[str, object]], as_stored: bool, now: int | None
) -> None:
    frame = pl.DataFrame(table)
    if as_stored:  # like table `urls`: null for times that are never and for unknown numbers
        columns = [
            pl.when(pl.col(name) > 0).then(pl.col(name)).cast(pl.Datetime("ms", "UTC"))
            for name in ("visited_at", "not_before")
        ]
        columns += [
            pl.when(pl.col(name) > 0).then(pl.col(name))
            for name in ("importance", "change_rate", "claim", "silence")
        ]
        frame = frame.with_columns(columns)
    result = frame.lazy().select(due=due_expr(rules, now)).collect()["due"]
    assert result.dtype == pl.Int64
    for row, due in zip(table, result.to_list(), strict=True):
        expected = due_at(rules, now=now, **row)  # type: ignore[arg-type]
        assert (due is None) == (expected is None)
        if due is not None and expected is not None:
            # logarithms may differ in the last bit
            assert abs(due - expected) <= 1 + abs(expected - int(str(row["visited_at"]))) * 1e-12


def test_due_time_by_state() -> None:
    age = RecrawlRules(Policy.AGE, max_age_ms=HOUR_MS)
    assert due_at(age, state=UrlState.VISITED, visited_at=NOON) == NOON + HOUR_MS
    # not_before (retries, Retry-After) has precedence
    assert (
        due_at(age, state=UrlState.VISITED, visited_at=NOON, not_before=NOON + DAY_MS)
        == NOON + DAY_MS
    )
    assert due_at(age, state=UrlState.KNOWN, visited_at=0) == 0
    assert due_at(age, state=UrlState.KNOWN, visited_at=0, not_before=NOON) == NOON
    assert due_at(age, state=UrlState.EXCLUDED, visited_at=NOON) is None
    assert (
        due_at(replace(age, timer=False, on_link=True), state=UrlState.VISITED, visited_at=NOON)
        is None
    )
    never = RecrawlRules()
    assert due_at(never, state=UrlState.VISITED, visited_at=NOON) is None
    assert due_at(never, state=UrlState.GONE, visited_at=NOON, fails=1) is None
    assert due_at(never, state=UrlState.KNOWN, visited_at=0, not_before=NOON) == NOON


def test_stored_times_far_in_the_future_are_ignored() -> None:
    age = RecrawlRules(Policy.AGE, max_age_ms=HOUR_MS)
    due = [
        due_at(age, now=NOON, state=UrlState.VISITED, visited_at=NOON + ahead)
        for ahead in (0, HOUR_MS, HOUR_MS + 1)
    ]
    assert due == [NOON + HOUR_MS, NOON + 2 * HOUR_MS, 0]
    ahead = NOON + 365 * DAY_MS
    assert (
        due_at(age, now=NOON, state=UrlState.VISITED, visited_at=NOON, not_before=ahead)
        == NOON + HOUR_MS
    )
    assert due_at(age, now=NOON, state=UrlState.KNOWN, visited_at=0, not_before=ahead) == 0
    assert (
        due_at(age, now=NOON, state=UrlState.KNOWN, visited_at=0, not_before=NOON + 7 * DAY_MS)
        == NOON + 7 * DAY_MS
    )


@pytest.mark.parametrize(
    ("minute", "visited_at", "due"),
    [
        (0, NOON, NOON + 12 * HOUR_MS),
        (13 * 60, NOON, NOON + HOUR_MS),
        (11 * 60, NOON, NOON + 23 * HOUR_MS),
        (12 * 60, NOON, NOON + DAY_MS),  # visited exactly at that minute: due tomorrow
        (12 * 60, NOON - 1, NOON),
        (12 * 60 + 1, NOON, NOON + MINUTE_MS),
    ],
)
def test_daily_policy(minute: int, visited_at: int, due: int) -> None:
    assert (
        due_at(
            RecrawlRules(Policy.DAILY, daily_at=minute),
            state=UrlState.VISITED,
            visited_at=visited_at,
        )
        == due
    )


def test_interval_of_gone_pages_doubles_until_they_are_dropped() -> None:
    waits = []
    for fails in range(1, 10):
        due = due_at(
            RecrawlRules(Policy.AGE, max_age_ms=60_000),
            state=UrlState.GONE,
            visited_at=NOON,
            fails=fails,
        )
        waits.append(None if due is None else (due - NOON) // DAY_MS)
    assert waits == [1, 2, 4, 8, 16, 30, None, None, None]


def test_retry_wait_doubles_up_to_a_week() -> None:
    waits = [retry_wait_ms(RecrawlRules(), fails) for fails in range(1, 12)]
    assert (waits[:4], waits) == ([HOUR_MS, 2 * HOUR_MS, 4 * HOUR_MS, 8 * HOUR_MS], sorted(waits))
    assert waits[-1] == retry_wait_ms(RecrawlRules(), 10_000) == 7 * DAY_MS


def test_fresh_policy() -> None:
    threshold = 2.0 / 0.5 * (1 - math.exp(-1.5) * (1 + 1.5))  # reached after three days
    fresh = RecrawlRules(Policy.FRESH, threshold=threshold)

    def wait(
        rules: RecrawlRules = fresh,
        importance: float = 2.0,
        change_rate: float = 0.5,
        **signals: float,
    ) -> int | None:
        due = due_at(
            rules,
            state=UrlState.VISITED,
            visited_at=NOON,
            importance=importance,
            change_rate=change_rate,
            **signals,  # type: ignore[arg-type]
        )
        return None if due is None else due - NOON

    plain = wait()
    assert plain == pytest.approx(3 * DAY_MS, abs=1)
    assert plain is not None
    assert (wait(importance=20.0) or 0) < plain  # more important
    assert wait(change_rate=100.0) is None  # changes too fast
    assert wait(replace(fresh, threshold=1e-12)) == fresh.shortest_ms
    assert wait(claim=0.9) == fresh.shortest_ms
    assert (wait(silence=0.5) or 0) == pytest.approx(2 * plain, abs=2)
    front, deep = (
        due_at(fresh, state=UrlState.VISITED, visited_at=NOON, depth=depth) for depth in (0, 2)
    )
    assert front is not None  # without rate and importance, the depth decides
    assert deep is not None
    assert front < deep


@pytest.mark.parametrize(
    ("state", "age_ms", "not_before", "waiting", "action"),
    [
        (UrlState.VISITED, 60_001, 0, False, LinkAction.QUEUE),
        (UrlState.VISITED, 60_000, 0, False, LinkAction.ONLY_REFERRER),
        (UrlState.VISITED, 1_000, 0, False, LinkAction.ONLY_REFERRER),
        (UrlState.VISITED, 90_000, 0, True, LinkAction.REFRESH),
        (UrlState.VISITED, 90_000, NOON + 1, False, LinkAction.REFRESH),
        (UrlState.KNOWN, 0, 0, False, LinkAction.REFRESH),
        (UrlState.EXCLUDED, 90_000, 0, False, LinkAction.ONLY_REFERRER),
        (UrlState.GONE, 90_000, 0, False, LinkAction.ONLY_REFERRER),
        (UrlState.GONE, DAY_MS + 1, 0, False, LinkAction.QUEUE),
    ],
)
def test_link_to_a_known_page(
    state: UrlState, age_ms: int, not_before: int, waiting: bool, action: LinkAction
) -> None:
    age = RecrawlRules(Policy.AGE, max_age_ms=60_000, timer=False, on_link=True)
    without_queue = LinkAction.ONLY_REFERRER if action is LinkAction.QUEUE else action
    for rules, expected in (
        (age, action),
        (replace(age, on_link=False), without_queue),
        (replace(age, policy=Policy.NEVER), without_queue),
    ):
        result = on_link(
            rules,
            state=state,
            visited_at=NOON - age_ms,
            not_before=not_before,
            fails=1,
            now=NOON,
            waiting=waiting,
        )
        assert result is expected


def test_link_to_a_permanently_gone_page() -> None:
    age = RecrawlRules(Policy.AGE, on_link=True)
    actions = [
        on_link(
            age,
            state=UrlState.GONE,
            visited_at=NOON - days * DAY_MS,
            not_before=0,
            fails=50,
            now=NOON,
        ).value
        for days in (29, 31)
    ]
    assert actions == ["only_referrer", "queue"]


def test_solved_schedule_uses_its_budget_on_incomplete_rows() -> None:
    """Rows without importance or rate are treated alike by the solver and by the due time."""
    rules = RecrawlRules(Policy.FRESH, default_rate=0.5)
    depth = [0, 1, 2, 3] * 50
    weight, changes = [0.0, 2.0, 1.0, 0.0] * 50, [0.0, 0.1, 0.0, 3.0] * 50
    rules = replace(
        rules,
        threshold=solve(*weights_and_rates(rules, depth, weight, changes), budget_per_day=40.0),
    )
    frame = pl.DataFrame(
        {"depth": depth, "importance": weight, "change_rate": changes}
    ).with_columns(
        state=pl.lit("visited"),
        visited_at=pl.lit(NOON),
        not_before=pl.lit(None),
        fails=pl.lit(0),
        claim=pl.lit(None),
        silence=pl.lit(None),
    )
    waits = frame.select(due_expr(rules) - NOON).to_series().drop_nulls()
    assert (DAY_MS / waits.cast(pl.Float64)).sum() == pytest.approx(40.0, rel=1e-5)


def test_importance() -> None:
    assert importance(0, 0) == 1.0
    assert (
        importance(0, 1) < importance(0, 0) < importance(3, 0) < importance(3, 0, linking_hosts=2)
    )
    assert importance(-5, -5, -5) == 1.0
    assert importance(10**9, 200) > 0


@pytest.mark.parametrize(
    "invalid",
    [
        {"max_age_ms": 0},
        {"budget_per_day": 0.0},
        {"threshold": -1.0},
        {"daily_at": 1440},
        {"daily_at": -1},
        {"default_rate": 0.0},
        {"gone_longest_ms": 1},
        {"failed_longest_ms": 1},
        {"gone_first_ms": 0},
    ],
)
def test_invalid_rules_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RecrawlRules(**invalid)  # type: ignore[arg-type]
