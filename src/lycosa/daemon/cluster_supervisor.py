"""Supervisor of a cluster: starts it, restarts it with changed settings, reports its status."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from lycosa.cluster.cluster import Cluster, ClusterOptions
from lycosa.cluster.engine import Engine
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import RunSettings
from lycosa.core.clock import Clock, Interval
from lycosa.core.errors import LycosaError
from lycosa.core.units import format_time, number_of
from lycosa.crawl.session.planning import CrawlPlan
from lycosa.crawl.session.worker_status import LIVE_EVERY_MS, figures, write_live
from lycosa.daemon.supervisors import KILL_SHARE
from lycosa.processes.disk import DiskSpace
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

_POLL_S = 0.05


class ClusterSupervisor:
    """Like `WorkerSupervisor`, for several workers on an engine.

    `workers`: their number; None: one for each CPU. `state`: refreshed when it is needed.
    """

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        workers: int | None,
        report: Callable[[str], None],
        clock: Clock,
        state: LogState,
    ) -> None:
        self._workspace = workspace
        self._engine = engine
        self._workers = workers
        self._report = report
        self._clock = clock
        self._identity = ""
        self._kill_at: int | None = None  # when it is killed; None: it was not stopped
        self._plan: CrawlPlan | None = None  # of the running cluster
        self._since = ""
        self._live_writes = Interval(clock, LIVE_EVERY_MS)
        self._state = state
        self.child: Cluster | None = None
        self.proven: CrawlPlan | None = None
        self.failure = ""

    def finish(self, is_late: Callable[[], bool]) -> str:
        """Stop the cluster, and kill its workers once `is_late`. Ignores errors."""
        cluster, self.child = self.child, None
        if cluster is not None:
            cluster.stop()
            while not cluster.ended and not is_late():
                with suppress(LycosaError):
                    cluster.tick()
                time.sleep(_POLL_S)
            cluster.close()
        return ""

    def tick(self, now: int, plan: CrawlPlan, space: DiskSpace) -> None:
        """Start a cluster with this plan if there is none, and react to its end.

        Raises the errors of `Cluster.tick`.
        """
        cluster = self.child
        if cluster is None:
            if space.enough:
                self._start(plan)
            return
        try:
            cluster.tick()
        except LycosaError:
            cluster.close()
            self.child = None
            raise
        if self._kill_at is not None and (cluster.ended or now >= self._kill_at):
            cluster.close()
            self.child = self._kill_at = None
            return
        if cluster.working:
            self.proven = self._plan
        self.failure = cluster.failure
        if self._live_writes.is_due():
            self._write_live(cluster, plan)

    def hold(self, now: int, settings: RunSettings) -> None:
        """Do nothing: a daemon with a cluster refuses hunts."""

    def renew(self, now: int, settings: RunSettings) -> None:
        """Let all workers commit and end; `tick` restarts them with its plan."""
        if self.child is not None and self._kill_at is None:
            self.child.stop()
            self._kill_at = now + round(settings.stop_timeout * KILL_SHARE)

    def _start(self, plan: CrawlPlan) -> None:
        self._plan = plan
        self._since = format_time(self._clock.now_ms())
        budgets = [
            PageBudget(job.collection.name, job.collection.max_pages, ends=False)
            for job in plan.jobs
            if job.collection.max_pages is not None
        ]
        cluster = Cluster(
            self._engine,
            self._workspace,
            plan.config,
            plan.jobs,
            ClusterOptions("run", self._workers, budgets, identity=self._identity),
            self._report,
            self._clock,
        )
        self._identity = cluster.identity
        self.child = cluster
        self._report(
            f"starting a cluster on engine {self._engine.name}: "
            f"{number_of(len(cluster.supervision.places), 'worker')}, "
            f"{number_of(len(cluster.supervision.nodes), 'node')}"
        )

    def _write_live(self, cluster: Cluster, plan: CrawlPlan) -> None:
        """Write the sums of all workers' status."""
        with suppress(LycosaError, OSError):
            self._state.catch_up()
        document = figures(cluster.worker_statuses())
        for name, row in document["collections"].items():
            row["pages"] = self._state.counters[f"pages.{name}"]
        write_live(
            self._workspace.storage,
            {
                "daemon": os.getpid(),
                "pid": os.getpid(),
                "since": self._since,
                "written_at": format_time(self._clock.now_ms()),
                **document,
                "message": document["message"] or self.failure,
                "bad": dict(plan.bad),
            },
        )
