from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from lycosa.core.records import Exchange, Request
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import DAY_MS, Rule, Rules, violations
from tests.servers.synthetic.request_log import Logged
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

START = 1_700_000_000_000


class FewSites:
    """a.farm.test and b.farm.test share a domain; /private is forbidden from the second hour on;
    a.farm.test asks for 5 s.
    """

    def robots_of(self, host_name: str, path: str, /) -> str:
        if path.startswith("/robots-of/"):
            return path.removeprefix("/robots-of/")
        return host_name if path == "/robots.txt" else ""

    def robots_allows(self, url: str, at_ms: int, /) -> bool:
        return not url.endswith("/private") or at_ms < START + 3_600_000

    def crawl_delay(self, host_name: str, at_ms: int, /) -> int:
        return 5_000 if host_name == "a.farm.test" else 0

    def registrable(self, host_name: str, /) -> str:
        return host_name.partition(".")[2] if "farm" in host_name else host_name


RULES = Rules(
    FewSites(), delay_ms=1_000, courtesy_factor=10.0, max_delay_ms=60_000, backoff_ms=60_000
)


def at(
    second: float,
    path: str = "/",
    *,
    host: str = "one.test",
    took: int = 10,
    status: int = 200,
    retry_after: int = 0,
    left: bool = False,
) -> Logged:
    arrived = START + round(second * 1_000)
    return Logged(host, path, arrived, arrived + took, status, 1, retry_after, left)


def robots(second: float, host: str = "one.test", status: int = 200) -> Logged:
    return at(second, "/robots.txt", host=host, status=status)


def broken(log: list[Logged], **changes: object) -> list[str]:
    return [violation.rule.value for violation in violations(log, replace(RULES, **changes))]  # type: ignore[arg-type]


def test_a_polite_log() -> None:
    log = [
        robots(0),
        at(1.01),
        at(2.02, took=500),
        at(7.52),
        at(8.53, status=404),
        at(9.54, "/private"),
        robots(3, "a.farm.test"),
    ]
    assert broken(log) == []
    assert broken([*log, at(8.02, host="a.farm.test"), at(13.03, host="a.farm.test")]) == []
    assert broken([]) == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([robots(0), at(1.0)], [Rule.DELAY]),
        ([robots(0), at(2, took=1_000), at(12.9)], [Rule.COURTESY]),
        ([robots(0), at(2, took=1_100, status=0, left=True), at(12.9)], [Rule.COURTESY]),
        ([robots(0), at(2, took=10_000), at(71.9)], [Rule.COURTESY]),  # capped at a minute
        ([robots(0), at(2, took=1_000), at(2.5), at(20)], [Rule.CONNECTIONS]),
        ([robots(0, "a.farm.test"), at(4, host="a.farm.test")], [Rule.CRAWL_DELAY]),
        ([robots(0), at(2, retry_after=90_000), at(60)], [Rule.RETRY_AFTER]),
        ([robots(0), at(2, retry_after=90_000), robots(60)], [Rule.RETRY_AFTER]),
        ([robots(0), at(2, status=503), at(61)], [Rule.BACKOFF]),
        ([robots(0), at(2, status=429), at(63, status=503), at(180)], [Rule.BACKOFF]),  # doubled
        ([at(0)], [Rule.ROBOTS_UNKNOWN]),
        ([robots(0, status=302), at(2)], [Rule.ROBOTS_UNKNOWN]),
        ([robots(0), at(2), at(86_401)], [Rule.ROBOTS_STALE]),
        ([robots(0, status=503), at(86_300)], [Rule.FORBIDDEN]),
        ([robots(0, status=0), at(2)], [Rule.FORBIDDEN]),
        ([robots(0), robots(3_601), at(3_700, "/private")], [Rule.FORBIDDEN]),
    ],
)
def test_each_rule_of_a_host(log: list[Logged], expected: list[Rule]) -> None:
    assert broken(log) == expected


