"""Outages and notices in simulated time, by the real checker, detector and notifier: what is planted is
found, noise is not.
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
    return [f"http://site-{place}.example/" for place in range(number)]


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
    return lambda asked, at: how if asked == url and since <= at < until else FINE


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
def test_how_a_page_stands_check_by_check(checks: str, changes: list[str]) -> None:
    standing = MonitorState()
    assert [
        standing.add("up" if each == "u" else "status", "", at, 2)
        for at, each in enumerate(checks, 1)
    ] == changes


def test_runs_of_equal_checks_say_the_same_as_each_of_them() -> None:
    chance = random.Random(7)
    for _ in range(300):
        single, grouped = MonitorState(), MonitorState()
        at = 1
        for _ in range(chance.randint(1, 8)):
            verdict, count = chance.choice(["up", "connect"]), chance.randint(1, 5)
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
def test_an_outage_is_found_within_two_intervals_and_told_once_with_its_end(
    how: Answer, every: int
) -> None:
    urls = sites(6)
    since, until = 10 * every + 1_234, 20 * every
    world = simulated(
        down_between(urls[2], since, until, how),
        urls,
        30 * every,
        every=f"{every}ms",
        expect="well",
    )
    ((found_at, outage),) = [
        (at, event) for at, event in world.events if isinstance(event, Outage) and not event.until
    ]
    assert outage.url == urls[2]
    assert found_at - since <= 2 * every
    ((over_at, over),) = [
        (at, event) for at, event in world.events if isinstance(event, Outage) and event.until
    ]
    assert (over.key, over_at - until <= 2 * every) == (outage.key, True)
    assert [notice.kind for notice in world.notices] == ["down", "up"]
    assert len({notice.id.partition("-")[2] for notice in world.notices}) == 1


def test_a_host_with_fifty_monitors_gives_one_notice_that_names_what_is_down_and_one_when_all_is_well() -> (
    None
):
    urls = [f"http://big.example/{place}" for place in range(50)]
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


def test_many_sites_at_once_give_few_notices() -> None:
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
def test_our_own_network_is_one_event_of_its_own(number: int) -> None:
    urls = sites(number)
    world = simulated(
        lambda url, at: Answer(5, 0, "dns") if 10 * MINUTE <= at < 20 * MINUTE else FINE,
        urls,
        40 * MINUTE,
    )
    assert not world.outages
    assert [notice.kind for notice in world.notices] == ["offline", "online"]
    assert world.offlines[0].since - world.start_ms <= 11 * MINUTE


def test_a_site_that_is_still_down_when_our_network_is_back_is_told_then() -> None:
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


def test_a_site_that_is_down_keeps_no_network_from_being_so_and_two_sites_on_one_machine_are_one_place() -> (
    None
):
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


def test_after_a_kill_in_an_outage_nothing_is_told_twice_and_nothing_is_missed() -> None:
    urls = sites(5)
    for killed_at in range(10 * MINUTE, 13 * MINUTE, 13_100):
        world = World(down_between(urls[1], 10 * MINUTE, 20 * MINUTE, Answer(status=503)))
        world.checker.watch(monitor(url) for url in urls)
        world.run(killed_at)
        stood = history_of(world)
        world.begin()
        world.checker.watch(monitor(url) for url in urls)
        over = world.detector.restore(
            stood, {}, world.notifier.notified_keys(), world.notifier.offline_since()
        )
        world.notifier.add(over)
        world.run(30 * MINUTE)
        assert [notice.kind for notice in world.notices] == ["down", "up"], killed_at
        assert len({notice.id.partition("-")[2] for notice in world.notices}) == 1


def test_a_certificate_that_ends_soon_is_told_once_and_again_when_another_one_does() -> None:
    ends = [1_700_000_000_000 + 10 * DAY, 1_700_000_000_000 + 300 * DAY]
    world = World(lambda url, at: Answer(certificate_until=ends[at > HOUR]))
    world.checker.watch([monitor("https://safe.example/"), monitor("https://safe.example/b")])
    world.run(2 * HOUR)
    (notice,) = world.notices
    assert (notice.kind, notice.facts["days"]) == ("certificate", 9)


@pytest.mark.proves("politeness-checks")
def test_checks_of_a_host_keep_its_pause_and_their_intervals() -> None:
    urls = [f"http://one.example/{place}" for place in range(20)]
    asked: list[int] = []

    def answer(url: str, at: int) -> Answer:
        asked.append(at)
        return Answer(300)

    simulated(answer, urls, HOUR, pause="2s")
    assert min(later - earlier for earlier, later in pairwise(asked)) >= 2_300
    assert 20 * 58 <= len(asked) <= 20 * 61


def test_a_simulated_day_of_noise_gives_no_alert() -> None:
    """Lost packets, slow answers, resets, stretches of a few seconds without a host or without our
    network.
    """
    events, notices, checks, failed = day_of_noise(seed=20_261_122, monitors=15)
    assert checks > 15 * 1_400
    assert failed > 90  # there was noise
    assert (events, notices) == (0, 0)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(4))
def test_days_of_noise_with_two_hundred_monitors(seed: int) -> None:
    events, notices, checks, failed = day_of_noise(seed=seed, monitors=200)
    assert checks > 200 * 1_400
    assert failed > 1_000
    assert (events, notices) == (0, 0)


def day_of_noise(seed: int, monitors: int) -> tuple[int, int, int, int]:
    """(events, notices, checks, failed checks) of a day. A packet is lost with 2 %: a SYN is sent
    again after 1, 3, 7 s; answers take 80 ms in the median with a long tail, one in a hundred 1 to
    9 s; 0.3 % are reset; every host is away six times a day for up to 18 s, and four times all of
    them.
    """
    chance = random.Random(seed)
    urls = sites(monitors)
    away = {
        url: [
            (start, start + chance.randint(1_000, 18_000))
            for start in (chance.randrange(DAY) for _ in range(6))
        ]
        for url in urls
    }
    silent = [
        (start, start + chance.randint(1_000, 15_000))
        for start in (chance.randrange(DAY) for _ in range(4))
    ]

    def answer(url: str, at: int) -> Answer:
        if any(start <= at < end for start, end in silent):
            return HANGS
        if any(start <= at < end for start, end in away[url]):
            return chance.choice([REFUSED, HANGS, Answer(status=502)])
        if chance.random() < 0.003:
            return Answer(100, 0, "reset")
        waited = 0
        for step in (1_000, 2_000, 4_000, 8_000):
            if chance.random() >= 0.02:
                break
            waited += step
        slow = (
            chance.uniform(1_000, 9_000)
            if chance.random() < 0.01
            else 80 * chance.lognormvariate(0, 0.8)
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
    """How the archived checks say that every monitor stood."""
    found: dict[str, MonitorState] = {}
    for visit in sorted(world.visits, key=lambda each: each.fetched_at):
        found.setdefault(visit.url, MonitorState()).add(
            visit.verdict or "", "", visit.fetched_at, 3
        )
    return found
