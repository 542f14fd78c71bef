"""The pause between two fetches, case by case."""

from __future__ import annotations

import pytest

from lycosa.frontier.politeness import BACKOFF_CAP_MS, Pace, backoff_ms, pause_ms, retry_after_ms

PACE = Pace(delay_ms=1_000, courtesy_factor=10, max_delay_ms=600_000, backoff_ms=5_000)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"duration_ms": 20}, 1_000),  # the minimum
        ({"duration_ms": 300}, 3_000),  # the courtesy factor
        ({"duration_ms": 100_000}, 600_000),  # capped
        ({"duration_ms": 20, "crawl_delay_ms": 7_000}, 7_000),
        ({"duration_ms": 20, "crawl_delay_ms": 900_000}, 900_000),  # what the site asks for is not capped
        ({"duration_ms": 20, "retry_after_ms": 3_600_000}, 3_600_000),
        ({"duration_ms": 20, "failures": 1}, 5_000),
        ({"duration_ms": 20, "failures": 3}, 20_000),
        ({"duration_ms": 20, "failures": 3, "retry_after_ms": 1_000}, 20_000),
    ],
)
def test_the_pause_is_the_largest_of_what_is_asked(asked: dict[str, int], expected: int) -> None:
    assert pause_ms(PACE, **asked) == expected


def test_no_delay_means_none_but_a_crawl_delay_still_holds() -> None:
    free = Pace(0, 0, 600_000, 5_000)
    assert pause_ms(free, duration_ms=5_000) == 0
    assert pause_ms(free, duration_ms=5_000, crawl_delay_ms=200) == 200


def test_back_off_doubles_up_to_a_day() -> None:
    assert [backoff_ms(5_000, failures) for failures in range(4)] == [0, 5_000, 10_000, 20_000]
    assert backoff_ms(5_000, 10_000) == BACKOFF_CAP_MS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, 0),
        ("", 0),
        ("120", 120_000),
        (" 0 ", 0),
        ("-5", 0),
        ("soon", 0),
        ("99999999999999999999", 7 * 86_400_000),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30_000),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),  # in the past
        ("²", 0),
    ],
)
def test_retry_after(value: str | None, expected: int) -> None:
    assert retry_after_ms(value, 1_445_412_480_000) == expected