@pytest.mark.parametrize(
    ("log", "changes"),
    [
        ([robots(0), at(2, took=10_000), at(72.1)], {}),  # the operator's part has its cap
        # robots.txt may be asked for in a back-off
        ([robots(0), at(2, status=503), robots(61)], {}),
        # a success forgives
        ([robots(0), at(2, status=503), at(63), at(124, status=503), at(185)], {}),
        ([robots(0), at(3_700, "/private")], {}),  # the file that we were given allowed it
        ([robots(0, status=404), at(2)], {}),
        ([robots(0), at(2, took=1_000), at(2.5), at(20)], {"connections": 2}),
        ([robots(0), at(1.0085)], {}),  # clocks are not exact
        # nor is the end of what the client left
        ([robots(0), at(2, took=1_100, status=0, left=True), at(13)], {}),
    ],
)
def test_what_is_allowed(log: list[Logged], changes: dict[str, object]) -> None:
    assert broken(log, **changes) == []


def test_rules_of_a_registrable_domain() -> None:
    first, second = "b.farm.test", "c.farm.test"
    log = [
        robots(0, first),
        robots(10, second),
        at(20, host=first, took=500),
        at(20.2, host=second),
        at(40, host=first, took=0),
    ]
    assert (broken(log), broken(log, domain_connections=1)) == ([], [Rule.DOMAIN_CONNECTIONS])
    assert broken(log, domain_gap_ms=500) == [Rule.DOMAIN_GAP]
    assert broken(log, domain_delay_ms=9_900) == []
    assert broken(log, domain_delay_ms=9_993) == [Rule.DOMAIN_DELAY, Rule.DOMAIN_DELAY]


def test_places_of_a_registrable_domain() -> None:
    a, b, c = "a.farm.test", "b.farm.test", "c.farm.test"
    log = [robots(0, a), robots(2, b), robots(4, c)]  # a.farm.test wants 5 s
    assert broken(log, domain_places=2) == []
    assert broken(log, domain_places=1) == [Rule.DOMAIN_PLACES, Rule.DOMAIN_PLACES]
    assert broken([robots(0, a), robots(2, b), robots(2.5, c)], domain_places=2) == [
        Rule.DOMAIN_PLACES
    ]
    assert broken([robots(0, a), robots(2, b), robots(3.02, c)], domain_places=2) == []
    slow = [robots(0, b), robots(2, c), at(4, host=b, took=3_000), at(5, host=c), robots(6.5, a)]
    assert broken(slow, domain_places=2) == []
    # b's place rests for 30 s, a's for 5
    assert broken([*slow, at(11, host=c)], domain_places=2) == [Rule.DOMAIN_PLACES]


def test_a_registrable_domain_rests_after_it_asked_to() -> None:
    first, second = "b.farm.test", "c.farm.test"
    log = [
        robots(0, first),
        robots(2, second),
        at(4, host=first, status=429, retry_after=90_000),
        at(4.5, host=second),
    ]
    assert broken(log, domain_rest=True) == []  # both were on their way
    assert broken([*log, at(60, host=second)]) == []
    assert broken([*log, at(60, host=second)], domain_rest=True) == [Rule.DOMAIN_REST]
    assert broken([*log, at(95, host=second)], domain_rest=True) == []
    long = at(4, host=first, status=503, retry_after=3_600_000)
    # ten minutes at most
    assert broken([*log[:2], long, at(610, host=second)], domain_rest=True) == []


def test_what_a_killed_robot_never_saw_binds_it_no_more_than_any_request() -> None:
    seen, lost = robots(0), at(2, status=503, took=1_000, retry_after=90_000)
    log = [seen, lost, at(4.1)]
    assert set(broken(log)) == {Rule.BACKOFF, Rule.COURTESY, Rule.RETRY_AFTER}
    assert broken(log, unseen=frozenset({lost})) == []
    assert broken([seen, lost, at(3.5)], unseen=frozenset({lost})) == [Rule.DELAY]
    assert broken([seen, at(2)], unseen=frozenset({seen})) == [Rule.ROBOTS_UNKNOWN]


def test_a_redirected_robots_file_counts_for_the_host_that_it_is_about() -> None:
    log = [
        robots(0, "two.test"),
        robots(0.5, status=302),
        at(0.6, "/robots-of/one.test", host="two.test"),
        at(2),
    ]
    assert (broken(log), broken([*log, at(0.61, host="two.test")])) == ([], [Rule.DELAY])


