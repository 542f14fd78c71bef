"""The worker: one event loop that holds partitions, fetches politely, and commits while it goes on.

What an exchange means is the crawl's business (`lycosa.crawl.state.crawl_state`), when to commit
that of `lycosa.crawl.state.committing`; here is when to fetch and when to end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from lycosa.config.settings import Config
from lycosa.core.clock import Clock
from lycosa.core.errors import Exclusion, FetchError
from lycosa.core.records import Exchange, UrlState, VisitKind
from lycosa.crawl.admission.discovery import KINDS
from lycosa.crawl.documents.queue import MAX_UNPARSED, DocumentFetcher
from lycosa.crawl.membership import Lease
from lycosa.crawl.policy.availability_checks import AvailabilityChecks
from lycosa.crawl.policy.fetch_decision import (
    Decision,
    Defer,
    Exclude,
    Fetch,
    FetchRules,
    PutOff,
    Rows,
    fetch_decision,
)
from lycosa.crawl.policy.lease_quota import LeaseQuota
from lycosa.crawl.policy.login import LoginManager
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.prerequisites import Prerequisites
from lycosa.crawl.policy.request_builder import RequestBuilder
from lycosa.crawl.policy.request_profiles import RequestProfiles
from lycosa.crawl.processing.response_processor import ResponseProcessor
from lycosa.crawl.rendering.fetcher import RenderFetcher
from lycosa.crawl.rendering.rendering import Renders
from lycosa.crawl.state.committing import Commits
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.idleness import IdlenessTracker
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Task
from lycosa.fetch.fetcher import Fetcher
from lycosa.processes.stopping import StopFlag
from lycosa.url.scope import url_origin

STOP_GRACE_MS = 3_000
"""Grace period for fetches in flight when the worker stops."""

_PATIENCE_WITHOUT_PAGES_MS = 30_000
"""Of a call that could not fetch anything yet."""

_OBSERVE_MS = 200
_IDLE_MS = 10  # something seems due and yet nothing could be begun: look again, but not at once
_TICK_MS = 1_000
_FOLLOW_MS = 60_000  # how often a worker reads on in the log beside its commits: merges, exclusions
_FOLLOW_OTHERS_MS = 1_000  # and where others may have found something for it
REFILL_MS = 60_000
"""So often hosts that rest are looked at while those at hand always have something to ask: else
they would never be.
"""

Observer = Callable[[Progress], None]


@dataclass(slots=True, frozen=True)
class Limits:
    """When a call ends before the crawl does. None: no limit."""

    max_pages: int | None = None
    max_time_ms: int | None = None


class Worker:
    """Crawls collections with the partitions of one claim, until nothing is due or a limit is met.

    With `forever` it waits for what becomes due instead of ending.
    """

    def __init__(
        self,
        crawl: CrawlState,
        config: Config,
        processor: ResponseProcessor,
        operations: Operations,
        *,
        fetcher: Fetcher,
        clock: Clock,
        limits: Limits,
        forever: bool = False,
        observer: Observer | None = None,
        committed: Callable[[int], None] | None = None,
        tick: Callable[[], None] | None = None,
        longest_wait_ms: int = _OBSERVE_MS,
        lease: Lease | None = None,
        follow: Callable[[], int] | None = None,
    ) -> None:
        """`longest_wait_ms`: how long it may sleep while nothing is due; more where time is
        simulated. `lease`: nothing is fetched while it does not hold. `follow`: where other workers
        hold partitions, called each second after reading on in the log; returns the entry up to
        which all is applied.
        """
        self.crawl = crawl
        self.processor = processor
        self._operations = operations
        self.progress = crawl.progress
        self.frontier = crawl.frontier
        self._checks: AvailabilityChecks | None = None
        self._config = config
        self._documents = self.processor.documents
        documents = DocumentFetcher(fetcher, self._documents, self._set_aside)
        self._prerequisites = Prerequisites(crawl)
        self._renders: Renders | None = None
        self._fetcher: DocumentFetcher | RenderFetcher = documents
        if any(each.collection.render != "never" for each in crawl.assignments.values()):
            self._renders = Renders(
                crawl, config, processor.parse, self._set_page_aside, self._prerequisites.look_again
            )
            self._fetcher = RenderFetcher(documents, self._renders)
        self.clock = clock
        collections = {name: each.collection for name, each in crawl.assignments.items()}
        self._profiles = RequestProfiles(collections, crawl.domains, clock, os.environ)
        self._logins = LoginManager(crawl, os.environ)
        expects = self._renders.expects if self._renders is not None else None
        self._requests = RequestBuilder(crawl, self._profiles, self._logins, expects=expects)
        discovery = self.processor.discovery
        self.quota = LeaseQuota(crawl, lease)
        self._rules = FetchRules(crawl, discovery, self._profiles, self._logins, self.quota.renew)
        self._limits = limits
        self._forever = forever
        self._closed: frozenset[str] = frozenset()  # collections that may not fetch now
        self._observer = observer
        self._tick = tick
        self._longest_wait_ms = longest_wait_ms
        self._follow = follow
        self._follow_ms = _FOLLOW_MS if follow is None else _FOLLOW_OTHERS_MS
        self._idleness = IdlenessTracker(crawl)
        self._paused_collections: frozenset[str] = frozenset()
        self._paused = False
        self._next_tick = 0
        self._next_refill = clock.monotonic_ms() + REFILL_MS
        self._next_look = clock.monotonic_ms() + (_FOLLOW_MS if follow is None else 0)
        self._pages_in_flight = 0
        self._moved = True  # whether this turn of the loop began anything
        self._last_observed = 0
        self._stop = StopFlag()
        in_cluster = self.nothing_to_do if follow is not None else None
        self.commits = Commits(
            crawl, config.crawl, clock, nothing_to_do=in_cluster, committed=committed
        )

    def run(self) -> Progress:
        """Fetch until nothing is due, a limit, or `stop`; then commit. May be called again when
        more became due.

        Raises:
            ClaimLost: somebody else holds the partitions; nothing more was committed.
            WorkError: the disk does not take what was fetched.
        """
        while not (ended := self._ended(self.clock.monotonic_ms())):
            self.turn()
        return self.end(ended)

    def turn(self) -> None:
        """One turn of the loop: start what may start, wait a little, act on what has ended. Raises
        what `run` raises.
        """
        clock = self.clock
        self.quota.renew()
        self._ticks(clock.monotonic_ms())
        if self._checks is not None:
            may_start = not self._paused and self.quota.may_fetch()
            self._checks.turn(clock.monotonic_ms(), may_start=may_start)
        self._moved = self._start_due(clock.monotonic_ms())
        for exchange in self._wait():
            self._finish(exchange)
        self.commit_if_due()
        self._observe(clock.monotonic_ms())

    def end(self, ended: str) -> Progress:
        """Finish what is in flight and commit. `ended`: why, as `Progress` has it."""
        self.progress.ended = ended
        self._drain()
        self.progress.ended_ms = self.clock.monotonic_ms()
        return self.progress

    def close(self) -> None:
        """Leave the open WARC for replay, if there is one: after an error. Waits for a commit that
        is being written.
        """
        self._documents.close()
        self.commits.close()
        self.crawl.buffer.batch.abandon()

    def rest(self, collections: Iterable[str]) -> None:
        """Fetch nothing for these collections until told otherwise (their schedule says so)."""
        self._paused_collections = frozenset(collections)

    def make_checks(self, checks: AvailabilityChecks | None) -> None:
        """Make these availability checks while crawling; None: no more."""
        self._checks = checks

    def pause(self, paused: bool) -> None:
        """Fetch nothing at all until told otherwise; what is in flight ends, and commits go on."""
        self._paused = paused

    def idle(self) -> tuple[bool, int]:
        """Whether nothing is due within `crawl.patience`, in flight, awaiting retry, uncommitted,
        unapplied or to be walked again; and the log entry up to which that is so. From any thread;
        about a second old, which that entry makes good.
        """
        snapshot = self._idleness.latest
        return snapshot.idle, snapshot.head

    def waiting_by_partition(self) -> dict[int, int]:
        """How many known URLs wait in each partition that is held. From any thread; about a second
        old.
        """
        return self._idleness.latest.waiting

    def nothing_to_do(self, until: int) -> bool:
        """Whether nothing is in flight, and nothing is due up to then or may be fetched: the page
        budget is used up.
        """
        if self._fetcher.active:
            return False
        if self.quota.all_spent():
            return True
        due = self._next_time()
        return due is None or due > until

    def _ticks(self, now: int) -> None:
        """What others do beside the fetching, once a second."""
        if self.commits.under_way is None and now >= self._next_look:
            self._next_look = now + self._follow_ms
            self.crawl.buffer.follow_log()
            if self._follow is not None:
                self._stand(self._follow())
        if self._tick is not None and now >= self._next_tick:
            self._next_tick = now + _TICK_MS
            self._tick()

    def _stand(self, read_to: int) -> None:
        """Note how things stand: everything up to that entry is applied."""
        crawl, now = self.crawl, self.clock.monotonic_ms()
        due = self._next_time()
        busy = (
            self._fetcher.active
            or self.commits.under_way is not None
            or not crawl.buffer.batch.empty
            or (due is not None and due <= now + self._config.crawl.patience)
            or any(each.depth_decreased for each in crawl.assignments.values())
            or crawl.events.may_become_due()
        )
        self._idleness.renew(idle=not busy, head=read_to)

    def stop(self) -> None:
        """End soon (from a signal handler or another thread): finish what is in flight, commit,
        return from `run`.
        """
        self._stop.set()

    def _ended(self, now: int) -> str:
        if self._stop.is_set():
            return "stopped"
        if (
            self._limits.max_time_ms is not None
            and now - self.progress.started_ms >= self._limits.max_time_ms
        ):
            return "max_time"
        if not self._pages_in_flight and (
            self._full() or (not self._forever and self.quota.all_spent())
        ):
            return "max_pages"
        if self._fetcher.active or self._forever:
            return ""
        due = self._next_time()
        if self.progress.all_failed and (
            due is None or due > now + min(self._config.crawl.patience, _PATIENCE_WITHOUT_PAGES_MS)
        ):
            return "finished"  # no host answers, and those who wait want to know
        if (
            due is not None and due <= now + self._config.crawl.patience
        ) or self.crawl.events.may_become_due():
            return ""
        return "finished"

    def _next_time(self) -> int | None:
        """When something may be due at the earliest: a page, or a robots.txt whose host rests."""
        times = (
            self.frontier.next_time(),
            self.crawl.scheduler.next_time(),
            self._prerequisites.next_time,
        )
        return min((at for at in times if at is not None), default=None)

    def _full(self) -> bool:
        max_pages = self._limits.max_pages
        return max_pages is not None and self.progress.pages + self._pages_in_flight >= max_pages

    def _room(self) -> int:
        if self._paused or not self.quota.may_fetch() or self._fetcher.unparsed >= MAX_UNPARSED:
            return 0
        return self._config.fetch.connections - self._fetcher.fetching

    def _start_due(self, now: int) -> bool:
        """Start what may be started. False: nothing was taken up."""
        if now >= self._next_refill:
            self._next_refill = now + REFILL_MS
            if self._hungry(now):
                self.crawl.scheduler.refill()
        free = self._room()
        room = self._prerequisites.start(now, free, self._start)
        moved = room < free
        refilled = False
        while (
            room > 0
            and not self._full()
            and self.quota.may_fetch()
            and not (self._renders is not None and self._renders.full)
        ):
            self._closed = frozenset(
                name
                for name, each in self.crawl.assignments.items()
                if each.in_flight - each.unparsed
                >= max(1, each.collection.connections // self.quota.active_workers)
                or name in self._paused_collections
                or self.quota.is_spent(each)
            )
            if len(self._closed) == len(self.crawl.assignments):
                break  # nothing may be fetched, so nothing is missing
            rows = self.frontier.next(now, self._closed)
            if not rows:
                if refilled or not self._hungry(now) or not self.crawl.scheduler.refill():
                    break
                refilled = True
            else:
                moved = True
                room -= self._send(rows)
        return moved

    def _hungry(self, now: int) -> bool:
        """Whether the reserve has something that is due while we have nothing to do."""
        due = self.crawl.scheduler.next_time()
        return due is not None and due <= now

    def _send(self, rows: Rows) -> bool:
        """Start the fetch of a URL, or do what the rules decided instead. True: a request began."""
        if rows[0].operation not in KINDS:
            self._operations.serve(rows)
            return False
        decisions = fetch_decision(rows, self._rules.in_order)
        if not isinstance(decisions[-1], Fetch):
            self.frontier.undo(rows[0].id.host_key)
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
                self._pages_in_flight += 1
                self.crawl.in_flight[first.key] = rows
                return True
            case Defer():
                return self._defer(decision)
            case PutOff(rows, reason, trap):
                for row in rows:
                    self.crawl.urls.put_off(row, reason)
                    if trap:
                        self.crawl.hosts.count_trap(row, trap)
            case Exclude(rows, reason):
                for row in rows:
                    self.crawl.urls.exclude(row, reason)
                    if reason is Exclusion.ROBOTS and row.depth == 0 and not row.operation:
                        self.progress.fail(row.id.url, "robots.txt disallows it")
            case _:
                assert_never(decision)
        return False

    def _defer(self, decision: Defer) -> bool:
        host_key, now = decision.rows[0].id.host_key, self.clock.monotonic_ms()
        for row in decision.rows:
            if decision.by_schedule:
                self.crawl.scheduler.heads.wait_for(row)
            else:
                self.frontier.add(row, 0 if decision.whole_host else decision.until)
        if decision.whole_host:
            self.frontier.delay(host_key, now, decision.until)
        task = decision.prerequisite
        if task is None:
            return False
        self.frontier.hold(host_key)
        if task.kind is not VisitKind.ROBOTS:
            self.crawl.prerequisites.append(task)
            return False
        self.frontier.start(host_key, now)
        self._start(task)
        return True

    def _start(self, task: Task) -> None:
        self._fetcher.start(self._requests.of(task))

    def _wait(self) -> list[Exchange]:
        if self._fetcher.fetching and not self.quota.holds:
            # the partitions may be another's before long; what has ended is there all the same
            self._fetcher.stop()
            return self._fetcher.wait(0)
        timeout = self._longest_wait_ms
        waits_for_others = self._closed and self._fetcher.active
        due = None if self._full() or self._room() <= 0 or waits_for_others else self._next_time()
        if due is not None:
            timeout = min(
                timeout, max(due - self.clock.monotonic_ms(), 0 if self._moved else _IDLE_MS)
            )
        if self._fetcher.active:
            return self._fetcher.wait(timeout)
        if self._closed:
            timeout = self._longest_wait_ms
        if timeout:
            self._fetcher.sleep(timeout, self._stop)
        return []

    def _drain(self) -> None:
        """Nothing new is started: give what is in flight a little time, then commit all that was
        understood.
        """
        deadline = self.clock.monotonic_ms() + STOP_GRACE_MS
        while self._fetcher.active and self.clock.monotonic_ms() < deadline and self.quota.holds:
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._fetcher.stop()
        while self._fetcher.fetching:
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._fetcher.leave()
        self.commit_now()
        self._observe(self._last_observed + _OBSERVE_MS + 1)

    def _set_aside(self, exchange: Exchange) -> Callable[[], bytes] | None:
        """A document has come: archive it. It comes again, to `_finish`, when it is read."""
        assert isinstance(exchange.token, Task)
        self._requests.process_response(exchange, exchange.token)
        return None if exchange.error else self.processor.set_aside(exchange, exchange.token)

    def _set_page_aside(self, exchange: Exchange) -> bool:
        """The same for a page that is to be rendered."""
        assert isinstance(exchange.token, Task)
        self._requests.process_response(exchange, exchange.token)
        return (
            not exchange.error
            and self.processor.set_aside(exchange, exchange.token, to_render=True) is not None
        )

    def _finish(self, exchange: Exchange) -> None:
        task = exchange.token
        assert isinstance(task, Task)
        if exchange.error == FetchError.INTERRUPTED:
            self.crawl.urls.give_back(task, self.clock.monotonic_ms())
        else:
            self._requests.process_response(exchange, task)
            self._requests.forget(exchange)
            self.processor.process(exchange, task)
            if task.kind is VisitKind.LOGIN:
                self._go_on(exchange, task)
        if task.rows:
            self._pages_in_flight -= 1
            # after its page was counted: it must not be missing from `added` in between
            for row in task.rows:
                self.crawl.assignments[row.collection].in_flight -= 1

    def _go_on(self, exchange: Exchange, task: Task) -> None:
        """The next step of a log-in, or its end."""
        following = self._logins.answered(exchange, task)
        if following is not None:
            self.crawl.prerequisites.append(following)
        else:
            self.frontier.release(task.identity.host_key)

    def commit_if_due(self) -> None:
        """Commit what has come together, if it is much or old enough."""
        self.commits.if_due()

    def commit_now(self) -> None:
        """Commit what there is, and wait until it is on disk."""
        self.commits.now()

    def _observe(self, now: int) -> None:
        if now - self._last_observed < _OBSERVE_MS:
            return
        self._last_observed = now
        progress = self.progress
        progress.queue = max(progress.states[UrlState.KNOWN] - self._pages_in_flight, 0)
        progress.in_flight = self._fetcher.active
        progress.hosts = len(self.crawl.scheduler.parked.directory)
        if self._observer is not None:
            self._observer(progress)
