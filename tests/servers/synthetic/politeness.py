"""Was the robot polite? Judged from nothing but the server's own log, and from what the web's
robots.txt files said at the time.

For each host: at most so many connections in use, a pause after each answer (the longest of all
that ask for one), nothing that the robots.txt forbids which the robot had been given, nothing
before it was given one, nothing from a copy older than a day, and within a back-off nothing but
robots.txt. For each registrable domain: connections, a pause after answers, a distance between
arrivals; at most so many places, each taken by a request and until the pause after it is over; and
after 429 or 503 a rest of all its hosts.

What a robot cannot know is not held against it: answers that it did not live to see (`unseen`),
and, for the rules of a domain, whose hosts are asked side by side, answers that were on their way
when it asked (`crossing_ms`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from tests.servers.synthetic.request_log import Logged

DAY_MS = 86_400_000


class Sites(Protocol):
    """What is true of the hosts that were asked (`Web` is one). Times are milliseconds since
    1970.
    """

    def robots_of(self, host_name: str, path: str, /) -> str:
        """The host whose robots.txt lies at a path, redirects included; "" for any other path."""

    def robots_allows(self, url: str, at_ms: int, /) -> bool:
        """Whether the robots.txt that the host gave at a time allows a URL."""

    def crawl_delay(self, host_name: str, at_ms: int, /) -> int:
        """Milliseconds that it asked for."""

    def registrable(self, host_name: str, /) -> str: ...


@dataclass(slots=True, frozen=True)
class Rules:
    """What the robot promised, in milliseconds; a limit of 0 is none."""

    sites: Sites
    delay_ms: int = 1_000
    courtesy_factor: float = 10.0  # times the time from arrival to answer
    # caps what the operator set, as `lycosa.frontier.politeness.delay` has it
    max_delay_ms: int = 600_000
    connections: int = 1  # in use per host
    domain_connections: int = 0
    domain_delay_ms: int = 0  # from an answer of any host of the domain to the next arrival at any
    domain_gap_ms: int = 0  # from arrival to arrival
    domain_places: int = 0
    domain_rest: bool = False  # after 429 and 503, as long as the host rests
    domain_cap_ms: int = 600_000  # what one host asks for binds the others no longer than that
    backoff_ms: int = 0  # after the first failure; doubled for each further one in a row
    backoff_cap_ms: int = DAY_MS
    backoff_statuses: frozenset[int] = frozenset({429, 503})
    robots_lifetime_ms: int = DAY_MS
    tolerance_ms: int = 2  # clocks are read in whole milliseconds
    crossing_ms: int = 1_000  # how long before its arrival a request may have been decided on
    # the robot was killed before it took note of these answers
    unseen: frozenset[Logged] = frozenset()
    # how much later than it happened a busy server may see that a client has left
    left_slack_ms: int = 100


class Rule(StrEnum):
    """What can be violated."""

    CONNECTIONS = "connections"
    DELAY = "delay"
    COURTESY = "courtesy"
    CRAWL_DELAY = "crawl_delay"
    RETRY_AFTER = "retry_after"
    BACKOFF = "backoff"
    FORBIDDEN = "forbidden"
    ROBOTS_UNKNOWN = "robots_unknown"
    ROBOTS_STALE = "robots_stale"
    DOMAIN_CONNECTIONS = "domain_connections"
    DOMAIN_DELAY = "domain_delay"
    DOMAIN_GAP = "domain_gap"
    DOMAIN_PLACES = "domain_places"
    DOMAIN_REST = "domain_rest"


class Violation(NamedTuple):
    """A request that came too early (by `early_ms`) after `before`, or that should not have come at
    all (0).
    """

    rule: Rule
    request: Logged
    before: Logged | None = None
    early_ms: int = 0


class _Until(NamedTuple):
    at_ms: int
    because: Logged


@dataclass(slots=True)
class _Clock:
    """A host or a domain: what is in use, and until when which rule asks for peace."""

    # heap by the time of the answer
    in_use: list[tuple[int, int, Logged]] = field(default_factory=list)
    until: dict[Rule, _Until] = field(default_factory=dict)
    # places of a domain that are taken by the pause after a request
    resting: list[_Until] = field(default_factory=list)
    failures: int = 0
    robots_at_ms: int = 0  # when the robots.txt that counts was asked for; 0: never
    robots_read_ms: int = 0
    robots_failed: bool = False

    def hold(self, rule: Rule, at_ms: int, because: Logged) -> None:
        if rule not in self.until or at_ms > self.until[rule].at_ms:
            self.until[rule] = _Until(at_ms, because)


def violations(log: Iterable[Logged], rules: Rules) -> list[Violation]:
    """Everything that was wrong, in the order of the arrivals.

    A request to another host that a redirected robots.txt leads to is left out: it is the one
    exception that is allowed.
    """
    checker = _Checker(rules)
    for number, request in enumerate(sorted(log, key=lambda each: each.arrived_at_ms)):
        checker.check(number, request)
    return checker.found


class _Checker:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._hosts: dict[str, _Clock] = {}
        self._domains: dict[str, _Clock] = {}
        self.found: list[Violation] = []

    def check(self, number: int, request: Logged) -> None:
        about = self._rules.sites.robots_of(request.host, request.path)
        if about and about != request.host:
            if request not in self._rules.unseen:
                self._robots_answered(self._hosts.setdefault(about, _Clock()), request)
            return
        host = self._hosts.setdefault(request.host, _Clock())
        domain = self._domains.setdefault(self._rules.sites.registrable(request.host), _Clock())
        now = request.arrived_at_ms + self._rules.tolerance_ms
        for answered in _answered(host, now):
            self._host_answered(host, answered)
        for answered in _answered(domain, now):
            slack = self._rules.left_slack_ms if answered.left else 0
            end = answered.answered_at_ms - slack
            domain.hold(Rule.DOMAIN_DELAY, end + self._rules.domain_delay_ms, answered)
            if answered.status in (429, 503) and answered not in self._rules.unseen:
                rest = max(self._rules.backoff_ms, answered.retry_after_ms)
                domain.hold(Rule.DOMAIN_REST, end + min(rest, self._rules.domain_cap_ms), answered)
            domain.resting.append(
                _Until(
                    end + min(self._usual_pause(answered, end), self._rules.domain_cap_ms), answered
                )
            )
        self._check_connections(host, self._rules.connections, Rule.CONNECTIONS, request)
        self._check_connections(
            domain, self._rules.domain_connections, Rule.DOMAIN_CONNECTIONS, request
        )
        self._check_places(domain, request, now)
        if self._rules.domain_rest:
            self._check_rest(domain, request, now)
        for rule, until in (*host.until.items(), *domain.until.items()):
            if rule is Rule.DOMAIN_REST:
                continue
            if now < until.at_ms and not (about and rule is Rule.BACKOFF):
                self.found.append(
                    Violation(rule, request, until.because, until.at_ms - request.arrived_at_ms)
                )
        if not about:
            self._check_robots(host, request)
        domain.hold(Rule.DOMAIN_GAP, request.arrived_at_ms + self._rules.domain_gap_ms, request)
        for clock in (host, domain):
            heapq.heappush(
                clock.in_use,
                (
                    request.answered_at_ms - (self._rules.left_slack_ms if request.left else 0),
                    number,
                    request,
                ),
            )

    def _check_connections(self, clock: _Clock, limit: int, rule: Rule, request: Logged) -> None:
        if limit and len(clock.in_use) >= limit:
            self.found.append(Violation(rule, request, clock.in_use[0][2]))

    def _check_places(self, domain: _Clock, request: Logged, now: int) -> None:
        domain.resting = [until for until in domain.resting if until.at_ms > now]
        limit = self._rules.domain_places
        if limit and len(domain.in_use) + len(domain.resting) >= limit:
            before = min(domain.resting, key=lambda until: until.at_ms, default=None)
            early = before.at_ms - request.arrived_at_ms if before else 0
            self.found.append(
                Violation(
                    Rule.DOMAIN_PLACES,
                    request,
                    before.because if before else domain.in_use[0][2],
                    early,
                )
            )

    def _check_rest(self, domain: _Clock, request: Logged, now: int) -> None:
        until = domain.until.get(Rule.DOMAIN_REST)
        if (
            until is None
            or now >= until.at_ms
            or request.arrived_at_ms <= until.because.answered_at_ms + self._rules.crossing_ms
        ):
            return
        self.found.append(
            Violation(Rule.DOMAIN_REST, request, until.because, until.at_ms - request.arrived_at_ms)
        )

    def _usual_pause(self, answered: Logged, end: int) -> int:
        """What the host wants between any two requests, as far as the robot knew when this one was
        answered.
        """
        rules = self._rules
        host = self._hosts[answered.host]
        if answered in rules.unseen:
            return rules.delay_ms
        asked_at = host.robots_at_ms
        if rules.sites.robots_of(answered.host, answered.path) == answered.host:
            asked_at = 0 if 300 <= answered.status < 400 else answered.arrived_at_ms
        crawl_delay = rules.sites.crawl_delay(answered.host, asked_at) if asked_at else 0
        return max(rules.delay_ms, self._courtesy(answered, end), crawl_delay)

    def _courtesy(self, answered: Logged, end: int) -> int:
        rules = self._rules
        asked = rules.courtesy_factor * max(end - answered.arrived_at_ms - rules.tolerance_ms, 0)
        return int(min(asked, max(rules.max_delay_ms, rules.delay_ms)))

    def _check_robots(self, host: _Clock, request: Logged) -> None:
        """The rules of the last robots.txt that was answered before this request came."""
        rule = None
        if (
            not host.robots_at_ms
            or host.robots_read_ms > request.arrived_at_ms + self._rules.tolerance_ms
        ):
            rule = Rule.ROBOTS_UNKNOWN
        elif (
            request.arrived_at_ms
            > host.robots_read_ms + self._rules.robots_lifetime_ms + self._rules.tolerance_ms
        ):
            rule = Rule.ROBOTS_STALE
        elif host.robots_failed or not self._rules.sites.robots_allows(
            f"http://{request.host}{request.path}", host.robots_at_ms
        ):
            rule = Rule.FORBIDDEN
        if rule is not None:
            self.found.append(Violation(rule, request))

    def _host_answered(self, host: _Clock, answered: Logged) -> None:
        rules = self._rules
        end = answered.answered_at_ms - (rules.left_slack_ms if answered.left else 0)
        host.hold(Rule.DELAY, end + rules.delay_ms, answered)
        if answered in rules.unseen:
            return
        if rules.sites.robots_of(answered.host, answered.path):
            self._robots_answered(host, answered)
        elif answered.status in rules.backoff_statuses:
            host.failures += 1
            backoff = min(rules.backoff_ms << min(host.failures - 1, 40), rules.backoff_cap_ms)
            host.hold(Rule.BACKOFF, end + backoff, answered)
        elif answered.status:
            host.failures = 0
        host.hold(Rule.COURTESY, end + self._courtesy(answered, end), answered)
        host.hold(Rule.RETRY_AFTER, end + answered.retry_after_ms, answered)
        if host.robots_at_ms:
            host.hold(
                Rule.CRAWL_DELAY,
                end + rules.sites.crawl_delay(answered.host, host.robots_at_ms),
                answered,
            )

    def _robots_answered(self, host: _Clock, answered: Logged) -> None:
        """A redirect is not yet an answer; none, 429 and 5xx forbid everything (RFC 9309 section
        2.3.1).
        """
        if 300 <= answered.status < 400:
            return
        host.robots_at_ms = answered.arrived_at_ms
        host.robots_read_ms = answered.answered_at_ms
        if answered.status and answered.status < 500 and answered.status != 429:
            host.failures = 0
        host.robots_failed = (
            answered.status == 0 or answered.status == 429 or answered.status >= 500
        )


def _answered(clock: _Clock, now_ms: int) -> Iterable[Logged]:
    """Takes out what was answered by now, in the order of the answers."""
    while clock.in_use and clock.in_use[0][0] <= now_ms:
        yield heapq.heappop(clock.in_use)[2]