def test_a_violation_names_what_came_before_and_by_how_much() -> None:
    [actual] = violations([robots(0), at(0.6)], RULES)
    assert (actual.before, actual.early_ms) == (robots(0), 410)


@dataclass
class Robot:
    """A small polite robot: it knows all pages, and asks each host for them one by one. `lapse` is
    what it forgets.
    """

    web: Web
    lapse: str = ""

    def crawl(self) -> list[Logged]:
        clock = SimulatedClock(self.web.plan.epoch_ms)
        fetcher = SimulatedFetcher(self.web, clock)
        paths = {host.name: self.paths(host.name) for host in self.web.open_hosts()}
        due = [(clock.now_ms(), name) for name in paths]
        while due or fetcher.active:
            while due and due[0][0] <= clock.now_ms():
                _, name = heapq.heappop(due)
                path = paths[name].pop(0)
                fetcher.start(
                    Request(path if path.startswith("http") else f"http://{name}{path}", token=name)
                )
            timeout = due[0][0] - clock.now_ms() if due else DAY_MS
            if not fetcher.active:
                clock.sleep(timeout)
            for exchange in fetcher.wait(timeout):
                name = str(exchange.token)
                pause = self.pause(name, exchange, paths[name])
                if paths[name]:
                    heapq.heappush(due, (clock.now_ms() + pause, name))
        return fetcher.log

    def paths(self, name: str) -> list[str]:
        host = self.web.layout.hosts.by_name(name)
        assert host is not None
        paths = [
            "/robots.txt",
            *(self.web.layout.path(host, number) for number in range(min(host.size, 6))),
        ]
        if self.lapse == "forbidden":
            paths.append("/private/1")
        return paths[1:] if self.lapse == "robots_unknown" else paths

    def pause(self, name: str, exchange: Exchange, left: list[str]) -> int:
        """Also puts a robots.txt that was not had, or led elsewhere, in front of what is left."""
        head = exchange.response_head.decode()
        location = head.partition("Location: ")[2].partition("\r\n")[0]
        if location:
            left.insert(0, location)
        about = self.web.robots_of(exchange.url.split("/")[2], "/" + exchange.url.split("/", 3)[3])
        backoff = 0
        if about and exchange.status in (0, 503):
            left.insert(0, "/robots.txt")
            return 600_000
        elif exchange.status in (429, 503):
            backoff = 3_600_000
        parts = {
            "delay": 1_000,
            "courtesy": 10 * exchange.duration_ms,
            "crawl_delay": self.web.crawl_delay(name),
            "retry_after": self.web.plan.window_ms if "Retry-After" in head else 0,
            "backoff": backoff,
        }
        retained = [milliseconds for part, milliseconds in parts.items() if part != self.lapse]
        return 0 if self.lapse == "all" else max(retained)


LIVELY = Web(
    WebPlan(
        seed=2,
        hosts=120,
        pages=700,
        limiting=0.15,
        failing=0.15,
        slow=0.2,
        crawl_delay=0.3,
        failing_share=0.5,
    )
)


def rules_for(web: Web) -> Rules:
    return Rules(web, delay_ms=1_000, courtesy_factor=10.0, max_delay_ms=DAY_MS, backoff_ms=60_000)


def test_a_polite_robot_violates_nothing() -> None:
    log = Robot(LIVELY).crawl()
    assert len(log) > 400
    assert {429, 503, 302, 404} <= {entry.status for entry in log}
    assert violations(log, rules_for(LIVELY)) == []


@pytest.mark.parametrize(
    "lapse", ["delay", "courtesy", "crawl_delay", "forbidden", "robots_unknown"]
)
def test_a_lapse_is_found(lapse: str) -> None:
    actual = Counter(
        violation.rule.value
        for violation in violations(Robot(LIVELY, lapse).crawl(), rules_for(LIVELY))
    )
    assert set(actual) == {lapse}


def test_a_robot_that_never_waits_breaks_every_pause() -> None:
    actual = Counter(
        violation.rule.value
        for violation in violations(Robot(LIVELY, "all").crawl(), rules_for(LIVELY))
    )
    assert {"delay", "courtesy", "crawl_delay", "retry_after", "backoff"} <= set(actual)
