"""A frontier reduced to its clocks, in simulated time: polite by the server's log, and no slower
than politeness makes it.

It also shows how the clocks are meant to be used: a queue of hosts by time, and one entry for each
domain that has a line.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.domain_clock import BUSY
from lycosa.frontier.politeness.waiting_lines import WaitingLines


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


class Simulation:
    """Everything that is due is started at once; `steps` counts the entries of the queue that were
    looked at.
    """

    def __init__(self, sites: list[Site], rules: ClockRules) -> None:
        self.sites = {site.key: site for site in sites}
        self.left = {site.key: site.pages for site in sites}
        self.clocks = Clocks(rules)
        self._lines = WaitingLines()
        self.now = 0
        self.log: list[Served] = []
        self.steps = 0
        self._queue: list[tuple[int, int, str]] = []  # (time, host or 0, domain)
        self._scheduled: dict[str, int] = {}
        self._ends: list[tuple[int, int, int]] = []  # (end, host, start)

    def run(self) -> None:
        for site in self.sites.values():
            heapq.heappush(self._queue, (0, site.key, ""))
        while self._queue or self._ends:
            self.now = max(
                self.now, min(entries[0][0] for entries in (self._queue, self._ends) if entries)
            )
            while self._ends and self._ends[0][0] <= self.now:
                self._finish(*heapq.heappop(self._ends))
            while self._queue and self._queue[0][0] <= self.now:
                self._look(*heapq.heappop(self._queue))

    def _look(self, at: int, host: int, domain: str) -> None:
        self.steps += 1
        if host:
            self._try(self.sites[host])
            return
        if self._scheduled.get(domain) != at:
            return
        del self._scheduled[domain]
        if (
            self.clocks.domain_ready_at(domain) <= self.now
            and (first := self._lines.pop(domain)) is not None
        ):
            self._try(self.sites[first])
        self._schedule_domain(domain)

    def _try(self, site: Site) -> None:
        at = self.clocks.ready_at(site.key, site.domain)
        if at <= self.now:
            self.clocks.started(site.key, site.domain, self.now)
            heapq.heappush(self._ends, (self.now + site.took, site.key, self.now))
        elif self.clocks.domain_ready_at(site.domain) > self.now:
            self._lines.join(site.key, site.domain)
            self._schedule_domain(site.domain)
        elif at < BUSY:
            heapq.heappush(self._queue, (at, site.key, ""))

    def _finish(self, end: int, host: int, start: int) -> None:
        site = self.sites[host]
        self.clocks.finished(host, site.domain, end, site.pause)
        self.log.append(Served(host, site.domain, start, end, site.pause))
        self.left[host] -= 1
        if self.left[host]:
            heapq.heappush(self._queue, (end + site.pause, host, ""))
        self._schedule_domain(site.domain)

    def _schedule_domain(self, domain: str) -> None:
        at = self.clocks.domain_ready_at(domain)
        if at < BUSY and domain in self._lines and self._scheduled.get(domain) != at:
            self._scheduled[domain] = at
            heapq.heappush(self._queue, (max(at, self.now), 0, domain))


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
    simulation = Simulation(web, ClockRules(domain_connections=places))
    simulation.run()
    check_log(simulation.log, places)
    assert Counter(served.host for served in simulation.log) == {
        site.key: site.pages for site in web
    }
    for domain in ("large.test", "small7.test", "7.test"):
        mine = [site for site in web if site.domain == domain]
        work = sum(site.pages * (site.took + site.pause) for site in mine)
        longest = max(site.pages * (site.took + site.pause) for site in mine)
        rests = max(site.took + site.pause for site in mine)
        end = max(served.end + served.pause for served in simulation.log if served.domain == domain)
        assert end <= max(work / places * 1.1, longest) + rests


def test_no_host_of_a_domain_waits_for_ever() -> None:
    simulation = Simulation(sites({"large.test": 300}, 3), ClockRules())
    simulation.run()
    order = [served.host for served in sorted(simulation.log, key=lambda each: each.start)]
    assert sorted(order[:300]) == list(range(1, 301))  # every host once before any twice


def test_the_work_for_a_fetch_does_not_grow_with_the_domain() -> None:
    steps = []
    for hosts in (100, 1_000):
        simulation = Simulation(sites({"large.test": hosts}, 3), ClockRules())
        simulation.run()
        steps.append(simulation.steps / len(simulation.log))
    assert steps[1] < 1.2 * steps[0] < 6
