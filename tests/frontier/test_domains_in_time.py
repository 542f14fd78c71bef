"""The frontier in simulated time, with large domains.

The crawl is polite according to the log of the servers, and no slower than politeness requires.
The figures of docs/explanation/webmasters.md are correct.
"""

from __future__ import annotations

import heapq
import random
import re
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from lycosa.config.settings import Collection, FetchSettings
from lycosa.core.host_row import HostRow
from lycosa.core.version import VERSION
from lycosa.crawl.policy.robots_cache import MAX_HOPS, UNREACHABLE_TTL_MS
from lycosa.fetch.robots_txt import (
    MAX_CACHE_MS,
    MAX_CRAWL_DELAY_MS,
    MAX_ROBOTS_BYTES,
    MIN_CACHE_MS,
    Robots,
)
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.delay import (
    BACKOFF_CAP_MS,
    DOMAIN_CAP_MS,
    HOST_BACKOFF_MS,
    DelayRules,
    backoff_ms,
    failures_after,
    pause_ms,
    reasons,
)
from lycosa.frontier.politeness.latency import MAX_SLOW_DOWN, SLOW_FROM
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.http.fields import ACCEPT_ENCODING, RETRY_AFTER_CAP_MS, default_fields
from tests.frontier.test_frontier import url_row


class Site(NamedTuple):
    """A host with the duration of its fetches and the pause after each.

    Both are in milliseconds.
    """

    key: int
    domain: str
    pages: int
    took: int
    pause: int


class Served(NamedTuple):
    host: int
    domain: str
    start: int
    end: int
    pause: int


class CountedClocks(Clocks):
    """Counts how often a host is considered."""

    calls = 0

    def host_ready_at(self, host_key: int) -> int:
        self.calls += 1
        return super().host_ready_at(host_key)


def crawl(web: list[Site], places: int) -> tuple[list[Served], float]:
    """Fetch all pages, each as soon as the frontier returns it.

    Return the log of the servers, and how many hosts were considered per fetch.
    """
    clocks = CountedClocks(ClockRules(domain_connections=places))
    frontier = Frontier(clocks)
    for site in web:
        frontier.open_host(HostRow(f"h{site.key}", 0, site.key, site.domain, 0))
        for number in range(site.pages):
            frontier.add(url_row(site.key, number))
    by_key = {site.key: site for site in web}
    log: list[Served] = []
    in_flight: list[tuple[int, int, int]] = []  # heap of (end, host, start)
    now = 0
    while in_flight or frontier.next_time() is not None:
        times = [in_flight[0][0]] if in_flight else []
        due = frontier.next_time()
        now = max(now, min([*times, *([due] if due is not None else [])]))
        while in_flight and in_flight[0][0] <= now:
            end, host, start = heapq.heappop(in_flight)
            site = by_key[host]
            frontier.finished(host, end, site.pause)
            log.append(Served(host, site.domain, start, end, site.pause))
        while rows := frontier.next(now):
            host = rows[0].id.host_key
            heapq.heappush(in_flight, (now + by_key[host].took, host, now))
    return log, clocks.calls / len(log)


def sites(domains: dict[str, int], pages: int, seed: int = 1) -> list[Site]:
    chance = random.Random(seed)
    result: list[Site] = []
    for domain, hosts in domains.items():
        for _ in range(hosts):
            took = chance.choice((5, 20, 300))
            result.append(Site(len(result) + 1, domain, pages, took, max(1_000, 10 * took)))
    return result


def check_log(log: list[Served], places: int) -> None:
    """Assert that all requests respect the pauses and connection limits."""
    by_domain: dict[str, list[Served]] = defaultdict(list)
    paused_until: dict[int, int] = {}
    for served in sorted(log, key=lambda each: each.start):
        assert served.start >= paused_until.get(served.host, 0)
        paused_until[served.host] = served.end + served.pause
        busy = [
            other for other in by_domain[served.domain] if other.end + other.pause > served.start
        ]
        assert len(busy) < places
        by_domain[served.domain] = [*busy, served]


@pytest.mark.parametrize("places", [1, 2, 5])
def test_crawl_is_polite_complete_and_as_fast_as_permitted(places: int) -> None:
    web = sites(
        {
            "large.test": 400,
            **{f"small{number}.test": 3 for number in range(60)},
            **{f"{number}.test": 1 for number in range(60)},
        },
        4,
    )
    log, _ = crawl(web, places)
    check_log(log, places)
    assert Counter(served.host for served in log) == {site.key: site.pages for site in web}
    for domain in ("large.test", "small7.test", "7.test"):
        mine = [site for site in web if site.domain == domain]
        work = sum(site.pages * (site.took + site.pause) for site in mine)
        longest = max(site.pages * (site.took + site.pause) for site in mine)
        longest_turn = max(site.took + site.pause for site in mine)
        end = max(served.end + served.pause for served in log if served.domain == domain)
        assert end <= max(work / places * 1.1, longest) + longest_turn


@pytest.mark.parametrize("places", [1, 2, 5])
def test_hosts_of_a_domain_alternate(places: int) -> None:
    """The second page of a host is fetched after the first pages of all hosts of the domain."""
    hosts = 300
    log, _ = crawl([Site(key, "large.test", 4, 5, 1_000) for key in range(1, hosts + 1)], places)
    order = [served.host for served in sorted(log, key=lambda each: each.start)]
    for start in range(0, 4 * hosts, hosts):
        assert len(set(order[start : start + hosts])) == hosts
    log, _ = crawl(sites({"large.test": hosts}, 4), places)
    order = [served.host for served in sorted(log, key=lambda each: each.start)]
    assert len(set(order[:hosts])) >= hosts - places


