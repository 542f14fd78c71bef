"""Schedules repeated visits in the worker, by change rates that are learned during the crawl.

Once a day, at the start, and whenever the number of visited pages has doubled,
`lycosa.crawl.recrawl.compute_schedule` reads the tables. With several workers, one of them ranks
all pages, because links are in all partitions; each writes its own rows, and has its share of the
budget. The result is applied in steps, some at each tick: the collection's rules and prior first,
then changed rows, then parked hosts. If links make known pages due, the pages are looked up here in
batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import BinaryIO

import numpy as np

from lycosa.core.clock import Interval
from lycosa.core.dataclass import dataclass
from lycosa.core.records import UrlId, UrlRow, UrlState
from lycosa.crawl.recrawl.compute_schedule import CHANGED, Ranker, RankingResult
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.frontier.recrawl.change_rate import DAY_MS
from lycosa.frontier.recrawl.due import LinkAction, Policy, RecrawlRules, on_link
from lycosa.frontier.recrawl.fresh import steer
from lycosa.frontier.recrawl.refetch_budget import Budget

MAX_ROWS_PER_TICK = 1_000
"""Rows written again at one tick: limits the size of a commit.

A million rows take a quarter of an hour.
"""

# age of a new crawl at its first ranking, and time between rankings while it grows
_FIRST_MS = 600_000
_STEER_MS = 9 * DAY_MS // 10  # shorter measurements are not used
_LOOK_UP_MS = 5_000
_MAX_LINKED = 20_000
_MAX_YOUNG = 200_000


@dataclass(slots=True)
class _Plan:
    """State of one collection with `fresh`. Times are monotonic."""

    rules: RecrawlRules
    budget: Budget
    ranked_at: int | None = None
    pages: int = 0  # visited pages at that time
    steered_at: int = 0

    def begin_ranking(self, now: int, pages: int) -> None:
        self.ranked_at, self.pages = now, pages

    def correct(self, used: float, allowed: float, now: int) -> None:
        """Adjust the threshold by the budget that the last period used."""
        self.correction = steer(self.correction, used, allowed)
        self.steered_at = now

    correction: float = 1.0


@dataclass(slots=True)
class _Linked:
    """A collection in which links make pages due.

    `identities`: linked URLs since the last check; `young`: URL key -> time until which its page is
    too young.
    """

    rules: RecrawlRules
    identities: dict[int, UrlId] = field(default_factory=dict)
    young: dict[int, int] = field(default_factory=dict)


class RecrawlSchedule(CrawlListener):
    """Maintains the schedules of a worker's collections. Not thread-safe."""

    def __init__(self, crawl: CrawlState, ranker: Ranker, interval_ms: int) -> None:
        self._crawl = crawl
        self._ranker = ranker
        self._interval_ms = interval_ms
        self._clock = crawl.clock
        self._started_at = self._clock.monotonic_ms()
        self._plans: dict[str, _Plan] = {}
        self._linked: dict[str, _Linked] = {}
        self._changes: tuple[str, BinaryIO] | None = None
        self._renewing: Iterator[None] | None = None
        self._resumed: bool | None = None  # whether there were visited pages at the start
        self._ranking = False
        self._look_ups = Interval(self._clock, _LOOK_UP_MS)
        self._counts_links = False
        crawl.listeners.append(self)
        for name in crawl.assignments:
            rules = crawl.scheduler.agenda.rules.get(name)
            if rules is not None and rules.policy is Policy.FRESH:
                budget = crawl.scheduler.agenda.budgets[name] = Budget(
                    rules.budget_per_day * crawl.held_partitions.share, self._clock.now_ms()
                )
                self._plans[name] = _Plan(rules, budget, steered_at=self._started_at)
            if rules is not None and rules.policy is Policy.AGE and rules.on_link:
                self._linked[name] = _Linked(rules)

    def close(self) -> None:
        """Close open files."""
        self._ranker.close()
        if self._changes is not None:
            self._changes[1].close()
            self._changes = None

    def tick(self) -> None:
        """Execute the next step. Call it about once a second."""
        now, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        # not before the first tick: the walk over stored links at the start finds no new links
        self._counts_links = True
        for plan in self._plans.values():
            plan.budget.turn(now_ms)
        if self._linked and self._look_ups.is_due():
            for name in self._linked:
                self._look_up(name)
        if not self._plans:
            return
        if self._resumed is None:
            self._resumed = self._crawl.progress.states[UrlState.VISITED] > 0
        if self._changes is not None:
            self._write(*self._changes)
        elif self._renewing is not None:
            self._renew()
        elif self._ranking:
            ranked = self._ranker.take()
            self._ranking = ranked is None and self._ranker.busy
            if ranked is not None:
                self._apply(ranked, now, now_ms)
        else:
            self._rank_next(now)

    def may_become_due(self) -> bool:
        """Look up deferred links, and return whether more URLs may become due.

        Called before a crawl ends because nothing is due.
        """
        for name in self._linked:
            if self._look_up(name):
                return True
        if not self._plans:
            return False
        first = (
            self._crawl.progress.states[UrlState.VISITED] > 0
            if self._resumed is None
            else self._resumed
        )
        unranked = first and any(plan.ranked_at is None for plan in self._plans.values())
        return unranked or self._ranking or self._changes is not None or self._renewing is not None

    # -- ranking
    # ------------------------------------------------------------

    def _rank_next(self, now: int) -> None:
        visited = self._crawl.progress.states[UrlState.VISITED]
        for name, plan in self._plans.items():
            if plan.ranked_at is None:
                due = self._resumed or (visited > 0 and now - self._started_at >= _FIRST_MS)
            else:
                grown = visited >= 2 * plan.pages and now - plan.ranked_at >= _FIRST_MS
                due = grown or now - plan.ranked_at >= self._interval_ms
            if due:
                plan.begin_ranking(now, max(visited, 1))
                self._ranking = True
                self._ranker.start(name, plan.rules)
                return

    def _apply(self, ranked: RankingResult, now: int, now_ms: int) -> None:
        """Start to apply a ranking: first its rules and prior."""
        plan, solved = self._plans[ranked.collection], ranked.solved
        self._changes = ranked.collection, ranked.changes
        if now - plan.steered_at >= _STEER_MS:
            budget = plan.budget
            plan.correct(budget.spent + budget.waiting, budget.allowed(now_ms), now)
            budget.restart(now_ms)
        if not solved.pages:
            return
        self._crawl.assignments[ranked.collection].set_prior(solved.prior)
        rules = replace(
            plan.rules,
            threshold=solved.threshold * plan.correction,
            default_rate=solved.default_rate,
        )
        self._crawl.scheduler.agenda.set_rules(ranked.collection, rules)
        self._renewing = self._crawl.scheduler.renew()

    def _write(self, collection: str, changes: BinaryIO) -> None:
        """Write the next rows with changed values."""
        part = np.frombuffer(changes.read(MAX_ROWS_PER_TICK * CHANGED.itemsize), CHANGED)
        if not part.size:
            changes.close()
            self._changes = None
            return
        if self._crawl.held_partitions.held is not None:
            # other workers write the rest
            part = part[np.isin(part["partition"], list(self._crawl.held_partitions.held))]
        keys = zip(
            part["partition"].tolist(),
            part["host_key"].tolist(),
            part["url_key"].tolist(),
            strict=True,
        )
        identities = [
            UrlId("", "", host_key, url_key, partition) for partition, host_key, url_key in keys
        ]
        numbers = dict(
            zip(
                part["url_key"].tolist(),
                zip(part["importance"].tolist(), part["change_rate"].tolist(), strict=True),
                strict=True,
            )
        )
        for stored in self._crawl.scheduler.heads.stored(identities):
            if stored.collection != collection or stored.operation:
                continue
            row = self._crawl.urls.find(collection, stored.id) or stored
            weight, rate = numbers[row.id.url_key]
            newer = row.visited_at != stored.visited_at  # a visit has refined the rate since
            row.rank(weight, None if newer else rate)
            self._crawl.urls.reschedule(row)

    def _renew(self) -> None:
        assert self._renewing is not None
        try:
            if next(self._renewing, self) is self:
                self._renewing = None
        except FileNotFoundError:
            # compacted and deleted meanwhile: the current tables have all rows
            self._renewing = self._crawl.scheduler.renew()

    # -- links
    # ------------------------------------------------------------

    @contextmanager
    def counting_links(self) -> Iterator[None]:
        """Record links to known URLs in this context, even before the first tick."""
        self._counts_links = True
        yield
        self._counts_links = False

    def seen_url_linked(self, collection: str, identity: UrlId) -> None:
        """Record a link to a known URL."""
        if not self._counts_links:
            return
        linked = self._linked.get(collection)
        now_ms = self._clock.now_ms()
        if (
            linked is None
            or now_ms < linked.young.get(identity.url_key, 0) <= now_ms + linked.rules.max_age_ms
        ):
            return
        linked.identities[identity.url_key] = identity
        if len(linked.identities) >= _MAX_LINKED:
            self._look_up(collection)

    def _look_up(self, collection: str) -> bool:
        """Look up links since the last call, and queue pages of sufficient age.

        Returns whether any page was queued.
        """
        linked = self._linked[collection]
        queued = False
        for row in self._crawl.urls.find_all(collection, linked.identities.values()):
            queued |= self._judge(linked, row, waiting=self._waits(row))
        linked.identities.clear()
        return queued

    def _judge(self, linked: _Linked, row: UrlRow, *, waiting: bool) -> bool:
        """Apply a link to a row. Return whether the row is queued now."""
        rules, now_ms = linked.rules, self._clock.now_ms()
        action = on_link(
            rules,
            state=row.state,
            visited_at=row.visited_at,
            not_before=row.not_before,
            fails=row.fails,
            now=now_ms,
            waiting=waiting,
        )
        if action is LinkAction.QUEUE:
            self._crawl.urls.make_due(row, requested=False)
        elif action is LinkAction.REFRESH and row.state == UrlState.KNOWN and row.visited_at:
            row.renew(now_ms)
            self._crawl.urls.change(row)
        if len(linked.young) >= _MAX_YOUNG:
            linked.young.clear()
        settled = action is LinkAction.ONLY_REFERRER and row.state == UrlState.VISITED
        linked.young[row.id.url_key] = (row.visited_at if settled else now_ms) + rules.max_age_ms
        return action is LinkAction.QUEUE

    def _waits(self, row: UrlRow) -> bool:
        crawl = self._crawl
        return (
            row.key in crawl.in_flight
            or crawl.frontier.active.waiting(row.collection, row.id.host_key, row.key) is not None
        )
