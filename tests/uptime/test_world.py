"""Test outage detection and notifications in simulated time.

Outages are reported, noise is not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from lycosa.uptime.outages import Outage
from lycosa.uptime.results import MonitorState
from tests.uptime.world import FINE, HANGS, REFUSED, Answer, World, monitor

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def sites(number: int) -> list[str]:
    return [f"http://site-{index}.example/" for index in range(number)]


def simulated(
    answer: Callable[[str, int], Answer],
    urls: Iterable[str],
    duration_ms: int,
    addresses: dict[str, str] | None = None,
    **settings: str,
) -> World:
    """Monitor URLs for a simulated time."""
    world = World(answer, addresses=addresses or {})
    world.checker.watch(monitor(url, **settings) for url in urls)
    world.run(duration_ms)
    return world


def down_between(url: str, since: int, until: int, how: Answer) -> Callable[[str, int], Answer]:
    return lambda requested, at: how if requested == url and since <= at < until else FINE


@pytest.mark.parametrize(
    ("checks", "changes"),
    [
        ("uuuu", ["", "", "", ""]),
        ("uffu", ["", "failed", "failed", ""]),
        ("ufffuu", ["", "failed", "failed", "down", "recovers", "up"]),
        ("fffufuu", ["failed", "failed", "down", "recovers", "", "recovers", "up"]),
        ("ffuffuff", ["failed", "failed", "", "failed", "failed", "", "failed", "failed"]),
        (
            "ffffuufff",
            ["failed", "failed", "down", "", "recovers", "up", "failed", "failed", "down"],
        ),
    ],
)
def test_state_of_a_monitor_after_each_check(checks: str, changes: list[str]) -> None:
    state = MonitorState()
    assert [
        state.add("up" if each == "u" else "status", "", at, 2) for at, each in enumerate(checks, 1)
    ] == changes


def test_grouped_equal_checks_give_the_same_state_as_single_checks() -> None:
    generator = random.Random(7)
    for _ in range(300):
        single, grouped = MonitorState(), MonitorState()
        at = 1
        for _ in range(generator.randint(1, 8)):
            verdict, count = generator.choice(["up", "connect"]), generator.randint(1, 5)
            for number in range(count):
                single.add(verdict, "", at + number, 2)
            grouped.add(verdict, "", at, 2, count=count, last_at=at + count - 1)
            at += count
        assert (single.down, single.since, min(single.failures, 3), single.last_up_at) == (
            grouped.down,
            grouped.since,
            min(grouped.failures, 3),
            grouped.last_up_at,
        )


@pytest.mark.parametrize(
    "how",
    [
        REFUSED,
        HANGS,
        Answer(status=500),
        Answer(body=b"sold"),
        Answer(5, 0, "tls_certificate"),
        Answer(5, 0, "dns"),
    ],
    ids=str,
)
@pytest.mark.parametrize("every", [10_000, 60_000, 300_000])
def test_outage_and_its_end_are_reported_once_within_two_intervals(how: Answer, every: int) -> None:
    urls = sites(6)
    since, until = 10 * every + 1_234, 20 * every
    world = simulated(
        down_between(urls[2], since, until, how),
        urls,
        30 * every,
        every=f"{every}ms",
        expect="well",
    )
    ((detected_at, outage),) = [
        (at, event) for at, event in world.events if isinstance(event, Outage) and not event.until
    ]
    assert outage.url == urls[2]
    assert detected_at - since <= 2 * every
    ((ended_at, end),) = [
        (at, event) for at, event in world.events if isinstance(event, Outage) and event.until
    ]
    assert (end.key, ended_at - until <= 2 * every) == (outage.key, True)
    assert [notice.kind for notice in world.notices] == ["down", "up"]
    assert len({notice.id.partition("-")[2] for notice in world.notices}) == 1


def test_a_host_with_fifty_monitors_gives_one_notice_at_start_and_end_of_its_outage() -> None:
    urls = [f"http://big.example/{index}" for index in range(50)]
    others = sites(3)
    since, until = 10 * MINUTE, 40 * MINUTE
    world = simulated(
        lambda url, at: REFUSED if "big" in url and since <= at < until else FINE,
        [*urls, *others],
        60 * MINUTE,
        every="2m",
    )
    assert len(world.outages) == 50
    down, up = world.notices
    assert (down.kind, up.kind) == ("down", "up")
    assert down.url in urls
    assert "big.example" in down.text
    assert up.facts["monitors"] == 50


def test_simultaneous_outages_of_many_sites_are_grouped_in_few_notices() -> None:
    urls = sites(100)
    world = simulated(
        lambda url, at: REFUSED if url != urls[0] and 10 * MINUTE <= at < 30 * MINUTE else FINE,
        urls,
        60 * MINUTE,
    )
    assert len(world.outages) == 99
    downs = [notice for notice in world.notices if notice.kind == "down"]
    ups = [notice for notice in world.notices if notice.kind == "up"]
    assert (
        sum(int(notice.facts["monitors"]) for notice in downs)
        == sum(int(notice.facts["monitors"]) for notice in ups)
        == 99
    )
    assert len(downs) <= 4
    assert len(ups) <= 4


@pytest.mark.parametrize("number", [2, 3, 40])
def test_an_outage_of_the_local_network_is_a_single_event(number: int) -> None:
    urls = sites(number)
    world = simulated(
        lambda url, at: Answer(5, 0, "dns") if 10 * MINUTE <= at < 20 * MINUTE else FINE,
        urls,
        40 * MINUTE,
    )
    assert not world.outages
    assert [notice.kind for notice in world.notices] == ["offline", "online"]
    assert world.offlines[0].since - world.start_ms <= 11 * MINUTE


def test_an_outage_during_a_network_outage_is_reported_after_it() -> None:
    urls = sites(10)
    world = simulated(
        lambda url, at: (
            HANGS
            if 10 * MINUTE <= at < 20 * MINUTE
            else REFUSED
            if url == urls[4] and 15 * MINUTE <= at < HOUR
            else FINE
        ),
        urls,
        2 * HOUR,
    )
    assert [notice.kind for notice in world.notices] == ["offline", "online", "down", "up"]
    assert [outage.url for outage in world.outages] == [urls[4]]


def test_two_failing_sites_on_one_address_are_no_network_outage() -> None:
    urls = sites(3)
    same = {"site-0.example": "192.0.2.1", "site-1.example": "192.0.2.1"}
    world = simulated(
        lambda url, at: REFUSED if url in urls[:2] and at >= 10 * MINUTE else FINE,
        urls[:2],
        20 * MINUTE,
        addresses=same,
    )
    assert {outage.url for outage in world.outages} == set(urls[:2])
    assert not world.offlines


def test_a_kill_during_an_outage_repeats_and_loses_no_notice() -> None:
    urls = sites(5)
    for killed_at in range(10 * MINUTE, 13 * MINUTE, 13_100):
        world = World(down_between(urls[1], 10 * MINUTE, 20 * MINUTE, Answer(status=503)))
        world.checker.watch(monitor(url) for url in urls)
        world.run(killed_at)
        history = history_of(world)
        world.begin()
        world.checker.watch(monitor(url) for url in urls)
        changes = world.detector.restore(
            history, {}, world.notifier.notified_keys(), world.notifier.offline_since()
        )
        world.notifier.add(changes)
        world.run(30 * MINUTE)
        assert [notice.kind for notice in world.notices] == ["down", "up"], killed_at
        assert len({notice.id.partition("-")[2] for notice in world.notices}) == 1


def test_an_expiring_certificate_is_reported_once() -> None:
    ends = [1_700_000_000_000 + 10 * DAY, 1_700_000_000_000 + 300 * DAY]
    world = World(lambda url, at: Answer(certificate_until=ends[at > HOUR]))
    world.checker.watch([monitor("https://safe.example/"), monitor("https://safe.example/b")])
    world.run(2 * HOUR)
    (notice,) = world.notices
    assert (notice.kind, notice.facts["days"]) == ("certificate", 9)


@pytest.mark.proves("politeness-checks")
def test_checks_of_a_host_keep_its_pause_and_their_intervals() -> None:
    urls = [f"http://one.example/{index}" for index in range(20)]
    request_times: list[int] = []

    def answer(url: str, at: int) -> Answer:
        request_times.append(at)
        return Answer(300)

    simulated(answer, urls, HOUR, pause="2s")
    assert min(later - earlier for earlier, later in pairwise(request_times)) >= 2_300
    assert 20 * 58 <= len(request_times) <= 20 * 61


def test_a_shorter_interval_takes_effect_before_the_next_check_of_the_longer_one() -> None:
    world = simulated(lambda url, at: FINE, sites(1), MINUTE, every="1d")
    assert len(world.visits) == 1
    world.checker.watch([monitor(url, every="30s") for url in sites(1)])
    world.run(3 * MINUTE)
    times = [visit.fetched_at - world.start_ms for visit in world.visits]
    assert times == [0, 90_000, 120_000, 150_000]


def test_simulated_day_of_noise_gives_no_alert() -> None:
    """The noise is lost packets, resets, slow responses and short gaps."""
    events, notices, checks, failed = day_of_noise(seed=20_261_122, monitors=15)
    assert checks > 15 * 1_400
    assert failed > 90  # the simulation did produce noise
    assert (events, notices) == (0, 0)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(4))
def test_simulated_days_of_noise_give_no_alert(seed: int) -> None:
    events, notices, checks, failed = day_of_noise(seed=seed, monitors=200)
    assert checks > 200 * 1_400
    assert failed > 1_000
    assert (events, notices) == (0, 0)


def day_of_noise(seed: int, monitors: int) -> tuple[int, int, int, int]:
    """Simulate a day of network noise.

    Return the numbers of events, notices, checks and failed checks.

    2 % of packets are lost, and a SYN is sent again after 1, 3 and 7 s. The median response time is
    80 ms; 1 % of responses take 1 to 9 s, 0.3 % are reset. Each host is offline six times for up to
    18 s, and the local network four times for up to 15 s.
    """
    generator = random.Random(seed)
    urls = sites(monitors)
    host_gaps = {
        url: [
            (start, start + generator.randint(1_000, 18_000))
            for start in (generator.randrange(DAY) for _ in range(6))
        ]
        for url in urls
    }
    network_gaps = [
        (start, start + generator.randint(1_000, 15_000))
        for start in (generator.randrange(DAY) for _ in range(4))
    ]

    def answer(url: str, at: int) -> Answer:
        if any(start <= at < end for start, end in network_gaps):
            return HANGS
        if any(start <= at < end for start, end in host_gaps[url]):
            return generator.choice([REFUSED, HANGS, Answer(status=502)])
        if generator.random() < 0.003:
            return Answer(100, 0, "reset")
        waited = 0
        for step in (1_000, 2_000, 4_000, 8_000):
            if generator.random() >= 0.02:
                break
            waited += step
        slow = (
            generator.uniform(1_000, 9_000)
            if generator.random() < 0.01
            else 80 * generator.lognormvariate(0, 0.8)
        )
        return Answer(waited + round(slow))

    world = simulated(answer, urls, DAY)
    return (
        len(world.events),
        len(world.notices),
        len(world.visits),
        sum(visit.verdict != "up" for visit in world.visits),
    )


def history_of(world: World) -> dict[str, MonitorState]:
    """Replay the stored checks into the state of each monitor."""
    states: dict[str, MonitorState] = {}
    for visit in sorted(world.visits, key=lambda each: each.fetched_at):
        states.setdefault(visit.url, MonitorState()).add(
            visit.verdict or "", "", visit.fetched_at, 3
        )
    return states
