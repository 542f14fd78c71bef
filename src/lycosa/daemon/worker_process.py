"""The worker process of the daemon: fetches, parses and commits; a page may kill it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

from lycosa.config.settings import Config
from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import LycosaError
from lycosa.core.units import format_time
from lycosa.crawl.processing.page_mark import PageMark
from lycosa.crawl.session.session import CrawlSession, SessionOptions, open_session
from lycosa.crawl.session.worker_status import (
    LIVE_EVERY_MS,
    CrawlPause,
    Rate,
    WorkerStatus,
    cpu_s,
    figures,
    write_live,
)
from lycosa.crawl.state.task import Job
from lycosa.crawl.worker import Worker
from lycosa.processes.children import ReportKind, failure_of
from lycosa.processes.memory import tune_memory
from lycosa.store.workspace import Workspace
from lycosa.uptime.session import Uptime

_WALK_EVERY_MS = 60_000


@dataclass(slots=True, frozen=True)
class WorkerOrder:
    """Arguments of a worker, picklable. `daemon`: the process id of the daemon."""

    root: str
    config: Config
    jobs: tuple[Job, ...]
    bad: Mapping[str, str]
    daemon: int


def work(report: Callable[..., None], order: WorkerOrder, mark: PageMark) -> None:
    """Crawl until SIGTERM, then commit, release the claim and return.

    Runs in its own process. An error is reported and ends it with exit code 1.
    """
    running: list[Worker] = []  # empty while it loads

    def stop(number: int, frame: FrameType | None) -> None:
        if not running:
            raise SystemExit(0)
        running[0].stop()

    signal.signal(signal.SIGTERM, stop)
    tune_memory()
    try:
        _work(report, order, mark, running)
    except Exception as error:
        failure = failure_of(error)
        report(failure.kind, failure.text)
        if isinstance(error, LycosaError):
            raise SystemExit(1) from None  # not a bug: no traceback
        raise


def _work(
    report: Callable[..., None], order: WorkerOrder, mark: PageMark, running: list[Worker]
) -> None:
    clock = SystemClock()
    workspace = Workspace.open(order.root)
    last: list[tuple[int, str]] = []  # entry and time of the last commit, if there was one

    def committed(entry: int) -> None:
        last[:] = [(entry, format_time(clock.now_ms()))]

    session = open_session(
        workspace,
        order.config,
        order.jobs,
        SessionOptions(forever=True, committed=committed, mark=mark.set),
        command="run",
        clock=clock,
    )
    done = False
    uptime = Uptime(workspace, session.crawl, session.worker, order.config, clock, _log)
    try:
        watch = WorkerMonitor(session, order, clock, lambda: last[0] if last else None)
        watch.write("loading the stored state")
        session.load()
        for path, number in session.worker.progress.damaged.items():
            _log(
                f"{path}: {number:,} damaged sections skipped, probably after a power failure; "
                "their pages are fetched again"
            )
        uptime.tick()
        running.append(session.worker)
        report(ReportKind.WORKING)
        session.worker.ticks.extend((session.inbox.apply, watch.tick, uptime.tick))
        session.worker.run()
        done = True
    except SystemExit:
        done = True
        raise
    finally:
        uptime.close()
        session.close()  # waits for a commit that is being written
        if done:
            session.claim.release()


class WorkerMonitor:
    """Checks hours, disk, parent and links to walk again once a second, and writes a status."""

    def __init__(
        self,
        session: CrawlSession,
        order: WorkerOrder,
        clock: Clock,
        last_commit: Callable[[], tuple[int, str] | None],
    ) -> None:
        self._session = session
        self._order = order
        self._clock = clock
        self._last_commit = last_commit
        self._parent = os.getppid()
        self._since = format_time(clock.now_ms())
        self._limited = [
            job.collection.name for job in order.jobs if job.collection.depth is not None
        ]
        self._pause = CrawlPause(order.jobs, session.workspace.storage, order.config, clock)
        self._rate = Rate(clock)
        self._live_writes = Interval(clock, LIVE_EVERY_MS)
        self._walks = Interval(clock, _WALK_EVERY_MS)

    def tick(self) -> None:
        worker = self._session.worker
        if os.getppid() != self._parent:
            worker.stop()
        self._pause.update(self._session)
        if self._walks.is_due():
            self._walk()
        if self._live_writes.is_due():
            self.write(self._pause.message)

    def write(self, message: str) -> None:
        """Write the status. `message`: why nothing is fetched, or ""."""
        progress, crawl = self._session.worker.progress, self._session.crawl
        collections = {
            name: (each.pages, each.in_flight) for name, each in crawl.assignments.items()
        }
        rate = self._rate.take(progress.pages)
        worker_status = WorkerStatus(
            progress,
            collections,
            self._pause.paused_collections,
            rate,
            message,
            self._last_commit(),
            cpu_s(),
        )
        write_live(
            self._session.workspace.storage,
            {
                "daemon": self._order.daemon,
                "pid": os.getpid(),
                "since": self._since,
                "written_at": format_time(self._clock.now_ms()),
                **figures([worker_status]),
                "bad": dict(self._order.bad),
            },
        )

    def _walk(self) -> None:
        """Walk links again from pages with a decreased depth.

        Only in collections with a depth limit.
        """
        assignments = self._session.crawl.assignments
        for name, assignment in assignments.items():
            if name not in self._limited:
                assignment.depth_decreased.clear()
        if any(assignments[name].depth_decreased for name in self._limited):
            self._session.walk_depth_decreased()


def _log(message: str) -> None:
    """Print a line with the time, in the format of the daemon."""
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}", file=sys.stderr, flush=True)
