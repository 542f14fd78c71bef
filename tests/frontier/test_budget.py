from __future__ import annotations

import polars as pl

from lycosa.frontier.recrawl.change_rate import DAY_MS
from lycosa.frontier.recrawl.refetch_budget import PERIOD_MS, Budget

START = 1_700_000_000_000


def test_no_window_holds_more_than_its_share_and_ten_minutes_worth() -> None:
    budget = Budget(1_440.0, START)  # one a minute
    fetches, waiting = list[int](), list[int]()
    for now in range(START, START + DAY_MS, 5_000):
        budget.turn(now)
        if now % 30_000 == START % 30_000:
            waiting.append(now)  # twice what the budget has
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


def test_a_budget_saves_up_ten_minutes_and_not_more() -> None:
    budget = Budget(1_440.0, START)
    later = START + 10 * DAY_MS
    assert sum(budget.take(later, later) for _ in range(100)) == 10


def test_what_waits_comes_again_the_earliest_due_first() -> None:
    budget = Budget(144.0 * 5, START)  # five in ten minutes
    waiting = {START - 1_000 * number for number in range(1, 101)}
    fetched: list[int] = []
    now = START
    while waiting and now < START + DAY_MS:
        now += 10_000
        budget.turn(now)
        # the latest first
        offered = [due for due in sorted(waiting, reverse=True) if budget.earliest(due) <= now]
        for due in offered:
            if budget.take(due, now):
                fetched.append(sorted(waiting).index(due))
                waiting.discard(due)
    assert not waiting
    assert fetched[0] == 99  # nobody had been refused yet
    assert max(fetched[1:]) < 5  # of those that wait, one of the five that have waited longest


def test_what_is_held_waits_for_the_opening_in_rows_and_in_tables_alike() -> None:
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


def test_what_somebody_asked_for_is_paid_later() -> None:
    budget = Budget(144.0, START)
    assert budget.take(START, START)
    for _ in range(3):
        budget.spend()
    assert not any(budget.take(now, now) for now in range(START, START + PERIOD_MS // 2, 1_000))
    assert budget.spent == 4
