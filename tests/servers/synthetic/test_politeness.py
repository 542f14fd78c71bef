"""Tests of the politeness checker: with short logs, and with a crawler that breaks one rule."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import pytest

from lycosa.core.records import Exchange, Request
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.politeness import DAY_MS, Rule, Rules, violations
from tests.servers.synthetic.request_log import LogEntry
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

START = 1_700_000_000_000


class FewSites:
    """Hosts of a log.

    Hosts of farm.test share a domain. After an hour, /private is disallowed. a.farm.test has a
    Crawl-delay of 5 s.
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
) -> LogEntry:
    arrived = START + round(second * 1_000)
    return LogEntry(host, path, arrived, arrived + took, status, 1, retry_after, left)


def robots(second: float, host: str = "one.test", status: int = 200) -> LogEntry:
    return at(second, "/robots.txt", host=host, status=status)


def violated_rules(log: list[LogEntry], **changes: object) -> list[str]:
    return [violation.rule.value for violation in violations(log, replace(RULES, **changes))]  # type: ignore[arg-type]


def test_polite_logs_have_no_violations() -> None:
    log = [
        robots(0),
        at(1.01),
        at(2.02, took=500),
        at(7.52),
        at(8.53, status=404),
        at(9.54, "/private"),
        robots(3, "a.farm.test"),
    ]
    assert violated_rules(log) == []
    assert violated_rules([*log, at(8.02, host="a.farm.test"), at(13.03, host="a.farm.test")]) == []
    assert violated_rules([]) == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([robots(0), at(1.0)], [Rule.DELAY]),
        ([robots(0), at(2, took=1_000), at(12.9)], [Rule.COURTESY]),
        ([robots(0), at(2, took=1_100, status=0, left=True), at(12.9)], [Rule.COURTESY]),
        ([robots(0), at(2, took=10_000), at(71.9)], [Rule.COURTESY]),  # at most a minute
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
def test_violations_of_each_rule_of_a_host_are_found(
    log: list[LogEntry], expected: list[Rule]
) -> None:
    assert violated_rules(log) == expected


@pytest.mark.parametrize(
    ("log", "changes"),
    [
        ([robots(0), at(2, took=10_000), at(72.1)], {}),  # courtesy has a maximum
        # robots.txt may be requested during a back-off
        ([robots(0), at(2, status=503), robots(61)], {}),
        # a success resets the back-off
        ([robots(0), at(2, status=503), at(63), at(124, status=503), at(185)], {}),
        ([robots(0), at(3_700, "/private")], {}),  # allowed by the robots.txt last received
        ([robots(0, status=404), at(2)], {}),
        ([robots(0), at(2, took=1_000), at(2.5), at(20)], {"connections": 2}),
        ([robots(0), at(1.0085)], {}),  # within the tolerance of the clocks
        # the server notices a closed connection late
        ([robots(0), at(2, took=1_100, status=0, left=True), at(13)], {}),
    ],
)
def test_polite_requests_of_a_host_are_allowed(
    log: list[LogEntry], changes: dict[str, object]
) -> None:
    assert violated_rules(log, **changes) == []


def test_connections_and_pauses_of_a_registrable_domain() -> None:
    first, second = "b.farm.test", "c.farm.test"
    log = [
        robots(0, first),
        robots(10, second),
        at(20, host=first, took=500),
        at(20.2, host=second),
        at(40, host=first, took=0),
    ]
    assert (violated_rules(log), violated_rules(log, domain_connections=1)) == (
        [],
        [Rule.DOMAIN_CONNECTIONS],
    )
    assert violated_rules(log, domain_gap_ms=500) == [Rule.DOMAIN_GAP]
    assert violated_rules(log, domain_delay_ms=9_900) == []
    assert violated_rules(log, domain_delay_ms=9_993) == [Rule.DOMAIN_DELAY, Rule.DOMAIN_DELAY]


def test_slots_of_a_registrable_domain() -> None:
    a, b, c = "a.farm.test", "b.farm.test", "c.farm.test"
    log = [robots(0, a), robots(2, b), robots(4, c)]  # a.farm.test has a Crawl-delay of 5 s
    assert violated_rules(log, domain_slots=2) == []
    assert violated_rules(log, domain_slots=1) == [Rule.DOMAIN_SLOTS, Rule.DOMAIN_SLOTS]
    assert violated_rules([robots(0, a), robots(2, b), robots(2.5, c)], domain_slots=2) == [
        Rule.DOMAIN_SLOTS
    ]
    assert violated_rules([robots(0, a), robots(2, b), robots(3.02, c)], domain_slots=2) == []
    slow = [robots(0, b), robots(2, c), at(4, host=b, took=3_000), at(5, host=c), robots(6.5, a)]
    assert violated_rules(slow, domain_slots=2) == []
    # the slot of b is occupied for 30 s, that of a for 5 s
    assert violated_rules([*slow, at(11, host=c)], domain_slots=2) == [Rule.DOMAIN_SLOTS]


