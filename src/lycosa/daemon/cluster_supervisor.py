"""The daemon's side of a cluster: starts it, starts it anew by changed settings, and says for
people how all workers fare.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from lycosa.cluster.cluster import Cluster, ClusterOptions
from lycosa.cluster.engine import Engine
from lycosa.cluster.quota_leases import PageBudget
from lycosa.config.settings import RunSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import LycosaError
from lycosa.core.units import format_time, number_of
from lycosa.crawl.session.planning import CrawlPlan
from lycosa.crawl.session.worker_status import figures, write_live
from lycosa.daemon.worker_supervisor import OF_STOP_TIMEOUT
from lycosa.processes.disk_space import DiskSpace
from lycosa.store.log.state import LogState
from lycosa.store.workspace import Workspace

_LIVE_EVERY_MS = 2_000
_LOOK_S = 0.05


class ClusterChild:
    """A cluster as the daemon ends its children: asked first, then killed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def listen(self) -> None:
        """Take in what has changed."""
        self.cluster.look()

    def terminate(self) -> None:
        self.cluster.stop()

    def wait(self, seconds: float) -> bool:
        """Whether all have ended within this time. What goes wrong meanwhile matters no more."""
        deadline = time.monotonic() + seconds
        while not self.cluster.ended:
            with suppress(LycosaError):
                self.cluster.look()
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def kill(self) -> None:
        self.cluster.close()

    def end(self) -> str:
        self.cluster.close()
        return ""


class ClusterSupervisor:
    """As `lycosa.daemon.worker_supervisor.WorkerKeeper`, for many workers on an engine. `workers`:
    how many; None: one for each CPU. `state`: the log, read on when it is needed.
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
        self._kill_at: int | None = None  # it was asked to end; from then on it is killed
        self._plan: CrawlPlan | None = None  # what it was started with
        self._since = ""
        self._next_live = 0
        self._state = state
        self.child: ClusterChild | None = None
        self.proven: CrawlPlan | None = None
        self.trouble = ""

    def forget(self) -> None:
        """The cluster was ended elsewhere."""
        self.child = None

    def look(self, now: int, plan: CrawlPlan, room: DiskSpace) -> None:
        """Do what is due at `now` (monotonic ms): start it by this plan if there is none, see how
        it is. Call it as often as you like.

        Raises what `Cluster.look` raises.
        """
        if self.child is None:
            if room.enough:
                self._start(plan)
            return
        cluster = self.child.cluster
        try:
            cluster.look()
        except LycosaError:
            self.child.kill()
            self.child = None
            raise
        if self._kill_at is not None and (cluster.ended or now >= self._kill_at):
            self.child.end()
            self.child = self._kill_at = None
            return
        if cluster.working:
            self.proven = self._plan
        self.trouble = cluster.trouble
        if now >= self._next_live:
            self._next_live = now + _LIVE_EVERY_MS
            self._write_live(cluster, plan)

    def hold(self, now: int, settings: RunSettings) -> None:
        """Nothing: hunts are refused where several work (`lycosa.daemon.hunt_supervisor`)."""

    def renew(self, now: int, settings: RunSettings) -> None:
        """Have all commit and end; the next ones start by the plan of that time."""
        if self.child is not None and self._kill_at is None:
            self.child.terminate()
            self._kill_at = now + round(settings.stop_timeout * OF_STOP_TIMEOUT)

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
        self.child = ClusterChild(cluster)
        workers, nodes = (
            number_of(len(cluster.crew.places), "worker"),
            number_of(len(cluster.crew.nodes), "node"),
        )
        self._report(f"starting a cluster on engine {self._engine.name}: {workers}, {nodes}")

    def _write_live(self, cluster: Cluster, plan: CrawlPlan) -> None:
        """Say how it goes, all workers together."""
        with suppress(LycosaError, OSError):
            self._state.catch_up()
        document = figures(cluster.vitals())
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
                "message": document["message"] or self.trouble,
                "bad": dict(plan.bad),
            },
        )
