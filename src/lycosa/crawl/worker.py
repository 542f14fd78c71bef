"""The worker: one event loop that fetches and commits.

`lycosa.crawl.dispatcher` starts requests, `lycosa.crawl.processing` interprets responses,
`lycosa.crawl.state.committing` decides when to commit; this module decides when a crawl ends.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.core.records import Exchange, UrlState
from lycosa.crawl.dispatcher import Dispatcher
from lycosa.crawl.fetch_pipeline import Fetcher
from lycosa.crawl.membership import Lease
from lycosa.crawl.policy.host_delay import AvailabilityChecks
from lycosa.crawl.policy.operations import Operations
from lycosa.crawl.policy.worker_limits import WorkerLimits
from lycosa.crawl.processing.response_processor import ResponseProcessor
from lycosa.crawl.state.committing import Commits
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.waiting import IdlenessSnapshot, IdlenessTracker
from lycosa.processes.threads import StopFlag

STOP_GRACE_MS = 3_000
"""Grace period for fetches in flight when the worker stops."""

_PATIENCE_WITHOUT_PAGES_MS = 30_000
"""Maximum patience of a call without pages, after failures of all seeds."""

_FOREVER_MS = 1 << 62
_OBSERVE_MS = 200
_BLOCKED_RETRY_MS = 10
"""URLs are due but none may be requested yet; avoids a busy loop."""
_TICK_MS = 1_000
_FOLLOW_MS = 60_000
"""Interval for reading compactions and exclusions from the log."""
_FOLLOW_OTHERS_MS = 1_000
"""The same if other workers may have discovered URLs for this one."""
REFILL_MS = 60_000
"""Interval for activating parked hosts while active hosts have due URLs.

