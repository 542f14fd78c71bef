"""Decide whether a due URL is requested now.

`FetchRules.in_order` lists the rules. Each rule checks the rows of one URL, one per collection, and
returns decisions for the rows that it stops; the next rule checks the others. `fetch_decision` runs
them: rows that no rule stops are fetched.

| decision | meaning |
|---|---|
| `Fetch` | send one request for these rows |
| `Defer` | not now: looked at again within seconds, or when a prerequisite has been fetched |
| `Postpone` | stays known with a reason; checked again after 7 days |
| `Exclude` | stopped with a reason, until robots.txt or the settings change |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Exclusion
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow, UrlState
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.admission.url_filter import ExclusionCheck, HostTraps
from lycosa.crawl.policy.login import LoginManager
from lycosa.crawl.policy.page_budgets import PageBudgets, is_held
from lycosa.crawl.policy.request_profiles import RequestProfiles
from lycosa.crawl.policy.robots_cache import RobotsCache
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.url.scope import url_origin

BLOCKED_RETRY_MS = 200  # a fetch in flight may use up the budget, or not
QUOTA_RETRY_MS = 1_000  # the coordinator answers a worker's ping within this time

Rows = tuple[UrlRow, ...]


@dataclass(slots=True, frozen=True)
class Fetch:
    """Send one request for these rows."""

    rows: Rows


@dataclass(slots=True, frozen=True)
class Defer:
    """Queue the rows again.

    `until`: monotonic ms; 0: as soon as the host may be requested. `prerequisite` is fetched
    first. `whole_host`: nothing of the host is requested before `until`. `by_schedule`: the rows
    return to their place among the revisits.
    """

    rows: Rows
    until: int = 0
    prerequisite: Task | None = None
    whole_host: bool = False
    by_schedule: bool = False


@dataclass(slots=True, frozen=True)
class Postpone:
    """Keep the rows known with this reason. `trap`: the trap rule, if it is one."""

    rows: Rows
    reason: str
    trap: str = ""


@dataclass(slots=True, frozen=True)
class Exclude:
    """Stop the rows with this reason."""

    rows: Rows
    reason: Exclusion


Decision = Fetch | Defer | Postpone | Exclude
Rule = Callable[[Rows], Sequence[Decision]]


def fetch_decision(rows: Rows, rules: Sequence[Rule]) -> list[Decision]:
    """Return decisions that cover each row once. Hot path: bench/crawl.py."""
    decisions: list[Decision] = []
    for rule in rules:
        stopped = rule(rows)
        if stopped:
            decisions += stopped
            ids = {id(row) for each in stopped for row in each.rows}
            rows = tuple(row for row in rows if id(row) not in ids)
            if not rows:
                return decisions
    decisions.append(Fetch(rows))
    return decisions


class HostLookup(Protocol):
    """Access to hosts for the rules."""

    def row(self, host_key: int) -> HostRow: ...

    def has_current_robots(self, origin: str, host_key: int, now_ms: int) -> bool: ...

    def robots_task(self, origin: str) -> Task: ...


class RuleState(Protocol):
    """State that decides about a URL: `CrawlState` in a worker, the tables for `explain`."""

    refused_origins: set[str]
    excluded: ExclusionCheck
    clock: Clock
    robots: RobotsCache
    assignments: dict[str, Assignment]
    in_flight: dict[int, Rows]
    budgets: PageBudgets
    traps: HostTraps

    @property
    def hosts(self) -> HostLookup: ...

    def count_suspect(self, assignment: Assignment) -> None:
        """Count a URL that is fetched although it looks like a trap."""


class UrlRules:
    """The rules that need only the stored rows of a URL and its host.

    `load_sitemaps` receives the sitemaps of a robots.txt that an earlier run fetched.
    """

    def __init__(
        self, state: RuleState, load_sitemaps: Callable[[str, Sequence[str]], None]
    ) -> None:
        self._state = state
        self._load_sitemaps = load_sitemaps
        self.by_robots: tuple[Rule, ...] = (
            self.refused_address,
            self.excluded_by_operator,
            self.out_of_scope,
            self.robots_unknown,
            self.robots_unreachable,
            self.robots_disallow,
        )
        self.by_pages: tuple[Rule, ...] = (
            self.page_budget_of_collection,
            self.page_budget_of_host,
            self.suspected_trap,
        )

    def refused_address(self, rows: Rows) -> Sequence[Decision]:
        """Decline if the address guard refused to connect to this origin."""
        if url_origin(rows[0].id.url) in self._state.refused_origins:
            return (Exclude(rows, Exclusion.ADDRESS),)
        return ()

    def excluded_by_operator(self, rows: Rows) -> Sequence[Decision]:
        """Decline a URL of the exclusion list or of `lycosa exclude`."""
        if self._state.excluded(rows[0].id.url):
            return (Exclude(rows, Exclusion.OPERATOR),)
        return ()

    def out_of_scope(self, rows: Rows) -> Sequence[Decision]:
        """Decline what the settings no longer admit: a page that was fetched, a sitemap or a feed.

        Its row and data are kept.
        """
        return [
            Postpone((row,), str(refusal))
            for row in rows
            if (row.visited_at or row.operation)
            and (refusal := self._state.assignments[row.collection].gate.refuses(row))
        ]

    def robots_unknown(self, rows: Rows) -> Sequence[Decision]:
        """Defer until the origin's robots.txt is fetched.

        A stored, current one is loaded with its sitemaps.
        """
        state, origin = self._state, url_origin(rows[0].id.url)
        now_ms = state.clock.now_ms()
        if state.robots.is_current(origin, now_ms):
            return ()
        if not state.hosts.has_current_robots(origin, rows[0].id.host_key, now_ms):
            return (Defer(rows, prerequisite=state.hosts.robots_task(origin)),)
        self._load_sitemaps(origin, state.robots.sitemaps(origin))
        return ()

    def robots_unreachable(self, rows: Rows) -> Sequence[Decision]:
        """Defer while robots.txt is unreachable: then everything is disallowed.

        RFC 9309, section 2.3.1.4.
        """
        robots, origin = self._state.robots, url_origin(rows[0].id.url)
        if robots.reachable(origin):
            return ()
        clock = self._state.clock
        wait_ms = max(robots.expires_at(origin) - clock.now_ms(), 1_000)
        return (Defer(rows, clock.monotonic_ms() + wait_ms, whole_host=True),)

    def robots_disallow(self, rows: Rows) -> Sequence[Decision]:
        """Decline a URL that robots.txt disallows."""
        url = rows[0].id.url
        if self._state.robots.allowed(url, url_origin(url)):
            return ()
        return (Exclude(rows, Exclusion.ROBOTS),)

    def page_budget_of_collection(self, rows: Rows) -> Sequence[Decision]:
        """Decline if the collection is at its page limit (`max_pages`, or its quota lease)."""
        return [
            decision
            for row in rows
            if _may_add_page(row) and (decision := self._over_budget(row)) is not None
        ]

    def _over_budget(self, row: UrlRow) -> Decision | None:
        assignment = self._state.assignments[row.collection]
        now = self._state.clock.monotonic_ms()
        if assignment.grant is not None:
            left = assignment.grant - assignment.added
            if self._adding(assignment, left) >= left:
                return Defer((row,), now + QUOTA_RETRY_MS)
            return None
        limit = assignment.collection.max_pages
        if limit is None:
            return None
        left = limit - assignment.pages
        if left <= 0:
            return Postpone((row,), "budget")
        if self._adding(assignment, left) >= left:
            return Defer((row,), now + BLOCKED_RETRY_MS)
        return None

    def page_budget_of_host(self, rows: Rows) -> Sequence[Decision]:
        """Decline if the host, its part or its registrable domain is at its limit.

        Limits: `max_pages_per_host`, `max_prefix_share`, `max_pages_per_domain`.
        """
        state, decisions = self._state, list[Decision]()
        for row in rows if state.budgets.limited else ():
            host = state.hosts.row(row.id.host_key)
            budget, is_certain = state.budgets.objection(row, host, self._in_flight)
            if budget and is_certain:
                decisions.append(Postpone((row,), budget))
            elif budget:
                decisions.append(Defer((row,), state.clock.monotonic_ms() + BLOCKED_RETRY_MS))
        return decisions

    def suspected_trap(self, rows: Rows) -> Sequence[Decision]:
        """Decline a URL in a part of the host without new content.

        On hosts of seeds, some of them are fetched.
        """
        state, decisions = self._state, list[Decision]()
        for row in rows:
            assignment = state.assignments[row.collection]
            if row.operation or row.visited_at or not assignment.collection.traps:
                continue
            rule = state.traps.holds(state.hosts.row(row.id.host_key), row.id.url)
            if (
                rule
                and assignment.may_fetch_suspect()
                and assignment.gate.admission.is_named(row.id.url)
            ):
                state.count_suspect(assignment)
            elif rule:
                decisions.append(Postpone((row,), f"trap_{rule}", rule))
        return decisions

    def _adding(self, assignment: Assignment, limit: int) -> int:
        """Return how many fetches in flight may add a page to this collection.

        Revisits do not. Returns 0 if all fetches in flight together cannot reach the limit.
        """
        if assignment.in_flight < limit:
            return 0
        return sum(
            row.collection == assignment.name and _may_add_page(row) for row in self._in_flight()
        )

    def _in_flight(self) -> Iterator[UrlRow]:
        return (row for rows in self._state.in_flight.values() for row in rows)


class FetchRules(UrlRules):
    """The rules of one worker.

    `renew_quota` applies the coordinator's latest reply; without a coordinator it does nothing.
    """

    def __init__(
        self,
        crawl: CrawlState,
        discovery: Discovery,
        profiles: RequestProfiles,
        logins: LoginManager,
        renew_quota: Callable[[], None],
    ) -> None:
        super().__init__(crawl, discovery.from_robots)
        self._crawl = crawl
        self._profiles = profiles
        self._logins = logins
        self._renew_quota = renew_quota
        by_collection: tuple[Rule, ...] = (
            self.separate_request_profiles,
            self.in_flight_for_another_profile,
            self.log_in_first,
        )
        self.in_order: tuple[Rule, ...] = (
            *self.by_robots,
            *(() if profiles.plain else by_collection),
            *self.by_pages,
            self.refetch_budget,
            self.quota_lease,
        )

    def separate_request_profiles(self, rows: Rows) -> Sequence[Decision]:
        """Defer the rows with another request profile than the first row.

        Profiles differ in language, cookies or credentials. Their requests are sent one at a time.
        """
        _, others = self._profiles.together(rows)
        return (Defer(others),) if others else ()

    def in_flight_for_another_profile(self, rows: Rows) -> Sequence[Decision]:
        """Defer while the URL is fetched for a collection with another request profile."""
        if rows[0].key not in self._crawl.in_flight:
            return ()
        return (Defer(rows, self._crawl.clock.monotonic_ms() + BLOCKED_RETRY_MS),)

    def log_in_first(self, rows: Rows) -> Sequence[Decision]:
        """Defer until the collection has logged in to the origin."""
        login = self._logins.due(rows, url_origin(rows[0].id.url))
        if login is None:
            return ()
        task = login.begin()
        if task is not None:
            return (Defer(rows, prerequisite=task),)
        now = self._crawl.clock.monotonic_ms()
        return (Defer(rows, max(login.next_try, now + BLOCKED_RETRY_MS)),)

    def refetch_budget(self, rows: Rows) -> Sequence[Decision]:
        """Defer if the collections' daily budgets of revisits are used up.

        First visits and operations need no budget.
        """
        scheduler = self._crawl.scheduler
        revisits = [
            (row, scheduler.agenda.budgets[row.collection])
            for row in rows
            if row.visited_at and row.collection in scheduler.agenda.budgets and not row.operation
        ]
        if len(revisits) < len(rows) or any(row.state == UrlState.KNOWN for row in rows):
            for _, budget in revisits:
                budget.spend()
            return ()
        now_ms = self._crawl.clock.now_ms()
        reservations = [
            budget.take(scheduler.agenda.due_at(row) or 0, now_ms) for row, budget in revisits
        ]
        return () if any(reservations) else (Defer(rows, by_schedule=True),)

    def quota_lease(self, rows: Rows) -> Sequence[Decision]:
        """Defer if the quota lease has no page for these rows.

        This is the last rule: it counts the rows as in flight first, so that a concurrent ping
        includes them.
        """
        assignments = self._crawl.assignments
        for row in rows:
            assignments[row.collection].in_flight += 1
        self._renew_quota()
        quotas = [assignments[row.collection] for row in rows if _may_add_page(row)]
        if all(each.grant is None or each.added + each.in_flight <= each.grant for each in quotas):
            return ()
        for row in rows:
            assignments[row.collection].in_flight -= 1
        return (Defer(rows, self._crawl.clock.monotonic_ms() + QUOTA_RETRY_MS),)


def _may_add_page(row: UrlRow) -> bool:
    return not (is_held(row) or row.operation)
