"""The daemon's side of hunts: takes orders from the desk, one after the other, while its worker is
away (decision 14).
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.core.errors import LycosaError, UsageError, WorkError
from lycosa.hunt import process as hunt_process
from lycosa.hunt.events import failed_event
from lycosa.hunt.process import HuntJob
from lycosa.hunt.request_queue import LAST, Desk, EventFile, EventWriter
from lycosa.hunt.session import HuntOrder
from lycosa.processes.children import Child
from lycosa.store.workspace import Workspace

_LOOK_EVERY_MS = 250
_SWEEP_EVERY_MS = 3_600_000


class HuntSupervisor:
    """Looks after the hunts of a workspace. `alone`: one worker crawls, which can step aside; a
    cluster's workers cannot.
    """

    def __init__(self, workspace: Workspace, report: Callable[[str], None], *, alone: bool) -> None:
        self._workspace = workspace
        self._report = report
        self._alone = alone
        self._desk = Desk(workspace.storage)
        self._current = ""
        self._next_look = self._next_sweep = 0
        self.child: Child | None = None

    def forget(self) -> None:
        """The process was ended elsewhere."""
        self.child = None

    @property
    def message(self) -> str:
        """Why nobody crawls, if that is why."""
        return "the crawl is paused during a hunt" if self.child is not None else ""

    def look(self, now: int, config: Config, *, free: bool) -> bool:
        """Do what is due at `now` (monotonic ms); `free`: nobody fetches, and there is room on the
        disk. Call it as often as you like.

        Returns whether nobody else may fetch: a hunt goes on, or waits for the worker to end.
        """
        if self.child is not None:
            self.child.listen()
            if self.child.alive:
                return True
            self._ended(self.child)
        elif now < self._next_look:
            return bool(self._current)
        self._next_look = now + _LOOK_EVERY_MS
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_EVERY_MS
            self._desk.sweep()
        self._current = self._desk.first() or ""
        if self._current and not self._alone:
            self._refuse(
                "hunts need a daemon with a single worker, but this one has several: use "
                "another workspace (-w DIR)"
            )
        elif self._current and free:
            self._start(config)
        return bool(self._current)

    def _start(self, config: Config) -> None:
        identity = self._current
        request = self._desk.take(identity)
        if request is None:
            self._refuse("the hunt request cannot be read")
            return
        order = HuntOrder(self._workspace.root, config, request, index=False)
        job = HuntJob(
            order, self._desk.path(identity, "jsonl"), self._desk.path(identity, "stop"), owned=True
        )
        self.child = Child("hunt", hunt_process.work, job)
        self._report(
            f"hunt for {request.question[:80]!r} started (process {self.child.pid}); the "
            "crawl is paused"
        )

    def _refuse(self, message: str) -> None:
        self._desk.withdraw(self._current)
        self._report_end(UsageError(message))
        self._current = ""

    def _ended(self, child: Child) -> None:
        how = child.end()
        self._report(f"the hunt ended: {how}" if how else "the hunt ended")
        events = self._desk.path(self._current, "jsonl")
        # else nobody listens any more
        if events.exists() and not any(
            event["event"] in LAST for event in EventFile(events).take()
        ):
            self._report_end(
                WorkError(
                    f"the hunt process died: {how or 'it exited unexpectedly'}; the fetched "
                    "pages are archived and are processed now"
                )
            )
        self._desk.path(self._current, "stop").unlink(missing_ok=True)
        self.child, self._current = None, ""

    def _report_end(self, error: LycosaError) -> None:
        self._desk.make()
        writer = EventWriter(self._desk.path(self._current, "jsonl"))
        writer.tell(failed_event(error))
        writer.close()