It prevents starvation.
"""

Observer = Callable[[Progress], None]


@dataclass(slots=True, frozen=True)
class Limits:
    """Limits of a call; it ends when one is reached. None: no limit."""

    max_pages: int | None = None
    max_time_ms: int | None = None


@dataclass(slots=True, frozen=True)
class WorkerOptions:
    """Options of a worker.

    `forever`: it waits for due URLs instead of ending. `longest_wait_ms`: its longest sleep while
    nothing is due; longer for simulated time. `lease`: nothing is fetched while it is invalid.
    `observer` is called with the progress, `committed` with the number of each log entry. `follow`:
    with several workers, called each second after the log was read; returns the entry up to which
    everything is applied.
    """

    limits: Limits = Limits()
    forever: bool = False
    observer: Observer | None = None
    committed: Callable[[int], None] | None = None
    longest_wait_ms: int = _OBSERVE_MS
    lease: Lease | None = None
    follow: Callable[[], int] | None = None


class Worker:
    """Crawls collections in the partitions of one claim.

    It ends when nothing is due or a limit is reached.
    """

    def __init__(
        self,
        crawl: CrawlState,
        processor: ResponseProcessor,
        operations: Operations,
        fetcher: Fetcher,
        clock: Clock,
        options: WorkerOptions,
    ) -> None:
        self.crawl = crawl
        self.processor = processor
        self.progress = crawl.progress
        self.clock = clock
        self.quota = WorkerLimits(crawl, options.lease)
        self.dispatcher = Dispatcher(
            crawl, processor, operations, fetcher, self.quota, clock, options.limits.max_pages
        )
        self.commits = Commits(
            crawl,
            crawl.config.crawl,
            clock,
            nothing_to_do=self.nothing_to_do if options.follow is not None else None,
            committed=options.committed,
        )
        self._fetcher = self.dispatcher.fetcher
        self._options = options
        self._patience_ms = crawl.config.crawl.patience
        self._patience_without_pages_ms = min(self._patience_ms, _PATIENCE_WITHOUT_PAGES_MS)
        self._checks: AvailabilityChecks | None = None
        self._follow_ms = _FOLLOW_MS if options.follow is None else _FOLLOW_OTHERS_MS
        self._idleness = IdlenessTracker(crawl)
        self.ticks: list[Callable[[], object]] = []  # called once a second
        self._next_tick = 0
        self._next_refill = clock.monotonic_ms() + REFILL_MS
        self._next_look = clock.monotonic_ms() + (_FOLLOW_MS if options.follow is None else 0)
        self._moved = True  # whether the last iteration of the loop started a request
        self._last_observed = 0
        self.stop_flag = StopFlag()

    def run(self) -> Progress:
        """Fetch until nothing is due, a limit is reached, or `stop`; then commit.

        May be called again.

        Raises:
            ClaimLost: another worker holds the partitions; nothing more was committed.
            WorkError: the disk is full or fails.
        """
        while not (ended := self._ended(self.clock.monotonic_ms())):
            self.turn()
        return self.end(ended)

    def turn(self) -> None:
        """Execute one iteration: start requests, wait, process responses.

        Raises the errors of `run`.
        """
        clock = self.clock
        self.quota.renew()
        self._ticks(clock.monotonic_ms())
        if self._checks is not None:
            may_start = not self.dispatcher.paused and self.quota.may_fetch()
            self._checks.turn(clock.monotonic_ms(), may_start=may_start)
        now = clock.monotonic_ms()
        if now >= self._next_refill:
            self._next_refill = now + REFILL_MS
            self.dispatcher.refill_if_due(now)
        self._moved = self.dispatcher.start_due(now)
        for exchange in self._wait():
            self.dispatcher.finish(exchange)
        self.commits.if_due()
        self._observe(clock.monotonic_ms())

    def end(self, ended: str) -> Progress:
        """Finish the fetches in flight and commit. `ended`: the reason, as in `Progress`."""
        self.progress.end(ended)
        self._drain()
        self.progress.stop_clock(self.clock.monotonic_ms())
        return self.progress

    def close(self) -> None:
        """Close all parts, after waiting for a commit that is being written.

        After an error, an open WARC remains for replay.
        """
        self.processor.documents.close()
        self.commits.close()
        self.crawl.buffer.batch.abandon()

    def make_checks(self, checks: AvailabilityChecks | None) -> None:
        """Make these availability checks while crawling; None: no more."""
        self._checks = checks

    @property
    def idleness(self) -> IdlenessSnapshot:
        """Whether the worker is idle, about 1 s ago, but exact for the log up to that entry.

        Thread-safe.
        """
        return self._idleness.latest

    def nothing_to_do(self, until: int) -> bool:
        """Return whether nothing is in flight, and nothing is due up to `until`.

        Nothing counts as due if all page quotas are used up.
        """
        if self._fetcher.active:
            return False
        if self.quota.all_spent():
            return True
        due = self.dispatcher.next_time()
        return due is None or due > until

    def _ticks(self, now: int) -> None:
        """Follow the log and call `ticks`, each at its interval."""
        if self.commits.under_way is None and now >= self._next_look:
            self._next_look = now + self._follow_ms
            self.crawl.buffer.follow_log()
            if self._options.follow is not None:
                self._record_idleness(self._options.follow())
        if now >= self._next_tick:
            self._next_tick = now + _TICK_MS
            for tick in self.ticks:
                tick()

    def _record_idleness(self, read_to: int) -> None:
        """Record whether the worker is idle. `read_to`: last applied log entry."""
        crawl, now = self.crawl, self.clock.monotonic_ms()
        due = self.dispatcher.next_time()
        busy = (
            self._fetcher.active
            or self.commits.under_way is not None
            or not crawl.buffer.batch.empty
            or any(each.depth_decreased for each in crawl.assignments.values())
            or self._may_become_due()
        )
        idle_ms = 0 if busy else _FOREVER_MS if due is None else due - now
        self._idleness.renew(
            idle=idle_ms > self._patience_ms,
            seeds_failed=self.progress.all_failed and idle_ms > self._patience_without_pages_ms,
            head=read_to,
        )

    def _may_become_due(self) -> bool:
        return any(each.may_become_due() for each in reversed(self.crawl.listeners))

    def stop(self) -> None:
        """Stop soon: finish the fetches in flight, commit, return from `run`.

        May be called from a signal handler or another thread.
        """
        self.stop_flag.set()

    def _ended(self, now: int) -> str:
        if self.stop_flag.is_set():
            return "stopped"
        if (
            self._options.limits.max_time_ms is not None
            and now - self.progress.started_ms >= self._options.limits.max_time_ms
        ):
            return "max_time"
        if not self.dispatcher.pages_in_flight and (
            self.dispatcher.full or (not self._options.forever and self.quota.all_spent())
        ):
            return "max_pages"
        if self._fetcher.active or self._options.forever:
            return ""
        due = self.dispatcher.next_time()
        if self.progress.all_failed and (
            due is None or due > now + self._patience_without_pages_ms
        ):
            return "finished"  # no host answers
        if (due is not None and due <= now + self._patience_ms) or self._may_become_due():
            return ""
        return "finished"

    def _wait(self) -> list[Exchange]:
        if self._fetcher.fetching and not self.quota.holds:
            # another worker may soon hold the partitions; finished fetches are still returned
            self._fetcher.stop()
            return self._fetcher.wait(0)
        timeout = self._options.longest_wait_ms
        waits_for_others = self.dispatcher.closed and self._fetcher.active
        due = (
            None
            if self.dispatcher.full or self.dispatcher.free_slots <= 0 or waits_for_others
            else self.dispatcher.next_time()
        )
        if due is not None:
            timeout = min(
                timeout,
                max(due - self.clock.monotonic_ms(), 0 if self._moved else _BLOCKED_RETRY_MS),
            )
        if self._fetcher.active:
            return self._fetcher.wait(timeout)
        if self.dispatcher.closed:
            timeout = self._options.longest_wait_ms
        if timeout:
            self._fetcher.sleep(timeout, self.stop_flag)
        return []

    def _drain(self) -> None:
        """Wait for the fetches in flight for at most `STOP_GRACE_MS`, then commit."""
        deadline = self.clock.monotonic_ms() + STOP_GRACE_MS
        while self._fetcher.active and self.clock.monotonic_ms() < deadline and self.quota.holds:
            for exchange in self._fetcher.wait(100):
                self.dispatcher.finish(exchange)
        self._fetcher.stop()
        while self._fetcher.fetching:
            for exchange in self._fetcher.wait(100):
                self.dispatcher.finish(exchange)
        self._fetcher.leave()
        self.commits.now()
        self._observe(self._last_observed + _OBSERVE_MS + 1)

    def _observe(self, now: int) -> None:
        if now - self._last_observed < _OBSERVE_MS:
            return
        self._last_observed = now
        progress = self.progress
        progress.measure(
            queue=max(progress.states[UrlState.KNOWN] - self.dispatcher.pages_in_flight, 0),
            in_flight=self._fetcher.active,
            hosts=len(self.crawl.scheduler.parked.directory),
        )
        if self._options.observer is not None:
            self._options.observer(progress)