def test_429_and_503_pause_all_hosts_of_a_registrable_domain() -> None:
    first, second = "b.farm.test", "c.farm.test"
    log = [
        robots(0, first),
        robots(2, second),
        at(4, host=first, status=429, retry_after=90_000),
        at(4.5, host=second),
    ]
    assert violated_rules(log, domain_pause=True) == []  # sent before the 429 arrived
    assert violated_rules([*log, at(60, host=second)]) == []
    assert violated_rules([*log, at(60, host=second)], domain_pause=True) == [Rule.DOMAIN_REST]
    assert violated_rules([*log, at(95, host=second)], domain_pause=True) == []
    long = at(4, host=first, status=503, retry_after=3_600_000)
    # the pause is at most 10 minutes
    assert violated_rules([*log[:2], long, at(610, host=second)], domain_pause=True) == []


def test_responses_that_a_killed_crawler_did_not_process_require_the_delay_only() -> None:
    seen, lost = robots(0), at(2, status=503, took=1_000, retry_after=90_000)
    log = [seen, lost, at(4.1)]
    assert set(violated_rules(log)) == {Rule.BACKOFF, Rule.COURTESY, Rule.RETRY_AFTER}
    assert violated_rules(log, unseen=frozenset({lost})) == []
    assert violated_rules([seen, lost, at(3.5)], unseen=frozenset({lost})) == [Rule.DELAY]
    assert violated_rules([seen, at(2)], unseen=frozenset({seen})) == [Rule.ROBOTS_UNKNOWN]


def test_redirected_robots_txt_applies_to_the_host_that_redirects() -> None:
    log = [
        robots(0, "two.test"),
        robots(0.5, status=302),
        at(0.6, "/robots-of/one.test", host="two.test"),
        at(2),
    ]
    assert (violated_rules(log), violated_rules([*log, at(0.61, host="two.test")])) == (
        [],
        [Rule.DELAY],
    )


def test_a_violation_has_the_previous_request_and_the_missing_time() -> None:
    [violation] = violations([robots(0), at(0.6)], RULES)
    assert (violation.before, violation.early_ms) == (robots(0), 410)


@dataclass
class Crawler:
    """A polite crawler that requests known pages of all hosts, one at a time per host.

    `ignored_rule`: the rule that it violates; "all": it does not pause.
    """

    web: Web
    ignored_rule: str = ""

    def crawl(self) -> list[LogEntry]:
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
        if self.ignored_rule == "forbidden":
            paths.append("/private/1")
        return paths[1:] if self.ignored_rule == "robots_unknown" else paths

    def pause(self, name: str, exchange: Exchange, queue: list[str]) -> int:
        """Return the pause after an exchange (ms).

        A redirect, and a robots.txt that failed, are put at the start of the queue.
        """
        head = exchange.response_head.decode()
        location = head.partition("Location: ")[2].partition("\r\n")[0]
        if location:
            queue.insert(0, location)
        _, _, host_name, path = exchange.url.split("/", 3)
        is_robots = self.web.robots_of(host_name, f"/{path}") != ""
        if is_robots and exchange.status in (0, 503):
            queue.insert(0, "/robots.txt")
            return 600_000
        pauses = {
            "delay": 1_000,
            "courtesy": 10 * exchange.duration_ms,
            "crawl_delay": self.web.crawl_delay(name),
            "retry_after": self.web.plan.window_ms if "Retry-After" in head else 0,
            "backoff": 3_600_000 if exchange.status in (429, 503) else 0,
        }
        if self.ignored_rule == "all":
            return 0
        return max(pause for rule, pause in pauses.items() if rule != self.ignored_rule)


WEB = Web(
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


WEB_RULES = Rules(WEB, delay_ms=1_000, courtesy_factor=10.0, max_delay_ms=DAY_MS, backoff_ms=60_000)


def test_a_polite_crawler_violates_no_rule() -> None:
    log = Crawler(WEB).crawl()
    assert len(log) > 400
    assert {429, 503, 302, 404} <= {entry.status for entry in log}
    assert violations(log, WEB_RULES) == []


@pytest.mark.parametrize(
    "rule", ["delay", "courtesy", "crawl_delay", "forbidden", "robots_unknown"]
)
def test_violation_of_one_rule_is_found(rule: str) -> None:
    log = Crawler(WEB, ignored_rule=rule).crawl()
    assert {violation.rule for violation in violations(log, WEB_RULES)} == {rule}


def test_a_crawler_without_pauses_violates_every_pause() -> None:
    log = Crawler(WEB, ignored_rule="all").crawl()
    violated = {violation.rule for violation in violations(log, WEB_RULES)}
    assert {"delay", "courtesy", "crawl_delay", "retry_after", "backoff"} <= violated
