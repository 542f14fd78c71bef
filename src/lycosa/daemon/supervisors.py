"""Supervisors of the daemon's child processes: worker, indexer, focused crawl.

Each starts its process, restarts it after a crash, and ends it on request. The `tick` methods
execute the actions that are due at `now` (monotonic ms), without blocking.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from lycosa.cluster.worker_supervision import count_death
from lycosa.config.settings import Config, IndexSettings, RunSettings
from lycosa.core.errors import SettingsRefused, UsageError, WorkError
from lycosa.core.units import format_duration
from lycosa.crawl.processing.page_mark import HangDetector, PageMark
from lycosa.crawl.session.planning import CrawlPlan
from lycosa.daemon import index_process, worker_process
from lycosa.daemon.worker_process import WorkerOrder
from lycosa.hunt.requests import HuntFolder
from lycosa.hunt.session import HuntOrder
from lycosa.processes.children import Child, ReportKind
from lycosa.processes.disk import DiskSpace
from lycosa.store.workspace import Workspace

KILL_SHARE = 0.8
"""Share of run.stop_timeout after which child processes are killed, so that all end within it."""

_POLL_S = 0.1
_RESTART_PAUSE_MS = 1_000
_DISK_FULL_PAUSE_MS = 3_000
_STORAGE_PAUSE_MS = 10_000
_HOLD_MS = 1_000
_INDEX_PAUSE_MS, _MAX_INDEX_PAUSE_MS = 10_000, 600_000
_HUNT_POLL_MS = 250
_HUNT_CLEANUP_MS = 3_600_000


class Supervisor:
    """Supervises at most one child process. `report` gets lines for the user."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.child: Child | None = None

    def finish(self, is_late: Callable[[], bool]) -> str:
        """Terminate the child, and kill it once `is_late`.

        Returns the reason of an abnormal end, or "".
        """
        child, self.child = self.child, None
        if child is None:
            return ""
        child.terminate()
        while not child.wait(_POLL_S):
            child.listen()
            if is_late():
                child.kill()
        return child.end()


class WorkerSupervisor(Supervisor):
    """Supervises the worker; gives up if it dies too often.

    `proven`: the last plan with which a worker has worked. `failure`: why no worker is running.
    """

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        super().__init__(report)
        self._root = root
        self._mark = PageMark()
        self._start_at = 0  # monotonic ms
        self._kill_at: int | None = None  # when it is killed; None: it was not terminated
        self._deaths: deque[int] = deque()
        self._hang_detector = HangDetector(self._mark)
        self._plan: CrawlPlan | None = None  # of the running worker
        self.proven: CrawlPlan | None = None
        self.failure = ""

    def tick(self, now: int, plan: CrawlPlan, disk: DiskSpace) -> None:
        """Start a worker with this plan if there is none, and react to its end.

        Raises:
            SettingsRefused: the worker cannot work with its settings.
            WorkError: the worker died too often, or another process has claimed the workspace.
        """
        child = self.child
        if child is None:
            if now >= self._start_at and disk.enough:
                self._start(plan)
            return
        child.listen()
        if child.has_reported(ReportKind.WORKING):
            self.proven, self.failure = self._plan, ""
        if not child.alive:
            self._ended(child, now, plan.config.run, disk)
        elif (self._kill_at is not None and now >= self._kill_at) or self._hang_detector.hangs(now):
            child.kill()

    def renew(self, now: int, settings: RunSettings) -> None:
        """Let the worker commit and end; `tick` starts the next one with its plan."""
        self._start_at = now
        if self.child is not None and self._kill_at is None:
            self.child.terminate()
            self._kill_at = now + round(settings.stop_timeout * KILL_SHARE)

    def hold(self, now: int, settings: RunSettings) -> None:
        """Let the worker commit and end, and start none for 1 s.

        Call it repeatedly.
        """
        self.renew(now, settings)
        self._start_at = now + _HOLD_MS

    def _start(self, plan: CrawlPlan) -> None:
        self._mark.set("")
        self._plan = plan
        order = WorkerOrder(self._root, plan.config, plan.jobs, dict(plan.bad), os.getpid())
        self.child = Child("worker", worker_process.work, order, self._mark, patient=True)
        self._report(f"worker started (process {self.child.pid})")

    def _ended(self, child: Child, now: int, settings: RunSettings, disk: DiskSpace) -> None:
        """React to the end of the worker."""
        stop_requested = self._kill_at is not None
        self.child = self._kill_at = None
        how = child.end() or "it exited unexpectedly"
        self._start_at = now
        if stop_requested:
            return
        if child.has_reported(ReportKind.LOST):
            raise WorkError(f"the worker stopped: {how}")
        if child.has_reported(ReportKind.USAGE):
            raise SettingsRefused(how)
        self.failure = f"the worker died: {how}" + (
            f", while parsing {self._mark.url}" if self._mark.url else ""
        )
        if child.has_reported(ReportKind.DISK) or not disk.check():
            self._report(f"{self.failure}; it is restarted when the disk has enough free space")
            self._start_at = now + _DISK_FULL_PAUSE_MS
            return
        if child.has_reported(ReportKind.STORAGE):
            self._report(f"{self.failure}; it is restarted until storage is available")
            self._start_at = now + _STORAGE_PAUSE_MS
            return
        count_death(self._deaths, now, settings, self.failure)
        self._start_at = now + _RESTART_PAUSE_MS
        self._report(
            f"{self.failure}; restarting it ({len(self._deaths)} of {settings.restarts} restarts)"
        )