def test_work_per_fetch_does_not_grow_with_the_domain() -> None:
    considered = [crawl(sites({"large.test": hosts}, 3), 2)[1] for hosts in (100, 1_000)]
    assert considered[1] < 1.2 * considered[0] < 12


_SOURCE = (Path(__file__).parents[2] / "docs/explanation/webmasters.md").read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", _SOURCE)
BLOCKS = re.findall(r"(?:^    .*\n)+", _SOURCE, flags=re.M)

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
SLOW = reasons(DelayRules.of(Collection()), duration_ms=3 * SECOND)
FETCH, COLLECTION = FetchSettings(), Collection()
AFTER_AN_OUTAGE = list(accumulate([True] * 100 + [False] * 4, failures_after, initial=0))[101:]
"""Failure counts after 100 failures and then one to four successes."""


@pytest.mark.proves("politeness-figures")
@pytest.mark.parametrize(
    ("statement", "is_true"),
    [
        ("| connections per host | 1 | 1 to 16 |", COLLECTION.connections_per_host == 1),
        ("- one second,", COLLECTION.delay == SECOND),
        ("ten times the duration of the last transfer", COLLECTION.courtesy_factor == 10),
        (
            "a response of 3 seconds leads to a pause of 30 seconds",
            pause_ms(SLOW) == 30 * SECOND,
        ),
        (
            "Each further failure doubles the pause, up to one day",
            (HOST_BACKOFF_MS, BACKOFF_CAP_MS) == (MINUTE, 24 * HOUR),
        ),
        ("takes at least twice its usual time", SLOW_FROM == 2),
        ("up to eight times", MAX_SLOW_DOWN == 8),
        ("no response arrives within 20 seconds", FETCH.first_byte_timeout == 20 * SECOND),
        (
            "the pauses that follow its first successes are about 32, 4 and 1 minutes",
            failures_after(8, False) == 4
            and [backoff_ms(HOST_BACKOFF_MS, failures) for failures in AFTER_AN_OUTAGE]
            == [32 * MINUTE, 4 * MINUTE, MINUTE, 0],
        ),
        ("share two connections", COLLECTION.domain_connections == 2),
        ("pauses the others, for up to ten minutes", DOMAIN_CAP_MS == 10 * MINUTE),
        ("share four connections", COLLECTION.address_connections == 4),
        ("`Crawl-delay` is obeyed up to one hour", MAX_CRAWL_DELAY_MS == HOUR),
        ("`Retry-After` on 429 and 503 up to one week", RETRY_AFTER_CAP_MS == 7 * 24 * HOUR),
        ("This pause is at most ten minutes", COLLECTION.max_delay == 10 * MINUTE),
        ("at most the first 10 MiB", FETCH.max_body == 10 * 2**20),
        ("at most ten hops", FETCH.max_redirects == 10),
        (
            "three retries, then again after one day",
            (FETCH.retries, FETCH.retry_later) == (3, 24 * HOUR),
        ),
        ("then every half hour", UNREACHABLE_TTL_MS == HOUR // 2),
        ("At most five redirects are followed", MAX_HOPS == 5),
        ("The first 512 KiB are read", MAX_ROBOTS_BYTES == 512 * 1024),
        ("The file is cached for at most 24 hours", MAX_CACHE_MS == 24 * HOUR),
        ("to one hour at the least", MIN_CACHE_MS == HOUR),
        ("at most once per hour", MIN_CACHE_MS == HOUR),
        ("gzip, deflate, br and zstd", ACCEPT_ENCODING == "gzip, deflate, br, zstd"),
        (
            '| `rel="nofollow"` on a single link | obeyed | can be ignored |',
            COLLECTION.respect_nofollow,
        ),
    ],
)
def test_figures_of_the_webmaster_page_equal_the_code(statement: str, is_true: bool) -> None:
    assert statement in PAGE
    assert is_true


@pytest.mark.proves("politeness-connections", "politeness-figures")
@pytest.mark.parametrize(
    ("row", "setting", "least", "most"),
    [
        ("| connections per host | 1 | 1 to 16 |", "connections_per_host", 1, 16),
        ("| connections per registrable domain | 2 | 1 to 64 |", "domain_connections", 1, 64),
        ("| connections per IP address | 4 | 0 (no limit) to 256 |", "address_connections", 0, 256),
    ],
)
def test_limits_of_settings_equal_the_webmaster_page(
    row: str, setting: str, least: int, most: int
) -> None:
    assert row in PAGE
    for value in (least, most):
        assert getattr(Collection.model_validate({setting: value}), setting) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ValidationError, match=setting):
            Collection.model_validate({setting: value})


def test_examples_of_the_webmaster_page_behave_as_described() -> None:
    agent, rules, away = (re.sub(r"^    ", "", block, flags=re.M) for block in BLOCKS)
    sent = default_fields(FetchSettings(contact="https://newsroom.example/crawler"))
    assert agent.strip().encode() in [bytes(line) for line in sent]
    robots = Robots(rules, f"lycosa/{VERSION}")
    paths = ("/", "/search/", "/search/x?y", "/search/about", "/a/b.zip", "/a/b.zip?c", "/a/b.ZIP")
    assert [robots.allowed(f"https://site.test{path}") for path in paths] == [
        True,
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert robots.crawl_delay_ms() == 5 * SECOND
    assert not Robots(away, f"lycosa/{VERSION}").allowed("https://site.test/")
    assert Robots(away, "other/1").allowed("https://site.test/")
