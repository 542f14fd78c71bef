"""The frontier in simulated time, with large domains: polite by the log of the servers, and no
slower than politeness requires.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from lycosa.core.records import HostRow
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.scheduler.frontier import Frontier
from tests.frontier.test_frontier import url_row


class Site(NamedTuple):
    """A host, and what each of its fetches takes and asks for, in milliseconds."""

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

    looks = 0

    def host_ready_at(self, host_key: int) -> int:
        self.looks += 1
        return super().host_ready_at(host_key)


def crawl(web: list[Site], places: int) -> tuple[list[Served], float]:
    """Fetch all pages, each as soon as the frontier returns it.

    Return the log of the servers, and how often a host was considered for each fetch.
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
    return log, clocks.looks / len(log)


def sites(domains: dict[str, int], pages: int, seed: int = 1) -> list[Site]:
    chance = random.Random(seed)
    result: list[Site] = []
    for domain, hosts in domains.items():
        for _ in range(hosts):
            took = chance.choice((5, 20, 300))
            result.append(Site(len(result) + 1, domain, pages, took, max(1_000, 10 * took)))
    return result


def check_log(log: list[Served], places: int) -> None:
    """From what the servers saw: hosts and domains, each arrival against what was under way or
    resting then.
    """
    by_domain: dict[str, list[Served]] = defaultdict(list)
    rested: dict[int, int] = {}
    for served in sorted(log, key=lambda each: each.start):
        assert served.start >= rested.get(served.host, 0)
        rested[served.host] = served.end + served.pause
        busy = [
            other for other in by_domain[served.domain] if other.end + other.pause > served.start
        ]
        assert len(busy) < places
        by_domain[served.domain] = [*busy, served]


@pytest.mark.parametrize("places", [1, 2, 5])
def test_polite_complete_and_as_quick_as_allowed(places: int) -> None:
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
        rests = max(site.took + site.pause for site in mine)
        end = max(served.end + served.pause for served in log if served.domain == domain)
        assert end <= max(work / places * 1.1, longest) + rests


@pytest.mark.parametrize("places", [1, 2, 5])
def test_hosts_of_a_domain_take_turns(places: int) -> None:
    """A second page of a host comes after the first of every other one, whatever their pauses."""
    hosts = 300
    log, _ = crawl([Site(key, "large.test", 4, 5, 1_000) for key in range(1, hosts + 1)], places)
    order = [served.host for served in sorted(log, key=lambda each: each.start)]
    for start in range(0, 4 * hosts, hosts):
        assert len(set(order[start : start + hosts])) == hosts
    log, _ = crawl(sites({"large.test": hosts}, 4), places)
    order = [served.host for served in sorted(log, key=lambda each: each.start)]
    assert len(set(order[:hosts])) >= hosts - places


def test_the_work_for_a_fetch_does_not_grow_with_the_domain() -> None:
    looks = [crawl(sites({"large.test": hosts}, 3), 2)[1] for hosts in (100, 1_000)]
    assert looks[1] < 1.2 * looks[0] < 12