class IndexSupervisor(Supervisor):
    """Supervises the indexer. The pause after a death doubles until an indexer works again."""

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        super().__init__(report)
        self._root = root
        self._start_at = 0
        self._pause = _INDEX_PAUSE_MS

    def tick(self, now: int, settings: IndexSettings, *, has_space: bool) -> None:
        """Start an indexer if there is none and the disk `has_space`, and react to its end."""
        child = self.child
        if child is None:
            if has_space and now >= self._start_at:
                self.child = Child(
                    "index", index_process.follow, self._root, settings, patient=True
                )
            return
        child.listen()
        if child.has_reported(ReportKind.WORKING):
            self._pause = _INDEX_PAUSE_MS
        if child.alive:
            return
        self.child = None
        how = child.end()
        if how:
            self._start_at = now + self._pause
            self._report(
                f"the indexer died: {how}; it is restarted in "
                f"{format_duration(self._pause)}; the crawl continues"
            )
            self._pause = min(self._pause * 2, _MAX_INDEX_PAUSE_MS)

    def end(self) -> None:
        """Let the indexer read the log and end; `tick` starts the next one."""
        if self.child is not None:
            self.child.terminate()


class HuntSupervisor(Supervisor):
    """Runs requested focused crawls, one at a time, while the worker is stopped.

    `alone`: only one worker crawls, which can be stopped; the workers of a cluster cannot.
    """

    def __init__(self, workspace: Workspace, report: Callable[[str], None], *, alone: bool) -> None:
        super().__init__(report)
        self._workspace = workspace
        self._alone = alone
        self._folder = HuntFolder(workspace.storage)
        self._current = ""
        self._next_look = self._next_clean = 0

    @property
    def message(self) -> str:
        """Why no crawl is running, or ""."""
        return "the crawl is paused during a hunt" if self.child is not None else ""

    def tick(self, now: int, config: Config, *, free: bool) -> bool:
        """Start the next hunt if `free`: no process fetches, and the disk has space.

        Returns:
            Whether the worker must not fetch: a hunt is running, or waits for the worker's end.
        """
        if self.child is not None:
            self.child.listen()
            if self.child.alive:
                return True
            how = self._folder.end_child(self._current, self.child)
            self._report(f"the hunt ended: {how}" if how else "the hunt ended")
            self.child, self._current = None, ""
        elif now < self._next_look:
            return bool(self._current)
        self._next_look = now + _HUNT_POLL_MS
        if now >= self._next_clean:
            self._next_clean = now + _HUNT_CLEANUP_MS
            self._folder.clean()
        self._current = next(iter(self._folder.ids("order")), "")
        if self._current and not self._alone:
            self._folder.take(self._current)
            self._refuse(
                "hunts need a daemon with a single worker, but this one has several: use "
                "another workspace (-w DIR)"
            )
        elif self._current and free:
            self._start(config)
        return bool(self._current)

    def _start(self, config: Config) -> None:
        request = self._folder.take(self._current)
        if request is None:
            self._refuse("the hunt request cannot be read")
            return
        order = HuntOrder(self._workspace.root, config, request, index=False)
        self.child = self._folder.start_child(self._current, order, owned=True)
        self._report(
            f"hunt for {request.question[:80]!r} started (process {self.child.pid}); the "
            "crawl is paused"
        )

    def _refuse(self, message: str) -> None:
        self._folder.fail(self._current, UsageError(message))
        self._current = ""
