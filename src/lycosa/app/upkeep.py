"""Keeping a workspace small while it is crawled: merges and sweeps, in a process of their own, when they are due."""

from __future__ import annotations

import multiprocessing
from multiprocessing.process import BaseProcess

from lycosa.core.clock import Clock
from lycosa.core.config import Config, StoreSettings
from lycosa.store.merge import merge, merge_is_due
from lycosa.store.plan import MergeSettings
from lycosa.store.sweep import sweep
from lycosa.store.workspace import Workspace

_SWEEP_EVERY_MS = 3_600_000


class Upkeep:
    """Starts the job that folds and sweeps, at most one at a time. It may be killed at any moment; `close` does."""

    def __init__(self, workspace: Workspace, config: Config, clock: Clock) -> None:
        self._workspace = workspace
        self._settings = config.store
        self._interval_ms = config.run.merge_interval
        self._clock = clock
        self._state = workspace.state()
        self._next = clock.monotonic_ms() + self._interval_ms
        self._next_sweep = clock.monotonic_ms() + _SWEEP_EVERY_MS
        self._job: BaseProcess | None = None

    def tick(self, *, room: bool = True) -> None:
        """Look whether something is due; call it as often as you like. Without `room` on the disk it only sweeps: a merge needs some."""
        now = self._clock.monotonic_ms()
        if self._job is not None and not self._job.is_alive():
            self._job.join()
            self._job = None
        if now < self._next or self._job is not None:
            return
        self._next = now + self._interval_ms
        self._state.refresh()
        due = room and merge_is_due(self._state, MergeSettings(self._settings.merge_commits))
        if due or now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_EVERY_MS
            context = multiprocessing.get_context("spawn")
            self._job = context.Process(target=keep_up, args=(self._workspace.root, self._settings, due), name="upkeep", daemon=True)
            self._job.start()

    def close(self) -> None:
        """End a job that is under way: what it has not finished is done again another time."""
        if self._job is not None:
            self._job.kill()
            self._job.join()
            self._job = None


def keep_up(root: str, settings: StoreSettings, merging: bool = True) -> None:
    """Merge what is due, then delete what may go. Runs in any process beside the worker."""
    workspace = Workspace.open(root)
    if merging:
        merge(workspace, MergeSettings(settings.merge_commits))
    sweep(workspace, keep_replaced_ms=settings.keep_replaced, keep_entries_ms=settings.keep_entries)
