"""Start compaction, vacuum and ranking during a crawl, in separate processes."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from lycosa.config.settings import Config, StoreSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import LycosaError
from lycosa.processes.jobs import start_job
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

if TYPE_CHECKING:
    from lycosa.cluster.engine import Engine

_SWEEP_EVERY_MS = 3_600_000


class Upkeep:
    """Starts the job that compacts, vacuums and ranks, one at a time. `close` kills it.

    Args:
        engine: runs the job, table by table, and ends it when closed; None: a child process.
        state: the log state of this thread, which may take tens of megabytes.
        ranking: whether the job ranks.
    """

    def __init__(
        self,
        workspace: Workspace,
        config: Config,
        clock: Clock,
        engine: Engine | None = None,
        state: LogState | None = None,
        *,
        ranking: bool = True,
    ) -> None:
        self._workspace = workspace
        self._settings = config.store
        self._interval_ms = config.run.merge_interval
        self._clock = clock
        self._state = state if state is not None else workspace.state()
        self._next = clock.monotonic_ms() + self._interval_ms
        self._next_sweep = clock.monotonic_ms() + _SWEEP_EVERY_MS
        self._engine = engine
        self._ranking = ranking
        self._job: subprocess.Popen[bytes] | _EngineJob | None = None

    def tick(self, *, has_space: bool = True) -> None:
        """Start a job if one is due; call it often.

        `has_space`: the disk has space for compaction.
        """
        now = self._clock.monotonic_ms()
        if self._job is not None and self._job.poll() is not None:
            self._job = None
        if now < self._next or self._job is not None:
            return
        from lycosa.store.compaction.compact import compaction_is_due

        self._next = now + self._interval_ms
        self._state.catch_up()
        due = has_space and compaction_is_due(
            self._state, CompactionSettings(self._settings.merge_commits)
        )
        if due or now >= self._next_sweep:
            self._next_sweep = now + _SWEEP_EVERY_MS
            self._job = self._begin(due)

    def _begin(self, merging: bool) -> subprocess.Popen[bytes] | _EngineJob:
        root, settings = self._workspace.root, self._settings
        if self._engine is not None:
            return _EngineJob(self._engine, root, settings, merging)
        order = {
            "root": root,
            "settings": settings.model_dump(mode="json"),
            "merging": merging,
            "ranking": self._ranking,
        }
        return start_job("lycosa.maintenance.upkeep_job", order)

    def close(self) -> None:
        """Kill the running job; a later job does the rest."""
        if self._job is not None:
            self._job.kill()
            self._job.wait()
            self._job = None


class _EngineJob:
    """A job on an engine, followed by a thread."""

    def __init__(self, engine: Engine, root: str, settings: StoreSettings, merging: bool) -> None:
        self._thread = start_thread(
            self._follow, engine, root, settings, merging, name="upkeep", on_error=OnError.REPORT
        )

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else 0

    def wait(self) -> None:
        """Do nothing: the job ends with the engine."""

    def kill(self) -> None:
        """Do nothing, as `wait`."""

    def _follow(self, engine: Engine, root: str, settings: StoreSettings, merging: bool) -> None:
        from lycosa.maintenance.jobs import merge_on, vacuum_on
        from lycosa.maintenance.upkeep_job import rank_when_due

        # a later job repeats it; the crawl reports a damaged log
        with suppress(LycosaError):
            if merging:
                merge_on(engine, root, CompactionSettings(settings.merge_commits))
            vacuum_on(engine, root, settings)
            list(engine.map(rank_when_due, [root]))
