"""The pause between two fetches, and its increase for slow hosts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
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
    transfer_ms,
)
from lycosa.frontier.politeness.latency import (
    LEARNING,
    MAX_SLOW_DOWN,
    NOISE_MS,
    LatencyTracker,
    initial_latency,
    observe,
    slow_down,
)
from lycosa.http.fields import retry_after_ms

RULES = DelayRules(delay_ms=1_000, courtesy_factor=10, max_delay_ms=600_000, backoff_ms=5_000)
LARGE_FACTOR_RULES = DelayRules(delay_ms=0, courtesy_factor=100, max_delay_ms=600_000)


@pytest.mark.proves("politeness-pause", "politeness-crawl-delay")
@pytest.mark.parametrize(
    ("inputs", "rule", "expected"),
    [
        ({"duration_ms": 20}, "delay", 1_000),
        ({"duration_ms": 300}, "courtesy_factor", 3_000),
        ({"duration_ms": 100_000}, "max_delay", 600_000),
        ({"duration_ms": 20, "crawl_delay_ms": 7_000}, "crawl_delay", 7_000),
        # a delay that the site requests is not capped
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
def test_pause_is_the_longest_required_delay(
    inputs: dict[str, int], rule: str, expected: int
) -> None:
    assert pause_ms(reasons(RULES, **inputs)) == expected
    assert reasons(RULES, **inputs)[0] == (rule, expected)


@pytest.mark.parametrize(
    ("took", "pause"), [(0, 0), (10, 1_000), (3_000, 300_000), (6_000, 600_000), (60_000, 600_000)]
)
def test_courtesy_factor_of_100_multiplies_the_duration_by_100(took: int, pause: int) -> None:
    assert pause_ms(reasons(LARGE_FACTOR_RULES, duration_ms=took)) == pause


def test_reasons_are_sorted_longest_first() -> None:
    inputs = reasons(
        RULES,
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


@pytest.mark.proves("politeness-crawl-delay")
def test_zero_delay_still_observes_crawl_delay() -> None:
    free = DelayRules(0, 0, 600_000, 5_000)
    assert (
        pause_ms(reasons(free, duration_ms=5_000))
        == pause_ms(reasons(free, duration_ms=5_000, slow_down=8.0))
        == 0
    )
    assert reasons(free, duration_ms=5_000) == []
    assert pause_ms(reasons(free, duration_ms=5_000, crawl_delay_ms=200)) == 200


def test_configured_delay_may_exceed_max_delay() -> None:
    assert pause_ms(reasons(DelayRules(900_000, 10, 600_000), duration_ms=100_000)) == 900_000


def test_transfer_time_excludes_waiting_of_the_crawler() -> None:
    assert transfer_ms(5_200, 5_000) == 200
    assert transfer_ms(5, 6) == 0  # both values are rounded
    assert transfer_ms(10_000, 0, sent=False) == 0  # no connection was established


def test_delay_rules_of_a_collection() -> None:
    collection = Collection.model_validate({"delay": "2s", "courtesy_factor": 3, "max_delay": "1h"})
    assert DelayRules.of(collection) == DelayRules(2_000, 3, 3_600_000, HOST_BACKOFF_MS)
    assert DelayRules.of(collection, 7).backoff_ms == 7


@pytest.mark.proves("politeness-domain")
def test_domain_pauses_after_a_fetch() -> None:
    down = reasons(RULES, duration_ms=20, failures=20)
    assert domain_pause_ms(down) == 1_000
    assert domain_wide_pause_ms(0, down) == 0  # the host name does not resolve
    busy = reasons(RULES, duration_ms=20, retry_after_ms=120_000, failures=1)
    assert domain_pause_ms(busy) == 1_000
    assert [domain_wide_pause_ms(status, busy) for status in (429, 503, 500)] == [120_000] * 2 + [0]
    maintenance = reasons(RULES, duration_ms=20, retry_after_ms=86_400_000)
    assert domain_wide_pause_ms(503, maintenance) == DOMAIN_CAP_MS
    assert (
        domain_pause_ms(reasons(RULES, duration_ms=20, crawl_delay_ms=3_600_000)) == DOMAIN_CAP_MS
    )
    assert domain_pause_ms(reasons(RULES, duration_ms=500, slow_down=3.0)) == 15_000
    assert domain_pause_ms([]) == domain_wide_pause_ms(429, []) == 0


@pytest.mark.proves("politeness-back-off")
def test_back_off_doubles_up_to_a_day() -> None:
    assert [backoff_ms(5_000, failures) for failures in range(4)] == [0, 5_000, 10_000, 20_000]
    assert backoff_ms(5_000, 10_000) == BACKOFF_CAP_MS


@given(st.integers(1, 2 * BACKOFF_CAP_MS), st.integers(1, 100), st.integers(0, 2**64 - 1))
def test_jitter_is_bounded_and_deterministic(first: int, failures: int, key: int) -> None:
    wait = backoff_ms(first, failures, key)
    assert wait == backoff_ms(first, failures, key)
    assert min(first, BACKOFF_CAP_MS) <= wait <= BACKOFF_CAP_MS
    assert wait <= backoff_ms(first, failures) * (1 + BACKOFF_JITTER) + 1
    assert wait >= backoff_ms(first, failures) / (1 + BACKOFF_JITTER) - 1


def test_hosts_that_failed_together_are_retried_at_different_times() -> None:
    for failures in (1, 5, 30):
        waits = [backoff_ms(HOST_BACKOFF_MS, failures, key) for key in range(1_000)]
        assert max(waits) > 1.2 * min(waits)
        assert len({wait * 10 // max(waits) for wait in waits}) >= 3  # spread over the whole range
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


def test_jitter_does_not_shorten_a_back_off_close_to_the_cap() -> None:
    assert all(80_000_000 <= backoff_ms(80_000_000, 1, key) <= BACKOFF_CAP_MS for key in range(50))


@pytest.mark.proves("politeness-back-off")
def test_failure_count_decreases_with_each_success() -> None:
    assert failures_after(0, True) == 1
    assert failures_after(0, False) == failures_after(1, False) == 0
    after = list(accumulate([True] * 30 + [False] * 4, failures_after, initial=0))
    assert after[30:] == [30, 6, 3, 1, 0]
    pauses = [backoff_ms(HOST_BACKOFF_MS, failures) // 60_000 for failures in after[30:]]
    assert pauses == [24 * 60, 32, 4, 1, 0]


NOW = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.proves("politeness-retry-after")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, 0),
        ("", 0),
        ("120", 120_000),
        (" 0 ", 0),
        ("-5", 0),
        ("1.5", 1_000),
        ("120s", 120_000),
        ("120 Seconds", 120_000),
        ("120, 60", 120_000),
        ("120 minutes", 0),
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
def test_date_without_a_time_zone_is_utc(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        assert retry_after_ms("Wed Oct 21 07:28:30 2015", NOW) == 30_000
    time.tzset()


def test_retry_after_date_is_relative_to_the_servers_date() -> None:
    value = "Wed, 21 Oct 2015 06:30:00 GMT"
    assert retry_after_ms(value, NOW) == 0
    assert retry_after_ms(value, NOW, "Wed, 21 Oct 2015 06:28:00 GMT") == 120_000
    # the longer of the two differences counts
    assert (
        retry_after_ms("Wed, 21 Oct 2015 07:30:00 GMT", NOW, "Wed, 21 Oct 2015 07:29:59 GMT")
        == 120_000
    )
    assert retry_after_ms(value, NOW, "yesterday") == 0


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_header_gives_a_bounded_pause(value: str, date: str) -> None:
    assert 0 <= retry_after_ms(value, NOW, date) <= 7 * 86_400_000


def after(samples: Iterable[float], latency: LatencyTracker | None = None) -> LatencyTracker:
    latency = latency or LatencyTracker()
    for sample in samples:
        latency = observe(latency, sample)
    return latency


def around(middle: float, spread: float, number: int, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [middle * chance.lognormvariate(0, spread) for _ in range(number)]


def test_slow_down_follows_a_host_that_becomes_five_times_slower() -> None:
    latency = after([200.0] * 100)
    factors = []
    for _ in range(20):
        latency = observe(latency, 1_000)
        factors.append(slow_down(latency))
    assert (factors[1], factors) == (1.0, sorted(factors))
    assert 3.5 < factors[-1] <= 5
    latency = after([200.0] * 20, latency)
    assert slow_down(latency) == 1.0


def test_the_pause_grows_at_most_eightfold() -> None:
    assert slow_down(after([10_000.0] * 30, after([100.0] * 100))) == MAX_SLOW_DOWN


def test_less_than_twice_the_usual_latency_is_not_slow() -> None:
    assert slow_down(after([190.0] * 50, after([100.0] * 100))) == 1.0
    assert slow_down(after([250.0] * 25, after([100.0] * 100))) > 2.0


def test_one_slow_response_does_not_slow_down() -> None:
    assert slow_down(after([60_000.0], after([100.0] * 100))) == 1.0


def test_differences_of_a_few_milliseconds_are_ignored() -> None:
    assert slow_down(after([20.0] * 25, after([4.0] * 100))) == 1.0
    assert slow_down(after([NOISE_MS + 30] * 25, after([4.0] * 100))) > 2.0


def test_no_slow_down_before_enough_samples() -> None:
    for fast in range(12):
        assert slow_down(after([100.0] * fast + [10_000.0] * (12 - fast))) == 1.0
    assert slow_down(LatencyTracker()) == 1.0


def test_permanently_slow_host_becomes_the_usual_latency() -> None:
    latency = after([1_000.0] * 300, after([100.0] * 100))
    assert slow_down(latency) == 1.0
    assert latency.usual_ms == pytest.approx(1_000, rel=0.2)


@pytest.mark.parametrize(
    ("name", "samples", "max_share"),
    [
        ("pages of very different cost", around(200, 0.8, 5_000), 0.001),
        ("very large variance", around(200, 1.2, 5_000), 0.01),
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
def test_varying_latency_is_rarely_taken_for_slowness(
    name: str, samples: list[float], max_share: float
) -> None:
    latency, slowed = LatencyTracker(), 0
    for sample in samples:
        latency = observe(latency, sample)
        slowed += slow_down(latency) > 1
    assert slowed <= max_share * len(samples), name


@pytest.mark.parametrize("seed", range(5))
def test_slowness_is_detected_despite_noise(seed: int) -> None:
    usual = after(around(200, 0.5, 100, seed))
    assert slow_down(after(around(1_000, 0.5, 15, seed + 100), usual)) > 2.0


def test_usual_latency_survives_a_restart() -> None:
    latency = initial_latency(after([150.0] * 50).usual_ms)
    assert latency.usual_ms == pytest.approx(150)
    assert latency.samples == LEARNING
    assert slow_down(latency) == 1.0
    assert slow_down(after([1_500.0] * 20, latency)) > 2.0
    assert initial_latency(0) == LatencyTracker()


@given(st.lists(st.floats(0, 1e9), max_size=60))
def test_the_factor_is_always_between_one_and_eight(samples: list[float]) -> None:
    assert 1.0 <= slow_down(after(samples)) <= MAX_SLOW_DOWN
