"""Several workers on one workspace: the driver starts a coordinator and workers, and never fetches.

The engine restarts the coordinator, `WorkerSupervision` the workers. All of them may be killed at
any moment.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from lycosa.cluster.coordinator import CoordinatorPlan
from lycosa.cluster.coordinator_service import CoordinatorOrder, CoordinatorService
from lycosa.cluster.engine import Engine, Unreachable
from lycosa.cluster.member import MemberOrder
from lycosa.cluster.polling import Poll
from lycosa.cluster.quota_leases import PageBudget
from lycosa.cluster.walking_shared import WalkOrder
from lycosa.cluster.worker_supervision import WorkerSupervision
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, Interval
from lycosa.core.errors import OwnedError
from lycosa.crawl.session.worker_status import WorkerStatus
from lycosa.crawl.state.task import Job
from lycosa.store.workspace import Workspace

_REPORT_EVERY_MS = 1_000
_POLL_MS = 500
_POLL_S = 5.0
_COORDINATORS = 1_000
"""Maximum restarts of the coordinator, which has no state to lose."""


@dataclass(slots=True, frozen=True)
class ClusterOptions:
    """Options of a cluster.

    `workers`: number of workers, at most one per partition; None: one for each CPU of the engine's
    nodes. `ends`: the crawl ends when no URL is due. `walk`: see `MemberOrder`. `identity`: of an
    earlier cluster that this one replaces.
    """

    command: str
    workers: int | None
    budgets: Sequence[PageBudget] = ()
    ends: bool = False
    walk: WalkOrder | None = None
    identity: str = ""


class Cluster:
    """A coordinator and its workers. Call `tick` often, `close` in any case."""

    def __init__(
        self,
        engine: Engine,
        workspace: Workspace,
        config: Config,
        jobs: Sequence[Job],
        options: ClusterOptions,
        report: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._workspace = workspace
        self._clock = clock
        self._reports = Interval(clock, _REPORT_EVERY_MS)
        self._stop = self._failure = ""
        self._report = report
        self.identity = options.identity or f"{socket.gethostname()}-{secrets.token_hex(8)}"
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="poll")
        workers = _number_of_workers(options.workers, engine, workspace.partitions, report)
        order = CoordinatorOrder(
            workspace.root,
            config.cluster,
            self.identity,
            engine.name,
            engine.dashboard,
            CoordinatorPlan(workers, tuple(options.budgets), options.ends),
        )
        self.coordinator = engine.start(
            "coordinator", CoordinatorService, order, restarts=_COORDINATORS
        )
        self._poll: Poll[dict[str, Any]] = Poll(
            lambda: self.coordinator.ask("status", timeout_s=_POLL_S),
            _POLL_MS,
            self._threads,
            clock,
        )
        member = MemberOrder(
            workspace.root,
            config,
            tuple(jobs),
            self.coordinator,
            "",
            "",
            options.command,
            options.ends,
            options.walk,
        )
        self.supervision = WorkerSupervision(
            engine,
            member,
            options.workers,
            workspace.partitions,
            config.run,
            self._worker_died,
            report,
            clock,
        )

    def tick(self) -> None:
        """Supervise workers and poll the coordinator.

        Raises:
            OwnedError: another cluster uses this workspace; and errors of `WorkerSupervision.tick`.
        """
        self._poll.tick()
        self.supervision.tick(self._clock.monotonic_ms())
        if self._reports.is_due():
            self.coordinator.send("nodes", [asdict(node) for node in self.supervision.nodes])
            if self._stop:
                self.coordinator.send("stop", self._stop)
        status = self._poll.answer or {}
        if status.get("rival") and not status.get("leads"):
            raise OwnedError(
                f"another cluster uses {self._workspace.root} ({status['rival']}); "
                "stop it or use another workspace (-w DIR)"
            )
        failure = str(status.get("failure") or "")
        if failure and failure != self._failure:
            self._failure = failure
            self._report(f"the coordinator cannot work: {failure}")
        if status.get("why"):
            self.supervision.stop_restarting()

    @property
    def working(self) -> bool:
        """Whether a worker holds its lease, and partitions, under the settings of this cluster."""
        return any(
            place.status is not None and place.status.holds and place.status.partitions
            for place in self.supervision.places
        )

    @property
    def why(self) -> str:
        """Reason for the stop: finished, max_pages, or the argument of `stop`; "" if none."""
        return str((self._poll.answer or {}).get("why") or "")

    @property
    def failure(self) -> str:
        """The current problem; "" if there is none."""
        return str((self._poll.answer or {}).get("failure") or "") or self.supervision.failure

    @property
    def ended(self) -> bool:
        """Whether all workers have been stopped and have ended."""
        return bool(self._stop or self.why) and not self.supervision.working

    def stop(self, reason: str = "stopped") -> None:
        """Stop all workers after a commit. Continue to call `tick` until `ended`."""
        self._stop = self._stop or reason
        self.coordinator.send("stop", self._stop)
        self.supervision.leave()

    def worker_statuses(self) -> list[WorkerStatus]:
        """Return the state of all workers, including ended ones."""
        return list(self.supervision.worker_statuses())

    def close(self) -> None:
        """Kill all processes; the coordinator returns its lease first if it can."""
        self.supervision.close()
        if self.ended:
            with suppress(Unreachable):
                self.coordinator.ask("close", timeout_s=_POLL_S)
        self.coordinator.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _worker_died(self, worker: str, certain: bool) -> None:
        self.coordinator.send("worker_died", worker, certain)


def _number_of_workers(
    workers: int | None, engine: Engine, partitions: int, report: Callable[[str], None]
) -> int:
    if workers is None:
        workers = max(1, round(sum(node.cpus for node in engine.nodes())))
    elif workers > partitions:
        report(
            f"starting {partitions} of {workers} workers: the workspace has {partitions} "
            "partitions, and further workers would have none"
        )
    return min(workers, partitions)
