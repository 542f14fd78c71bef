"""The pause between two fetches, case by case."""

from __future__ import annotations

import time
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.settings import Collection
from lycosa.frontier.politeness.delay import (
    BACKOFF_CAP_MS,
    BACKOFF_JITTER,
    DOMAIN_CAP_MS,
    HOST_BACKOFF_MS,
    DelayRules,
    backoff_ms,
    domain_pause_ms,
    domain_wide_pause_ms,
    failures_after,
    pause_ms,
    reasons,
    retry_after_ms,
    transfer_ms,
)

PACE = DelayRules(delay_ms=1_000, courtesy_factor=10, max_delay_ms=600_000, backoff_ms=5_000)
SCOOTER = DelayRules(delay_ms=0, courtesy_factor=100, max_delay_ms=600_000)


@pytest.mark.parametrize(
    ("inputs", "rule", "expected"),
    [
        ({"duration_ms": 20}, "delay", 1_000),
        ({"duration_ms": 300}, "courtesy_factor", 3_000),
        ({"duration_ms": 100_000}, "max_delay", 600_000),
        ({"duration_ms": 20, "crawl_delay_ms": 7_000}, "crawl_delay", 7_000),
        # what the site asks for is not capped
        ({"duration_ms": 20, "crawl_delay_ms": 900_000}, "crawl_delay", 900_000),
        ({"duration_ms": 20, "retry_after_ms": 3_600_000}, "retry_after", 3_600_000),
        ({"duration_ms": 20, "failures": 1}, "back_off", 5_000),
        ({"duration_ms": 20, "failures": 3}, "back_off", 20_000),
        ({"duration_ms": 20, "failures": 3, "retry_after_ms": 1_000}, "back_off", 20_000),
        ({"duration_ms": 20, "slow_down": 4.0}, "slow_down", 4_000),
        ({"duration_ms": 300, "slow_down": 4.0}, "slow_down", 12_000),
        ({"duration_ms": 20, "slow_down": 2.0, "crawl_delay_ms": 7_000}, "slow_down", 14_000),
        ({"duration_ms": 50_000, "slow_down": 8.0}, "slow_down", 600_000),
        ({"duration_ms": 20, "slow_down": 8.0, "crawl_delay_ms": 900_000}, "crawl_delay", 900_000),
        ({"duration_ms": 20, "slow_down": 8.0, "retry_after_ms": 60_000}, "retry_after", 60_000),
    ],
)
def test_the_pause_is_the_largest_of_what_is_asked(
    inputs: dict[str, int], rule: str, expected: int
) -> None:
    assert pause_ms(reasons(PACE, **inputs)) == expected
    assert reasons(PACE, **inputs)[0] == (rule, expected)


@pytest.mark.parametrize(
    ("took", "pause"), [(0, 0), (10, 1_000), (3_000, 300_000), (6_000, 600_000), (60_000, 600_000)]
)
def test_a_factor_of_100_keeps_us_under_a_hundredth_of_a_sites_capacity(
    took: int, pause: int
) -> None:
    assert pause_ms(reasons(SCOOTER, duration_ms=took)) == pause


def test_every_part_is_told_longest_first() -> None:
    inputs = reasons(
        PACE,
        duration_ms=200,
        crawl_delay_ms=5_000,
        retry_after_ms=60_000,
        failures=1,
        slow_down=1.5,
    )
    assert inputs == [
        ("retry_after", 60_000),
        ("slow_down", 7_500),
        ("back_off", 5_000),
        ("crawl_delay", 5_000),
        ("courtesy_factor", 2_000),
        ("delay", 1_000),
    ]


def test_no_delay_means_none_but_what_the_site_asks_for_still_holds() -> None:
    free = DelayRules(0, 0, 600_000, 5_000)
    assert (
        pause_ms(reasons(free, duration_ms=5_000))
        == pause_ms(reasons(free, duration_ms=5_000, slow_down=8.0))
        == 0
    )
    assert reasons(free, duration_ms=5_000) == []
    assert pause_ms(reasons(free, duration_ms=5_000, crawl_delay_ms=200)) == 200


def test_a_delay_above_the_cap_is_what_the_operator_wants() -> None:
    assert pause_ms(reasons(DelayRules(900_000, 10, 600_000), duration_ms=100_000)) == 900_000


def test_only_the_servers_own_time_counts() -> None:
    assert transfer_ms(5_200, 5_000) == 200
    assert transfer_ms(5, 6) == 0  # both are rounded
    assert transfer_ms(10_000, 0, sent=False) == 0  # no connection came about


def test_the_pace_of_a_collection() -> None:
    collection = Collection.model_validate({"delay": "2s", "courtesy_factor": 3, "max_delay": "1h"})
    assert DelayRules.of(collection) == DelayRules(2_000, 3, 3_600_000, HOST_BACKOFF_MS)
    assert DelayRules.of(collection, 7).backoff_ms == 7


