"""A worker of a cluster: pings its coordinator and crawls the partitions assigned to it.

Runs in an engine (`lycosa.cluster.engine.Remote`). One thread pings and never waits for anything
else. The other opens a session for the assigned partitions and closes it when the assignment
changes: stop, at most 3 s for fetches in flight, commit, release. Without replies the lease expires
and the session pauses; by the log it then continues, or its claim is lost. The protocol is in
`lycosa.crawl.membership`: it ensures that no host gets requests from two workers.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from lycosa.cluster.engine import Remote, Unreachable
from lycosa.cluster.walking_shared import WalkOrder, join_walk
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ClaimLost, LycosaError, StorageError
from lycosa.core.units import format_time
from lycosa.crawl.membership import Lease, Ping, PingReply
from lycosa.crawl.processing.page_mark import HangDetector, PageMark
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.session.worker_status import (
    CrawlPause,
    Rate,
    WorkerStatus,
    continued,
    cpu_s,
    figures,
)
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.crawl.state.waiting import IdlenessSnapshot, left_for_later
from lycosa.processes.children import ChildReport, failure_of
from lycosa.processes.memory import collect_session, tune_memory
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.coordination.cluster_lock import ClusterLock
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace

_SOON = 10  # after a reply with `soon` the next ping follows in this part of the interval
_LOOK_S = 0.05
_STORAGE_PAUSE_S = 5.0
_CLOSE_S = 6.0


@dataclass(slots=True, frozen=True)
class MemberOrder:
    """Settings of a worker. Picklable. `name`: its slot; each process adds a suffix of its own.

    `ends`: a crawl that ends and counts deferred URLs then. `walk`: only unvisited URLs that the
    walk reaches are fetched.
    """

    location: str
    config: Config
    jobs: tuple[Job, ...]
    coordinator: Remote
    name: str
    node: str
    command: str = "run"
    ends: bool = False
    walk: WalkOrder | None = None


@dataclass(slots=True, frozen=True)
class MemberStatus:
    """State of a worker. `worker`: name of this process; `failure`: why it ended unrequested."""

    worker: str
    ended: bool
    worker_status: WorkerStatus
    failure: ChildReport | None = None
    holds: bool = False
    partitions: int = 0


class ClusterWorker:
    """Starts to work when it is created; `leave` or `close` end it."""

    def __init__(self, order: MemberOrder, clock: Clock | None = None) -> None:
        tune_memory()
        self._order = order
        self._clock = clock or SystemClock()
        self._settings = order.config.cluster
        self._lease = Lease(self._clock, self._settings.hold)
        self._lock = threading.Lock()  # guards the fields about the claim in a ping
        self._intent: frozenset[int] = frozenset()  # held, or about to be claimed
        self._session: CrawlSession | None = None
        self._claim = 0
        self._ready = False
        self._leaving = False
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._failure: ChildReport | None = None
        self._former = Progress(self._clock.monotonic_ms())  # of earlier claims
        self._worker_status = WorkerStatus(self._former, {}, frozenset())
        self._last_commit: tuple[int, str] | None = None
        self._rate = Rate(self._clock)
        self._idle = False
        self._mark = PageMark()
        self._hang_detector = HangDetector(self._mark)
        self.name = f"{order.name}-{os.getpid()}-{secrets.token_hex(3)}"
        self._process_lock = ClusterLock(open_storage(order.location))  # before the first ping
        # without pings the partitions would be reassigned while this process still works
        start_thread(self._ping, name="ping", on_error=OnError.END_PROCESS)
        start_thread(self._work, name="work", on_error=OnError.END_PROCESS)

    @cached_property
    def _workspace(self) -> Workspace:  # opened by `_work`, which repeats it if storage fails
        return Workspace.open(self._order.location)

    # -- called by the driver
    # ------------------------------------------------------------

    def status(self) -> MemberStatus:
        return MemberStatus(
            self.name,
            self._ended.is_set(),
            self._worker_status,
            self._failure,
            self._lease.holds,
            len(self._intent),
        )

    def leave(self) -> None:
        """Commit, release and end; `status` reports when that is done."""
        self._leaving = True
        self._wake.set()
        self._end_session()

    def close(self) -> None:
        """Leave, and wait a few seconds until the worker has ended."""
        self.leave()
        self._ended.wait(_CLOSE_S)

    # -- the thread that pings
    # ------------------------------------------------------------

    def _ping(self) -> None:
        interval_s = self._settings.ping_interval / 1000
        timeout_s = max(2 * interval_s, 0.5)
        while not self._ended.is_set():
            if self._hang_detector.hangs(self._clock.monotonic_ms()):
                os.kill(os.getpid(), signal.SIGKILL)
            sent = self._lease.sending()
            soon = False
            try:
                answer: PingReply = self._order.coordinator.ask(
                    "ping", self._make_ping(), timeout_s=timeout_s
                )
            except LycosaError:
                pass  # the lease expires
            else:
                self._lease.answered(sent, answer)
                soon = answer.soon
                self._obey()
            if self._wake.wait(interval_s / _SOON if soon else interval_s):
                self._wake.clear()
                self._obey()
        with suppress(Unreachable):  # so that its partitions can go to others at once
            self._order.coordinator.ask("ping", self._make_ping(), timeout_s=timeout_s)

    def _make_ping(self) -> Ping:
        answer_number = self._lease.acknowledged
        with self._lock:
            session, claim, intent, ready = self._session, self._claim, self._intent, self._ready
        idleness, extra, committed = IdlenessSnapshot(), {}, {}
        granted = dict(self._lease.granted(claim))
        if session is not None and ready:
            idleness = session.worker.idleness
        if session is not None:
            extra = session.worker.quota.added()
            committed = {name: session.claim.counted[f"pages.{name}"] for name in extra}
        return Ping(
            self.name,
            self._order.node,
            claim,
            intent,
            idleness.head,
            idleness.idle,
            granted,
            extra,
            idleness.waiting,
            {**figures([self._worker_status]), "pid": os.getpid()},
            acknowledged=answer_number,
            ready=ready,
            committed=committed,
            leaving=self._leaving or self._ended.is_set(),
            fetched=self._worker_status.progress.pages,
            seeds_failed=idleness.seeds_failed,
        )

    def _obey(self) -> None:
        """End the session if other partitions are assigned than it holds."""
        partitions = self._lease.assigned_partitions
        if self._lease.answer.stop or (partitions is not None and partitions != self._intent):
            self._end_session()

    def _end_session(self) -> None:
        with self._lock:
            session = self._session
        if session is not None:
            session.worker.stop()

    # -- the thread that works
    # ------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_over():
                with self._lock:
                    self._intent = self._lease.assigned_partitions or frozenset()
                if self._intent:
                    try:
                        self._hold(self._intent)
                    except StorageError as error:  # the next claim continues
                        self._worker_status = replace(self._worker_status, message=str(error))
                        self._ended.wait(_STORAGE_PAUSE_S)
                    collect_session()
                else:
                    self._ended.wait(_LOOK_S)
        except Exception as error:  # noqa: BLE001 - reported to the driver, which decides
            self._failure = failure_of(error)
        finally:
            self._process_lock.release()
            self._ended.set()
            self._wake.set()

    def _is_over(self) -> bool:
        return self._leaving or self._lease.answer.stop

    def _hold(self, partitions: frozenset[int]) -> None:
        """Run one session: claim, load, fetch, commit, release. A lost claim is no failure."""
        rest = CrawlPause(
            self._order.jobs,
            self._workspace.storage,
            self._order.config,
            self._clock,
            scheduled=not self._order.ends,
        )
        session = open_session(
            self._workspace,
            self._order.config,
            self._order.jobs,
            SessionOptions(
                committed=self._committed,
                partitions=partitions,
                worker=self.name,
                lease=self._lease,
                mark=self._mark.set,
            ),
            command=self._order.command,
            clock=self._clock,
        )
        session.worker.ticks.append(lambda: self._tick(session, rest))
        done = False
        try:
            with self._lock:
                self._session, self._claim = session, session.claim.entry
            # the assignment may have changed meanwhile
            if self._lease.assigned_partitions != partitions or self._leaving:
                done = True
                return
            if self._order.walk is not None:
                join_walk(session, self._order.walk)
            self._update_status(session, rest, "loading the stored state")
            session.load()
            with self._lock:
                self._ready = True
            session.worker.run()
            if self._order.ends and self._lease.answer.stop:
                progress, crawl = session.worker.progress, session.crawl
                progress.defer(left_for_later(crawl, session.tables, crawl.assignments))
            done = True
        except ClaimLost:
            pass
        finally:
            try:
                session.close()
                if done:
                    session.claim.release()
            finally:
                self._clear_session(session, rest)

    def _clear_session(self, session: CrawlSession, rest: CrawlPause) -> None:
        self._update_status(session, rest, "")
        self._former = self._worker_status.progress
        with self._lock:
            self._session, self._claim, self._ready, self._intent = None, 0, False, frozenset()

    def _tick(self, session: CrawlSession, rest: CrawlPause) -> None:
        session.inbox.apply()
        rest.update(session)
        self._update_status(session, rest, rest.message)
        self._obey()

    def _update_status(self, session: CrawlSession, rest: CrawlPause, message: str) -> None:
        """Update the state that pings and the driver read."""
        progress = continued(self._former, session.worker.progress)
        pages = {
            name: (each.added, each.in_flight) for name, each in session.crawl.assignments.items()
        }
        self._worker_status = WorkerStatus(
            progress,
            pages,
            rest.paused_collections,
            self._rate.take(progress.pages),
            message,
            self._last_commit,
            cpu_s(),
        )
        idleness = session.worker.idleness
        idle = idleness.idle or idleness.seeds_failed
        if idle and not self._idle:
            self._wake.set()  # ping now: the crawl ends when all workers are idle
        self._idle = idle

    def _committed(self, entry: int) -> None:
        self._last_commit = (entry, format_time(self._clock.now_ms()))
