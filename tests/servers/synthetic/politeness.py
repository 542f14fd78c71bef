"""Find violations of politeness in a server's request log.

The rules for each host: a limit of connections, a pause after each response (the longest of all
required pauses), no request that is disallowed by the robots.txt last received, no request before
it is received, none with a copy older than a day, and during a back-off only requests for
robots.txt.

The rules for each registrable domain: a limit of connections, a pause after each response, an
interval between arrivals, a limit of slots (a request occupies a slot until its pause is over), and
after 429 or 503 a pause of all hosts.

A crawler cannot consider responses that it did not receive because it was killed (`unseen`). For
the rules of a domain, whose hosts are requested concurrently, it cannot consider responses that
were in transit when it sent a request (`crossing_ms`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from tests.servers.synthetic.request_log import LogEntry

DAY_MS = 86_400_000


class Sites(Protocol):
    """Facts about the requested hosts; `Web` implements it. Times: milliseconds since 1970."""

    def robots_of(self, host_name: str, path: str, /) -> str:
        """Return the host whose robots.txt is at a path or redirects to it; "" if none."""

    def robots_allows(self, url: str, at_ms: int, /) -> bool:
        """Return whether the robots.txt that the host served at a time allows a URL."""

    def crawl_delay(self, host_name: str, at_ms: int, /) -> int:
        """Return the Crawl-delay of that robots.txt in milliseconds."""

    def registrable(self, host_name: str, /) -> str: ...


@dataclass(slots=True, frozen=True)
class Rules:
    """The limits and pauses (ms) of the crawler. A limit of 0 is unlimited."""

    sites: Sites
    delay_ms: int = 1_000
    courtesy_factor: float = 10.0  # pause per duration of the response
    max_delay_ms: int = 600_000  # of the courtesy, as in `lycosa.frontier.politeness.delay`
    connections: int = 1  # in use per host
    domain_connections: int = 0
    domain_delay_ms: int = 0  # from a response of any host of the domain to the next arrival
    domain_gap_ms: int = 0  # from arrival to arrival
    domain_slots: int = 0
    domain_pause: bool = False  # whether 429 and 503 pause all hosts of the domain
    domain_cap_ms: int = 600_000  # longest pause of the domain that one host can cause
    backoff_ms: int = 0  # after the first failure, doubled after each consecutive one
    backoff_cap_ms: int = DAY_MS
    backoff_statuses: frozenset[int] = frozenset({429, 503})
    robots_lifetime_ms: int = DAY_MS
    tolerance_ms: int = 2  # clocks have a resolution of a millisecond
    crossing_ms: int = 1_000  # longest time from the decision for a request to its arrival
    # responses that the crawler did not process because it was killed
    unseen: frozenset[LogEntry] = frozenset()
    # longest delay until a busy server notices that a client has closed the connection
    left_slack_ms: int = 100


class Rule(StrEnum):
    """The rules that can be violated."""

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
    DOMAIN_SLOTS = "domain_slots"
    DOMAIN_REST = "domain_pause"


class Violation(NamedTuple):
    """A violation: a request that was `early_ms` too early after `before`, or forbidden (0)."""

    rule: Rule
    request: LogEntry
    before: LogEntry | None = None
    early_ms: int = 0


class _Pause(NamedTuple):
    """A pause that ends at `end_ms`, and the request that caused it."""

    end_ms: int
    cause: LogEntry


@dataclass(slots=True)
class _State:
    """The requests in flight and the pauses of a host or a domain."""

    in_flight: list[tuple[int, int, LogEntry]] = field(
        default_factory=list
    )  # heap by response time
    pauses: dict[Rule, _Pause] = field(default_factory=dict)
    slot_pauses: list[_Pause] = field(default_factory=list)  # of occupied slots of a domain
    failures: int = 0
    robots_at_ms: int = 0  # when the current robots.txt was requested; 0: never
    robots_read_ms: int = 0
    robots_failed: bool = False

    def extend_pause(self, rule: Rule, end_ms: int, cause: LogEntry) -> None:
        if rule not in self.pauses or end_ms > self.pauses[rule].end_ms:
            self.pauses[rule] = _Pause(end_ms, cause)


def violations(log: Iterable[LogEntry], rules: Rules) -> list[Violation]:
    """Return all violations in the order of arrival.

    A request to another host that a redirected robots.txt causes is not checked: it is exempt from
    the rules.
    """
    checker = _Checker(rules)
    for number, request in enumerate(sorted(log, key=lambda each: each.arrived_at_ms)):
        checker.check(number, request)
    return checker.violations


class _Checker:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._hosts: dict[str, _State] = {}
        self._domains: dict[str, _State] = {}
        self.violations: list[Violation] = []

    def check(self, number: int, request: LogEntry) -> None:
        """Check the next request of the log; `number` is its position."""
        rules = self._rules
        robots_host = rules.sites.robots_of(request.host, request.path)
        if robots_host and robots_host != request.host:
            if request not in rules.unseen:
                self._update_robots(self._hosts.setdefault(robots_host, _State()), request)
            return
        host = self._hosts.setdefault(request.host, _State())
        domain = self._domains.setdefault(rules.sites.registrable(request.host), _State())
        now = request.arrived_at_ms + rules.tolerance_ms
        for finished in _pop_finished(host, now):
            self._update_host(host, finished)
        for finished in _pop_finished(domain, now):
            self._update_domain(domain, finished)
        self._check_connections(host, rules.connections, Rule.CONNECTIONS, request)
        self._check_connections(domain, rules.domain_connections, Rule.DOMAIN_CONNECTIONS, request)
        self._check_slots(domain, request, now)
        for rule, pause in (*host.pauses.items(), *domain.pauses.items()):
            if rule is Rule.DOMAIN_REST:
                applies = self._pauses_domain(pause, request)
            else:
                applies = rule is not Rule.BACKOFF or not robots_host
            if applies and now < pause.end_ms:
                self._report(rule, request, pause)
        if not robots_host:
            self._check_robots(host, request)
        domain.extend_pause(Rule.DOMAIN_GAP, request.arrived_at_ms + rules.domain_gap_ms, request)
        for state in (host, domain):
            heapq.heappush(state.in_flight, (self._end(request), number, request))

    def _report(self, rule: Rule, request: LogEntry, pause: _Pause) -> None:
        early_ms = pause.end_ms - request.arrived_at_ms
        self.violations.append(Violation(rule, request, pause.cause, early_ms))

    def _end(self, request: LogEntry) -> int:
        """Return the earliest time at which the exchange can have ended."""
        return request.answered_at_ms - (self._rules.left_slack_ms if request.left else 0)

    def _check_connections(self, state: _State, limit: int, rule: Rule, request: LogEntry) -> None:
        if limit and len(state.in_flight) >= limit:
            self.violations.append(Violation(rule, request, state.in_flight[0][2]))

    def _check_slots(self, domain: _State, request: LogEntry, now: int) -> None:
        domain.slot_pauses = [pause for pause in domain.slot_pauses if pause.end_ms > now]
        limit = self._rules.domain_slots
        if not limit or len(domain.in_flight) + len(domain.slot_pauses) < limit:
            return
        if domain.slot_pauses:
            first = min(domain.slot_pauses, key=lambda pause: pause.end_ms)
            self._report(Rule.DOMAIN_SLOTS, request, first)
        else:
            self.violations.append(Violation(Rule.DOMAIN_SLOTS, request, domain.in_flight[0][2]))

    def _pauses_domain(self, pause: _Pause, request: LogEntry) -> bool:
        """Return whether the crawler had received the response that pauses the domain."""
        received_ms = pause.cause.answered_at_ms + self._rules.crossing_ms
        return self._rules.domain_pause and request.arrived_at_ms > received_ms

    def _usual_pause(self, finished: LogEntry) -> int:
        """Return the pause of the host after any request, with the robots.txt it had then."""
        rules = self._rules
        if finished in rules.unseen:
            return rules.delay_ms
        robots_at_ms = self._hosts[finished.host].robots_at_ms
        if rules.sites.robots_of(finished.host, finished.path) == finished.host:
            robots_at_ms = 0 if 300 <= finished.status < 400 else finished.arrived_at_ms
        crawl_delay = rules.sites.crawl_delay(finished.host, robots_at_ms) if robots_at_ms else 0
        return max(rules.delay_ms, self._courtesy(finished), crawl_delay)

    def _courtesy(self, finished: LogEntry) -> int:
        rules = self._rules
        duration = max(self._end(finished) - finished.arrived_at_ms - rules.tolerance_ms, 0)
        return int(min(rules.courtesy_factor * duration, max(rules.max_delay_ms, rules.delay_ms)))

    def _check_robots(self, host: _State, request: LogEntry) -> None:
        """Check a request against the last robots.txt received before its arrival."""
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
            self.violations.append(Violation(rule, request))

    def _update_host(self, host: _State, finished: LogEntry) -> None:
        rules = self._rules
        end = self._end(finished)
        host.extend_pause(Rule.DELAY, end + rules.delay_ms, finished)
        if finished in rules.unseen:
            return
        if rules.sites.robots_of(finished.host, finished.path):
            self._update_robots(host, finished)
        elif finished.status in rules.backoff_statuses:
            host.failures += 1
            backoff = min(rules.backoff_ms << min(host.failures - 1, 40), rules.backoff_cap_ms)
            host.extend_pause(Rule.BACKOFF, end + backoff, finished)
        elif finished.status:
            host.failures = 0
        host.extend_pause(Rule.COURTESY, end + self._courtesy(finished), finished)
        host.extend_pause(Rule.RETRY_AFTER, end + finished.retry_after_ms, finished)
        if host.robots_at_ms:
            crawl_delay = rules.sites.crawl_delay(finished.host, host.robots_at_ms)
            host.extend_pause(Rule.CRAWL_DELAY, end + crawl_delay, finished)

    def _update_domain(self, domain: _State, finished: LogEntry) -> None:
        rules = self._rules
        end = self._end(finished)
        domain.extend_pause(Rule.DOMAIN_DELAY, end + rules.domain_delay_ms, finished)
        if finished.status in (429, 503) and finished not in rules.unseen:
            backoff = max(rules.backoff_ms, finished.retry_after_ms)
            domain.extend_pause(Rule.DOMAIN_REST, end + min(backoff, rules.domain_cap_ms), finished)
        usual_pause = min(self._usual_pause(finished), rules.domain_cap_ms)
        domain.slot_pauses.append(_Pause(end + usual_pause, finished))

    def _update_robots(self, host: _State, finished: LogEntry) -> None:
        """Record a response for robots.txt, unless it is a redirect.

        No response, 429 and 5xx disallow everything (RFC 9309 section 2.3.1).
        """
        if 300 <= finished.status < 400:
            return
        host.robots_at_ms = finished.arrived_at_ms
        host.robots_read_ms = finished.answered_at_ms
        host.robots_failed = finished.status in (0, 429) or finished.status >= 500
        if not host.robots_failed:
            host.failures = 0


def _pop_finished(state: _State, now_ms: int) -> Iterable[LogEntry]:
    """Remove the requests that ended by now, and yield them in the order of their ends."""
    while state.in_flight and state.in_flight[0][0] <= now_ms:
        yield heapq.heappop(state.in_flight)[2]