def test_what_a_fetch_means_for_the_rest_of_its_domain() -> None:
    down = reasons(PACE, duration_ms=20, failures=20)
    assert domain_pause_ms(down) == 1_000
    assert domain_wide_pause_ms(0, down) == 0  # a name without a server
    busy = reasons(PACE, duration_ms=20, retry_after_ms=120_000, failures=1)
    assert (
        domain_pause_ms(busy),
        domain_wide_pause_ms(429, busy),
        domain_wide_pause_ms(503, busy),
    ) == (
        1_000,
        120_000,
        120_000,
    )
    assert domain_wide_pause_ms(500, busy) == 0
    maintenance = reasons(PACE, duration_ms=20, retry_after_ms=86_400_000)
    assert domain_wide_pause_ms(503, maintenance) == DOMAIN_CAP_MS
    assert domain_pause_ms(reasons(PACE, duration_ms=20, crawl_delay_ms=3_600_000)) == DOMAIN_CAP_MS
    assert domain_pause_ms(reasons(PACE, duration_ms=500, slow_down=3.0)) == 15_000
    assert domain_pause_ms([]) == domain_wide_pause_ms(429, []) == 0


def test_back_off_doubles_up_to_a_day() -> None:
    assert [backoff_ms(5_000, failures) for failures in range(4)] == [0, 5_000, 10_000, 20_000]
    assert backoff_ms(5_000, 10_000) == BACKOFF_CAP_MS


@given(st.integers(1, 2 * BACKOFF_CAP_MS), st.integers(1, 100), st.integers(0, 2**64 - 1))
def test_jitter_stays_within_the_bounds_and_is_the_same_again(
    first: int, failures: int, key: int
) -> None:
    wait = backoff_ms(first, failures, key)
    assert wait == backoff_ms(first, failures, key)
    assert min(first, BACKOFF_CAP_MS) <= wait <= BACKOFF_CAP_MS
    assert wait <= backoff_ms(first, failures) * (1 + BACKOFF_JITTER) + 1
    assert wait >= backoff_ms(first, failures) / (1 + BACKOFF_JITTER) - 1


def test_hosts_that_failed_together_do_not_return_together() -> None:
    for failures in (1, 5, 30):
        waits = [backoff_ms(HOST_BACKOFF_MS, failures, key) for key in range(1_000)]
        assert max(waits) > 1.2 * min(waits)
        assert len({wait * 10 // max(waits) for wait in waits}) >= 3  # over the whole range
    waits = [backoff_ms(HOST_BACKOFF_MS, failures, 7) for failures in range(1, 12)]
    assert waits == sorted(waits)
    assert (
        len(
            {
                round(wait / backoff_ms(HOST_BACKOFF_MS, number + 1), 2)
                for number, wait in enumerate(waits)
            }
        )
        > 4
    )


def test_a_first_back_off_close_to_the_cap_is_not_made_shorter() -> None:
    assert all(80_000_000 <= backoff_ms(80_000_000, 1, key) <= BACKOFF_CAP_MS for key in range(50))


def test_failures_are_forgiven_step_by_step() -> None:
    assert failures_after(0, True) == 1
    assert failures_after(0, False) == failures_after(1, False) == 0
    after = list(accumulate([True] * 30 + [False] * 4, failures_after, initial=0))
    assert after[30:] == [30, 6, 3, 1, 0]
    pauses = [backoff_ms(HOST_BACKOFF_MS, failures) // 60_000 for failures in after[30:]]
    assert pauses == [24 * 60, 32, 4, 1, 0]


NOW = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, 0),
        ("", 0),
        ("120", 120_000),
        (" 0 ", 0),
        ("-5", 0),
        ("1.5", 1_000),
        ("soon", 0),
        ("99999999999999999999", 7 * 86_400_000),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30_000),
        ("Wednesday, 21-Oct-15 07:28:30 GMT", 30_000),
        ("Wed Oct 21 07:28:30 2015", 30_000),
        ("Wed, 21 Oct 2015 07:28:30 -0000", 30_000),
        ("Wed, 21 Oct 2015 09:28:30 +0200", 30_000),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),  # in the past
        ("Wed, 21 Oct 9999 07:27:00 GMT", 7 * 86_400_000),
        ("²", 0),
    ],
)
def test_retry_after(value: str | None, expected: int) -> None:
    assert retry_after_ms(value, NOW) == expected


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_a_date_without_a_zone_does_not_depend_on_where_we_are(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        assert retry_after_ms("Wed Oct 21 07:28:30 2015", NOW) == 30_000
    time.tzset()


def test_a_server_whose_clock_is_slow_means_its_own_time() -> None:
    value = "Wed, 21 Oct 2015 06:30:00 GMT"
    assert retry_after_ms(value, NOW) == 0
    assert retry_after_ms(value, NOW, "Wed, 21 Oct 2015 06:28:00 GMT") == 120_000
    # the longer
    assert (
        retry_after_ms("Wed, 21 Oct 2015 07:30:00 GMT", NOW, "Wed, 21 Oct 2015 07:29:59 GMT")
        == 120_000
    )
    assert retry_after_ms(value, NOW, "yesterday") == 0


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_raises(value: str, date: str) -> None:
    assert 0 <= retry_after_ms(value, NOW, date) <= 7 * 86_400_000
