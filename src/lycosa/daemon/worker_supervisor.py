"""The daemon's side of its worker: starts it, starts it again when it dies or hangs, and gives up
when that happens too often.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from lycosa.config.settings import RunSettings
from lycosa.core.errors import SettingsRefused, WorkError
from lycosa.core.units import format_duration
from lycosa.crawl.processing.page_mark import MAX_PAGE_MS, PageMark
from lycosa.crawl.session.planning import CrawlPlan
from lycosa.daemon import worker_process
from lycosa.daemon.worker_process import WorkerOrder
from lycosa.processes.children import Child, News
from lycosa.processes.disk_space import DiskSpace

OF_STOP_TIMEOUT = 0.8
"""Share of run.stop_timeout after which child processes are killed, so that all have ended within
it.
"""

_RESTART_PAUSE_MS = 1_000
_NO_ROOM_PAUSE_MS = 3_000
_HOLD_MS = 1_000


class WorkerSupervisor:
    """Looks after one worker. `proven` is the last plan that a worker has worked by; `trouble` says
    why there is none now.
    """

    def __init__(self, root: str, report: Callable[[str], None]) -> None:
        self._root = root
        self._report = report
        self._mark = PageMark()
        self._start_at = 0  # monotonic ms
        self._kill_at: int | None = None  # it was asked to end; from then on it is killed
        self._deaths: deque[int] = deque()
        self._reads = (0, 0)  # number of the page that it reads, and since when
        self._plan: CrawlPlan | None = None  # what it was started with
        self.child: Child | None = None
        self.proven: CrawlPlan | None = None
        self.trouble = ""

    def forget(self) -> None:
        """The process was ended elsewhere."""
        self.child = None

    def look(self, now: int, plan: CrawlPlan, room: DiskSpace) -> None:
        """Do what is due at `now` (monotonic ms): start it by this plan if there is none, see how
        it is. Call it as often as you like.

        Raises:
            SettingsRefused: it cannot work with the settings that it was given.
            WorkError: it died too often, or somebody else holds the workspace.
        """
        child = self.child
        if child is None:
            if now >= self._start_at and room.enough:
                self._start(plan)
            return
        child.listen()
        if child.has_reported(News.WORKING):
            self.proven, self.trouble = self._plan, ""
        if not child.alive:
            self._ended(child, now, plan.config.run, room)
        elif (self._kill_at is not None and now >= self._kill_at) or self._hangs(now):
            child.kill()

    def renew(self, now: int, settings: RunSettings) -> None:
        """Have it commit and end; the next one starts by the plan of that time."""
        self._start_at = now
        if self.child is not None and self._kill_at is None:
            self.child.terminate()
            self._kill_at = now + round(settings.stop_timeout * OF_STOP_TIMEOUT)

    def hold(self, now: int, settings: RunSettings) -> None:
        """Have it commit and end, and start none for a second: a hunt wants its place. Call it for
        as long as that is so.
        """
        self.renew(now, settings)
        self._start_at = now + _HOLD_MS

    def _start(self, plan: CrawlPlan) -> None:
        self._mark.set("")
        self._plan = plan
        order = WorkerOrder(self._root, plan.config, plan.jobs, dict(plan.bad), os.getpid())
        self.child = Child("worker", worker_process.work, order, self._mark, patient=True)
        self._report(f"worker started (process {self.child.pid})")

    def _hangs(self, now: int) -> bool:
        """Whether it reads one page for too long."""
        number, since = self._reads
        if number != self._mark.number or not self._mark.url:
            self._reads = (self._mark.number, now)
            return False
        return now - since >= MAX_PAGE_MS

    def _ended(self, child: Child, now: int, settings: RunSettings, room: DiskSpace) -> None:
        """What to do about a worker that is gone."""
        stop_requested = self._kill_at is not None
        self.child = self._kill_at = None
        how = child.end() or "it exited unexpectedly"
        self._start_at = now
        if stop_requested:
            return
        if child.has_reported(News.LOST):
            raise WorkError(f"the worker stopped: {how}")
        if child.has_reported(News.USAGE):
            raise SettingsRefused(how)
        self.trouble = f"the worker died: {how}" + (
            f", while parsing {self._mark.url}" if self._mark.url else ""
        )
        if child.has_reported(News.DISK) or not room.look():
            self._report(f"{self.trouble}; it is restarted when the disk has enough free space")
            self._start_at = now + _NO_ROOM_PAUSE_MS
            return
        self._count_death(now, settings)
        self._start_at = now + _RESTART_PAUSE_MS
        self._report(
            f"{self.trouble}; restarting it ({len(self._deaths)} of {settings.restarts} restarts)"
        )

    def _count_death(self, now: int, settings: RunSettings) -> None:
        self._deaths.append(now)
        while self._deaths[0] < now - settings.window:
            self._deaths.popleft()
        if len(self._deaths) > settings.restarts:
            raise WorkError(
                f"the worker died {len(self._deaths)} times in "
                f"{format_duration(settings.window)}, more than run.restarts "
                f"({settings.restarts}) allows. Last failure: {self.trouble}. No data is lost: "
                "fix the cause and start again"
            )
