"""Politeness clocks of hosts, domains and IP addresses.

Tests of single rules, and a model-based test that checks the rules against a log of all fetches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lycosa.config.settings import Collection
from lycosa.frontier.politeness.clocks import BUSY, ClockRules, Clocks, DomainClock, monotonic_from
from lycosa.frontier.politeness.delay import DOMAIN_CAP_MS
from lycosa.http.fields import RETRY_AFTER_CAP_MS

SITE = "site.test"


def fetch(
    clocks: Clocks, host: int, start: int, took: int, pause: int, domain: str = SITE, **more: object
) -> None:
    assert clocks.ready_at(host, domain) <= start
    clocks.started(host, domain, start)
    clocks.finished(host, domain, start + took, pause, **more)  # type: ignore[arg-type]


def test_pause_of_a_host_starts_at_the_end_of_its_fetch() -> None:
    clocks = Clocks(ClockRules())
    assert clocks.ready_at(1, SITE) == 0
    clocks.started(1, SITE, 100)
    assert clocks.ready_at(1, SITE) == BUSY
    clocks.finished(1, SITE, 150, 1_000)
    assert clocks.ready_at(1, SITE) == 1_150


def test_shorter_pause_does_not_shorten_a_longer_one() -> None:
    clocks = Clocks(ClockRules(connections_per_host=2))
    clocks.started(1, SITE, 0)
    clocks.started(1, SITE, 0)
    clocks.finished(1, SITE, 10, 60_000)  # a 429
    clocks.finished(1, SITE, 20, 1_000)
    assert clocks.ready_at(1, SITE) == 60_010
    clocks.delay(1, 30, 500)
    assert clocks.ready_at(1, SITE) == 60_010
    clocks.delay(1, 30, 90_000)
    assert clocks.ready_at(1, SITE) == 90_000


def test_connections_per_host_may_exceed_those_of_the_domain() -> None:
    clocks = Clocks(ClockRules(connections_per_host=3, domain_connections=1))
    for _ in range(3):
        assert clocks.ready_at(1, SITE) == 0
        clocks.started(1, SITE, 0)
    assert clocks.ready_at(1, SITE) == clocks.ready_at(2, SITE) == BUSY


@pytest.mark.proves("politeness-domain")
def test_domain_has_two_connections() -> None:
    clocks = Clocks(ClockRules())
    clocks.started(1, SITE, 0)
    assert clocks.ready_at(2, SITE) == 0
    clocks.started(2, SITE, 0)
    assert (clocks.ready_at(3, SITE), clocks.ready_at(3, "other.test")) == (BUSY, 0)
    clocks.finished(1, SITE, 100, 1_000)
    assert clocks.ready_at(3, SITE) == 1_100  # one connection is in use, the other one pauses
    clocks.finished(2, SITE, 300, 1_000)
    assert clocks.ready_at(3, SITE) == 1_100
    clocks.started(3, SITE, 1_100)
    assert clocks.ready_at(4, SITE) == 1_300
    clocks.finished(3, SITE, 1_200, 5_000)
    assert clocks.ready_at(4, SITE) == 1_300


def test_domain_stores_at_most_one_pause_per_connection() -> None:
    clock = DomainClock()
    for until in (5, 900, 7, 800, 6):
        clock.pause_place(until, 2)
    assert (clock.pausing_places, (clock.ready_at(2), clock.paused_until())) == (
        [800, 900],
        (800, 900),
    )


ONE_CONNECTION = ClockRules(domain_connections=1)
BURST = {"may_burst": True}


@pytest.mark.parametrize(
    ("rules", "fetches", "ready"),
    [
        pytest.param(
            ONE_CONNECTION, [(0, 1_000, {})], {2: 1_010}, id="one connection for the whole domain"
        ),
        pytest.param(
            ONE_CONNECTION,
            [(0, 86_400_000, {"domain_pause": 1_000})],
            {2: 1_010, 1: 86_400_010},
            id="pause of the domain is shorter than that of the host",
        ),
        pytest.param(
            ClockRules(burst=5),
            [(0, 1_000, BURST), (10, 60_000, {})],
            {1: 61_020},
            id="burst ends with a response that requires a pause",
        ),
        pytest.param(
            ClockRules(burst=2),
            [(0, 1_000, BURST), (5_000, 1_000, BURST)],
            {1: 5_010},
            id="half a burst is forgotten after its pause",
        ),
        pytest.param(
            ClockRules(burst=2),
            [(0, 1_000, BURST), (5_000, 1_000, BURST), (5_010, 1_000, BURST)],
            {1: 7_020},
            id="next burst starts afterwards",
        ),
        pytest.param(
            ClockRules(burst=1), [(0, 1_000, BURST)], {1: 1_010}, id="burst not configured"
        ),
        pytest.param(ClockRules(burst=4), [(0, 1_000, {})], {1: 1_010}, id="burst not permitted"),
    ],
)
def test_ready_times_after_fetches_from_the_first_host(
    rules: ClockRules, fetches: list[tuple[int, int, dict[str, Any]]], ready: dict[int, int]
) -> None:
    clocks = Clocks(rules)
    for start, pause, more in fetches:
        fetch(clocks, 1, start, 10, pause, **more)
    assert {host: clocks.ready_at(host, SITE) for host in ready} == ready


@pytest.mark.proves("politeness-domain")
def test_429_pauses_the_whole_domain() -> None:
    clocks = Clocks(ClockRules())
    fetch(clocks, 1, 0, 10, 120_000)
    clocks.delay_domain(SITE, 10, 120_010)
    assert clocks.ready_at(2, SITE) == 120_010


@pytest.mark.proves("politeness-address")
def test_hosts_behind_one_address_share_its_connections() -> None:
    assert Clocks(ClockRules()).ready_at(1, SITE, "192.0.2.1") == 0
    single = Clocks(ClockRules(address_connections=1))
    single.started(1, "site1.test", 0, "192.0.2.1")
    assert single.ready_at(2, "site2.test", "192.0.2.1") == BUSY
    clocks = Clocks(ClockRules(address_connections=2))
    for host in (1, 2):
        clocks.started(host, f"site{host}.test", 0, "192.0.2.1")
    assert clocks.ready_at(3, "site3.test", "192.0.2.1") == BUSY
    assert clocks.ready_at(3, "site3.test", "192.0.2.2") == clocks.ready_at(3, "site3.test") == 0
    clocks.finished(1, "site1.test", 10, 1_000, address="192.0.2.1")
    assert clocks.ready_at(3, "site3.test", "192.0.2.1") == 0


def test_pauses_of_a_burst_follow_after_it() -> None:
    clocks = Clocks(ClockRules(domain_connections=1, burst=3))
    fetch(clocks, 1, 0, 10, 1_000, may_burst=True)
    assert (clocks.ready_at(1, SITE), clocks.ready_at(2, SITE)) == (10, 1_010)
    fetch(clocks, 1, 10, 10, 1_000, may_burst=True)
    assert (clocks.ready_at(1, SITE), clocks.ready_at(2, SITE)) == (20, 2_020)
    fetch(clocks, 1, 20, 10, 1_000, may_burst=True)
    assert clocks.ready_at(1, SITE) == clocks.ready_at(2, SITE) == 3_030
    fetch(clocks, 1, 3_030, 10, 1_000, may_burst=True)
    assert clocks.ready_at(1, SITE) == 3_040  # the next burst has started


def test_burst_uses_one_connection_of_its_domain() -> None:
    clocks = Clocks(ClockRules(burst=3))
    fetch(clocks, 1, 0, 10, 1_000, may_burst=True)
    clocks.started(1, SITE, 10)
    assert clocks.ready_at(2, SITE) == 0
    clocks.undone(1, SITE)
    fetch(clocks, 2, 10, 10, 1_000)
    assert (clocks.ready_at(3, SITE), clocks.ready_at(1, SITE)) == (1_010, 10)
    clocks.delay_domain(SITE, 20, 500)
    clocks.delay_domain(SITE, 20, 400)
    assert clocks.ready_at(1, SITE) == 500


def test_tidy_keeps_the_state_of_an_unfinished_burst() -> None:
    clocks = Clocks(ClockRules(burst=2))
    fetch(clocks, 1, 0, 10, 1_000, may_burst=True)
    clocks.remove_expired(100)
    fetch(clocks, 1, 100, 10, 1_000, may_burst=True)
    assert clocks.ready_at(1, SITE) == 2_110
    fetch(clocks, 1, 3_000, 10, 1_000, may_burst=True)
    assert clocks.remove(1) == 4_010


def test_undone_request_leaves_no_pause() -> None:
    clocks = Clocks(ClockRules(domain_connections=1, address_connections=1))
    clocks.started(1, SITE, 0, "192.0.2.1")
    clocks.undone(1, SITE, "192.0.2.1")
    assert clocks.ready_at(1, SITE, "192.0.2.1") == clocks.ready_at(2, SITE, "192.0.2.1") == 0
    with pytest.raises(ValueError, match="not started"):
        clocks.finished(1, SITE, 0, 0)


@pytest.mark.proves("politeness-workers")
def test_restored_host_counts_as_fetched_at_the_claim() -> None:
    now_ms, monotonic = 1_700_000_000_000, 9_000
    clocks = Clocks(ClockRules(), claimed_at=8_000)
    clocks.restore(1, SITE, 5_000, not_before=now_ms - 100, now_ms=now_ms, monotonic_ms=monotonic)
    assert clocks.ready_at(1, SITE) == clocks.ready_at(2, SITE) == 13_000
    clocks.restore(
        3, "late.test", 500, not_before=now_ms + 60_000, now_ms=now_ms, monotonic_ms=monotonic
    )
    assert clocks.ready_at(3, "late.test") == 69_000
    assert clocks.ready_at(4, "late.test") == 0  # not_before of one host does not pause another
    clocks.restore(5, "slow.test", 3_600_000, not_before=0, now_ms=now_ms, monotonic_ms=monotonic)
    assert clocks.ready_at(6, "slow.test") == 8_000 + DOMAIN_CAP_MS
    assert clocks.ready_at(5, "slow.test") == 3_608_000
    clocks.restore_domain(
        "late.test", not_before=now_ms + 30_000, now_ms=now_ms, monotonic_ms=monotonic
    )
    assert clocks.ready_at(4, "late.test") == clocks.domain_paused_until("late.test") == 39_000


def test_conversion_of_stored_times_is_bounded() -> None:
    assert (monotonic_from(5_000, 2_000, 70_000), monotonic_from(1_000, 2_000, 70_000)) == (
        73_000,
        70_000,
    )
    assert monotonic_from(10**15, 2_000, 70_000) == 70_000 + RETRY_AFTER_CAP_MS


def test_unneeded_clocks_are_removed() -> None:
    clocks = Clocks(ClockRules())
    for number in range(20_000):
        fetch(clocks, number, number * 10, 5, 1_000, domain=f"site{number}.test")
    assert len(clocks) < 8_192  # a few hundred hosts pause at the same time
    clocks.started(7, SITE, 200_000)
    clocks.delay(9, 200_000, 10**9)
    clocks.remove_expired(10**8)
    assert len(clocks) == 3
    clocks.finished(7, SITE, 10**8, 1_000)
    clocks.remove_expired(10**8 + 2_000)
    assert len(clocks) == 1


def test_clocks_in_use_are_kept_when_tables_grow() -> None:
    clocks = Clocks(ClockRules())
    for number in range(20_000):
        clocks.started(number, f"site{number}.test", 0)
    for number in range(20_000):
        assert clocks.ready_at(number, f"site{number}.test") == BUSY
        clocks.finished(number, f"site{number}.test", 1, 1_000)


def test_remove_returns_the_end_of_the_pause() -> None:
    clocks = Clocks(ClockRules())
    fetch(clocks, 1, 0, 10, 86_400_000)
    assert (clocks.remove(1), clocks.remove(1)) == (86_400_010, 0)
    clocks.started(2, SITE, 0)
    with pytest.raises(ValueError, match="under way"):
        clocks.remove(2)


@pytest.mark.proves("politeness-collections")
def test_rules_of_several_collections_are_the_strictest() -> None:
    one = Collection.model_validate(
        {"connections_per_host": 3, "domain_connections": 2, "burst": 5}
    )
    other = Collection.model_validate(
        {"connections_per_host": 2, "domain_connections": 8, "address_connections": 1}
    )
    assert ClockRules.strictest([one, other]) == ClockRules(2, 2, 1, 1)


@dataclass(slots=True)
class Fetched:
    """One fetch as the server sees it, and the pauses due after it.

    `end` is None while the fetch is in flight.
    """

    host: int
    domain: str
    start: int
    end: int | None = None
    pause: int = 0
    domain_pause: int = 0


HOSTS = {1: "a.test", 2: "a.test", 3: "a.test", 4: "a.test", 5: "b.test", 6: "b.test"}
ADDRESSES = {1: "x", 2: "x", 3: "y", 4: "", 5: "x", 6: "y"}
PAUSES = st.sampled_from((0, 1, 500, 1_000, 3_000, 60_000, 700_000))


class ClockMachine(RuleBasedStateMachine):
    """Start and end fetches, pause, and restart in any order.

    Every decision is checked against the log of all fetches.
    """

    @initialize(
        per_host=st.sampled_from((1, 1, 2)),
        places=st.integers(1, 3),
        per_address=st.integers(0, 2),
        burst=st.sampled_from((1, 1, 3)),
    )
    def begin(self, per_host: int, places: int, per_address: int, burst: int) -> None:
        self.limits = ClockRules(per_host, places, per_address, burst)
        self.places = max(places, per_host)
        self.now = self.claimed_at = 1_000
        self.clocks = Clocks(self.limits, self.now)
        self.log: list[Fetched] = []
        self.host_paused_until: dict[int, int] = {}
        self.domain_paused_until: dict[str, int] = {}

    @rule(forward=st.sampled_from((0, 1, 100, 600, 1_000, 5_000, 1_000_000)))
    def wait(self, forward: int) -> None:
        self.now += forward

    @rule(
        host=st.sampled_from(list(HOSTS)),
        early=st.booleans(),
        sent=st.sampled_from((True, True, True, False)),
    )
    def start(self, host: int, early: bool, sent: bool) -> None:
        domain, address = HOSTS[host], ADDRESSES[host]
        at = self.clocks.ready_at(host, domain, address)
        if not early and at < BUSY:
            self.now = max(self.now, at)
        if self.limits.burst == 1:
            assert (at <= self.now) == self.may_start_by_log(host)
        if at > self.now:
            return
        self.clocks.started(host, domain, self.now, address)
        if not sent:
            self.clocks.undone(host, domain, address)
            return
        self.log.append(Fetched(host, domain, self.now))

    @rule(
        which=st.integers(0, 10),
        took=st.sampled_from((0, 20, 4_000)),
        pause=PAUSES,
        kind=st.sampled_from(("ok", "ok", "busy", "down")),
    )
    def finish(self, which: int, took: int, pause: int, kind: str) -> None:
        in_flight = [fetched for fetched in self.log if fetched.end is None]
        if not in_flight:
            return
        fetched = in_flight[which % len(in_flight)]
        self.now += took
        fetched.end, fetched.pause = self.now, pause
        fetched.domain_pause = min(pause, DOMAIN_CAP_MS) if kind == "ok" else min(pause, 1_000)
        address = ADDRESSES[fetched.host]
        self.clocks.finished(
            fetched.host,
            fetched.domain,
            self.now,
            pause,
            address=address,
            domain_pause=fetched.domain_pause,
            may_burst=kind == "ok",
        )
        if kind == "busy":
            until = self.now + min(pause, DOMAIN_CAP_MS)
            self.clocks.delay_domain(fetched.domain, self.now, until)
            self.domain_paused_until[fetched.domain] = max(
                self.domain_paused_until.get(fetched.domain, 0), until
            )

    @rule(host=st.sampled_from(list(HOSTS)), wait=PAUSES)
    def delay(self, host: int, wait: int) -> None:
        self.clocks.delay(host, self.now, self.now + wait)
        self.host_paused_until[host] = max(self.host_paused_until.get(host, 0), self.now + wait)

    @rule(host=st.sampled_from(list(HOSTS)))
    def remove(self, host: int) -> None:
        if any(fetched.host == host and fetched.end is None for fetched in self.log):
            return
        self.clocks.delay(host, self.now, self.clocks.remove(host))

    @rule()
    def tidy(self) -> None:
        self.clocks.remove_expired(self.now)

    @rule(
        clock_shift=st.sampled_from((0, 10**6, 10**12)),
        pause=st.sampled_from((500, 3_000)),
        late=st.sampled_from((0, 400)),
    )
    def restart(self, clock_shift: int, pause: int, late: int) -> None:
        """Simulate a killed worker.

        Fetches in flight are lost; the times in the tables are restored `late` ms after the claim.
        """
        stored = {host: self.ends(host) for host in HOSTS}
        domains = {domain: self.clocks.domain_paused_until(domain) for domain in HOSTS.values()}
        self.claimed_at = self.now
        self.clocks = Clocks(self.limits, self.now)
        self.now += late
        for fetched in self.log:
            if fetched.end is None:
                fetched.end, fetched.pause, fetched.domain_pause = self.claimed_at, pause, pause
        now_ms = self.now + clock_shift
        for host, domain in HOSTS.items():
            date = stored[host] + clock_shift
            self.clocks.restore(
                host, domain, pause, not_before=date, now_ms=now_ms, monotonic_ms=self.now
            )
            self.host_paused_until[host] = max(
                self.host_paused_until.get(host, 0), self.claimed_at + pause
            )
        for domain, until in domains.items():
            date = until + clock_shift
            self.clocks.restore_domain(
                domain, not_before=date, now_ms=now_ms, monotonic_ms=self.now
            )
            self.domain_paused_until[domain] = max(
                self.domain_paused_until.get(domain, 0), self.claimed_at + pause, until
            )

    def ends(self, host: int) -> int:
        pause_ends = [
            fetched.end + fetched.pause
            for fetched in self.log
            if fetched.host == host and fetched.end is not None
        ]
        return max([*pause_ends, self.host_paused_until.get(host, 0)])

    def may_start_by_log(self, host: int) -> bool:
        """Evaluate the politeness rules over the log of all fetches."""
        domain, address = HOSTS[host], ADDRESSES[host]
        mine = [fetched for fetched in self.log if fetched.host == host]
        in_flight = [fetched for fetched in self.log if fetched.end is None]
        return (
            self.now >= self.host_paused_until.get(host, 0)
            and self.now >= self.domain_paused_until.get(domain, 0)
            and all(
                fetched.end is None or self.now >= fetched.end + fetched.pause for fetched in mine
            )
            and sum(fetched.end is None for fetched in mine) < self.limits.connections_per_host
            and sum(
                self.holds_connection(fetched) for fetched in self.log if fetched.domain == domain
            )
            < self.places
            and (
                not (address and self.limits.address_connections)
                or sum(ADDRESSES[fetched.host] == address for fetched in in_flight)
                < self.limits.address_connections
            )
        )

    def holds_connection(self, fetched: Fetched) -> bool:
        return fetched.end is None or fetched.end + fetched.domain_pause > self.now

    @invariant()
    def average_holds(self) -> None:
        """Assert that all pauses of a host are observed, except one burst."""
        if not hasattr(self, "limits") or self.limits.connections_per_host > 1:
            return
        for host in HOSTS:
            mine = [
                fetched
                for fetched in self.log
                if fetched.host == host and fetched.start >= self.claimed_at
            ]
            for first in range(max(0, len(mine) - 12), len(mine)):
                paid = mine[first : max(len(mine) - self.limits.burst, first)]
                assert mine[-1].start - mine[first].start >= sum(fetched.pause for fetched in paid)


TestClocks = ClockMachine.TestCase
TestClocks.settings = settings(max_examples=150, stateful_step_count=50)


@pytest.mark.proves("politeness-address")
def test_workers_share_the_connections_of_an_address() -> None:
    clocks = Clocks(ClockRules(address_connections=4))
    clocks.share(2)
    for number in (1, 2):
        assert clocks.ready_at(number, f"site{number}.test", "192.0.2.1") == 0
        clocks.started(number, f"site{number}.test", 0, "192.0.2.1")
    assert clocks.ready_at(3, "site3.test", "192.0.2.1") == BUSY
    clocks.share(1)
    assert clocks.ready_at(3, "site3.test", "192.0.2.1") == 0
    clocks.share(9)  # more workers than connections: each still has one
    assert clocks.ready_at(4, "site4.test", "192.0.2.9") == 0
    unlimited = Clocks(ClockRules())
    unlimited.share(9)
    unlimited.started(1, "site1.test", 0, "192.0.2.1")
    assert unlimited.ready_at(2, "site2.test", "192.0.2.1") == 0
