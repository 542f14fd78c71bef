"""Starts the requests that may be made now, and passes responses on to be processed.

`lycosa.crawl.policy.fetch_decision` decides about each URL; the frontier decides when a host may be
fetched from. `lycosa.crawl.processing.response_processor` interprets responses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, assert_never

from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.errors import Exclusion, FetchError
from lycosa.core.records import Exchange, VisitKind
from lycosa.crawl.admission.discovery import KINDS
from lycosa.crawl.fetch_pipeline import MAX_UNPARSED, Fetcher, FetchPipeline
from lycosa.crawl.policy.fetch_decision import (
    Decision,
    Defer,
    Exclude,
    Fetch,
    FetchRules,
    Postpone,
    Rows,
    fetch_decision,
)
from lycosa.crawl.policy.login import LoginManager
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.request_profiles import RequestBuilder, RequestProfiles
from lycosa.crawl.policy.worker_limits import WorkerLimits
from lycosa.crawl.processing.prerequisites import Prerequisites
from lycosa.crawl.processing.response_processor import ResponseProcessor
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.url.scope import url_origin

if TYPE_CHECKING:
    from lycosa.crawl.rendering.rendering import Renders


class Dispatcher:
    """Keeps as many requests in flight as the limits allow.

    `max_pages`: pages of this call in all; None: no limit. `fetcher` sends the requests;
    `self.fetcher` also parses documents and renders pages.
    """

    def __init__(
        self,
        crawl: CrawlState,
        processor: ResponseProcessor,
        operations: Operations,
        fetcher: Fetcher,
        quota: WorkerLimits,
        clock: Clock,
        max_pages: int | None,
    ) -> None:
        config: Config = crawl.config
        self.pages_in_flight = 0
        self.closed: frozenset[str] = frozenset()  # collections that may not fetch now
        self._crawl = crawl
        self._processor = processor
        self._operations = operations
        self._quota = quota
        self._clock = clock
        self._max_pages = max_pages
        self._connections = config.fetch.connections
        self._prerequisites = Prerequisites(crawl)
        self._renders: Renders | None = None
        if any(each.collection.render != "never" for each in crawl.assignments.values()):
            from lycosa.crawl.rendering.rendering import Renders

            self._renders = Renders(
                crawl,
                config,
                processor.parse,
                partial(self._archive_early, to_render=True),
                self._prerequisites.recheck,
            )
        self.fetcher = FetchPipeline(
            fetcher, processor.documents, self._archive_early, self._renders
        )
        collections = {name: each.collection for name, each in crawl.assignments.items()}
        profiles = RequestProfiles(
            collections, crawl.domains, clock, os.environ, plugins=crawl.plugins
        )
        self._logins = LoginManager(crawl, os.environ)
        expects = self._renders.expects if self._renders is not None else None
        self._requests = RequestBuilder(crawl, profiles, self._logins, expects=expects)
        self._rules = FetchRules(crawl, processor.discovery, profiles, self._logins, quota.renew)
        self._paused_collections: frozenset[str] = frozenset()
        self.paused = False

    def pause_collections(self, collections: Iterable[str]) -> None:
        """Fetch nothing for these collections until the next call."""
        self._paused_collections = frozenset(collections)

    def pause(self, paused: bool) -> None:
        """Start no requests while paused; those in flight continue."""
        self.paused = paused

    @property
    def full(self) -> bool:
        """Whether pages and those in flight reach the page limit of this call."""
        return (
            self._max_pages is not None
            and self._crawl.progress.pages + self.pages_in_flight >= self._max_pages
        )

    @property
    def free_slots(self) -> int:
        """How many more requests may be in flight now."""
        if self.paused or not self._quota.may_fetch() or self.fetcher.unparsed >= MAX_UNPARSED:
            return 0
        return self._connections - self.fetcher.fetching

    def next_time(self) -> int | None:
        """Return the earliest time of the next request (monotonic ms), or None.

        It is for a page, or for the robots.txt of a paused host. None: nothing waits.
        """
        times = (
            self._crawl.frontier.next_time(),
            self._crawl.scheduler.next_time(),
            self._prerequisites.next_time,
        )
        return min((at for at in times if at is not None), default=None)

    def start_due(self, now: int) -> bool:
        """Start all requests that are allowed now.

        Returns False if none was started or deferred.
        """
        free = self.free_slots
        free_slots = self._prerequisites.start(now, free, self._start)
        moved = free_slots < free
        refilled = False
        while (
            free_slots > 0
            and not self.full
            and self._quota.may_fetch()
            and not (self._renders is not None and self._renders.full)
        ):
            self.closed = self._closed_collections()
            if len(self.closed) == len(self._crawl.assignments):
                break  # no request is allowed, so parked hosts are not needed
            rows = self._crawl.frontier.next(now, self.closed)
            if not rows:
                if refilled or not self.refill_if_due(now):
                    break
                refilled = True
            else:
                moved = True
                free_slots -= self._send(rows)
        return moved

    def _closed_collections(self) -> frozenset[str]:
        """Return the collections that may fetch nothing now.

        They are at their limit of requests in flight, are paused, or have used up their page quota.
        """
        return frozenset(
            name
            for name, each in self._crawl.assignments.items()
            if each.in_flight - each.unparsed
            >= max(1, each.collection.connections // self._quota.active_workers)
            or name in self._paused_collections
            or self._quota.is_spent(each)
        )

    def refill_if_due(self, now: int) -> bool:
        """Activate parked hosts that are due; return whether any were read."""
        due = self._crawl.scheduler.next_time()
        return due is not None and due <= now and self._crawl.scheduler.refill()

    def _send(self, rows: Rows) -> bool:
        """Start the fetch of a URL, or apply another decision.

        Returns whether a request was started.
        """
        if rows[0].operation not in KINDS:
            self._operations.serve(rows)
            return False
        decisions = fetch_decision(rows, self._rules.in_order)
        if not isinstance(decisions[-1], Fetch):
            self._crawl.frontier.undo(rows[0].id.host_key)
        began = False
        for decision in decisions:
            began |= self._apply(decision)
        return began

    def _apply(self, decision: Decision) -> bool:
        match decision:
            case Fetch(rows):
                first = rows[0]
                kind = KINDS[first.operation]
                self._start(Task(first.id, rows, url_origin(first.id.url), kind, first.fails + 1))
                self.pages_in_flight += 1
                self._crawl.in_flight[first.key] = rows
                return True
            case Defer():
                return self._defer(decision)
            case Postpone(rows, reason, trap):
                for row in rows:
                    self._crawl.urls.postpone(row, reason)
                    if trap:
                        self._crawl.hosts.count_trap(row, trap)
            case Exclude(rows, reason):
                for row in rows:
                    self._crawl.urls.exclude(row, reason)
                    if reason is Exclusion.ROBOTS and row.depth == 0 and not row.operation:
                        self._crawl.progress.fail(row.id.url, "robots.txt disallows it")
            case _:
                assert_never(decision)
        return False

    def _defer(self, decision: Defer) -> bool:
        host_key, now = decision.rows[0].id.host_key, self._clock.monotonic_ms()
        for row in decision.rows:
            if decision.by_schedule:
                self._crawl.scheduler.heads.wait_for(row)
            else:
                self._crawl.frontier.add(row, 0 if decision.whole_host else decision.until)
        if decision.whole_host:
            self._crawl.frontier.delay(host_key, now, decision.until)
        task = decision.prerequisite
        if task is None:
            return False
        self._crawl.frontier.hold(host_key)
        if task.kind is not VisitKind.ROBOTS:
            self._crawl.prerequisites.append(task)
            return False
        self._crawl.frontier.start(host_key, now)
        self._start(task)
        return True

    def _start(self, task: Task) -> None:
        self.fetcher.start(self._requests.of(task))

    def finish(self, exchange: Exchange) -> None:
        """Process the outcome of a request."""
        task = exchange.token
        assert isinstance(task, Task)
        if exchange.error == FetchError.INTERRUPTED:
            self._crawl.urls.give_back(task, self._clock.monotonic_ms())
        else:
            self._requests.process_response(exchange, task)
            self._requests.forget(exchange)
            self._processor.process(exchange, task)
            if task.kind is VisitKind.LOGIN:
                self._continue_login(exchange, task)
        if task.rows:
            self.pages_in_flight -= 1
            # after its page was counted: it must not be missing from `added` in between
            for row in task.rows:
                self._crawl.assignments[row.collection].in_flight -= 1

    def _continue_login(self, exchange: Exchange, task: Task) -> None:
        """Queue the next step of a login, or release the host."""
        following = self._logins.of(task).process(exchange, task)
        if following is not None:
            self._crawl.prerequisites.append(following)
        else:
            self._crawl.frontier.release(task.identity.host_key)

    def _archive_early(
        self, exchange: Exchange, *, to_render: bool = False
    ) -> Callable[[], bytes] | None:
        """Archive a document to be parsed, or a page to be rendered.

        `finish` gets the exchange when that is done. Returns a function that returns its body.
        """
        assert isinstance(exchange.token, Task)
        self._requests.process_response(exchange, exchange.token)
        if exchange.error:
            return None
        return self._processor.archive_unparsed(exchange, exchange.token, to_render=to_render)
