"""Runs requested hunts for a daemon, one at a time, while its worker is stopped (decision 14)."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.hunt.requests import HuntFolder
from lycosa.hunt.session import HuntOrder
from lycosa.processes.children import Child
from lycosa.store.workspace import Workspace

_LOOK_EVERY_MS = 250
_CLEAN_EVERY_MS = 3_600_000


class HuntSupervisor:
    """Runs the hunts of a workspace. `alone`: one worker crawls, which can be stopped; the workers
    of a cluster cannot.
    """

    def __init__(self, workspace: Workspace, report: Callable[[str], None], *, alone: bool) -> None:
        self._workspace = workspace
        self._report = report
        self._alone = alone
        self._folder = HuntFolder(workspace.storage)
        self._current = ""
        self._next_look = self._next_clean = 0
        self.child: Child | None = None

    def forget(self) -> None:
        """The process was ended elsewhere."""
        self.child = None

    @property
    def message(self) -> str:
        """Why no crawl is running, or ""."""
        return "the crawl is paused during a hunt" if self.child is not None else ""

    def look(self, now: int, config: Config, *, free: bool) -> bool:
        """Do what is due at `now` (monotonic ms). `free`: no process fetches, the disk has space.

        Returns whether no other process may fetch: a hunt runs, or waits for the end of the worker.
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
        self._next_look = now + _LOOK_EVERY_MS
        if now >= self._next_clean:
            self._next_clean = now + _CLEAN_EVERY_MS
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
