"""Several workers on one workspace: a coordinator, the workers, and what their driver does. The
driver never fetches.

The engine starts the coordinator again when it dies, the crew its workers. All of them may be
killed at any moment.
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
from lycosa.core.clock import Clock
from lycosa.core.errors import OwnedError
from lycosa.crawl.session.worker_status import WorkerStatus
from lycosa.crawl.state.task import Job
from lycosa.store.workspace import Workspace

_TELL_EVERY_MS = 1_000
_POLL_MS = 500
_POLL_S = 5.0
_COORDINATORS = 1_000
"""Lives of a coordinator: it holds nothing that could wear out, and each waits before it gives
anything away.
"""


@dataclass(slots=True, frozen=True)
class ClusterOptions:
    """What a cluster does.

    `workers`: how many; None: one for each CPU of the engine's nodes. `ends`: the crawl ends when
    nothing is left to do. `walk`: see `MemberOrder`. `identity`: of an earlier cluster that this
    one replaces.
    """

    command: str
    workers: int | None
    budgets: Sequence[PageBudget] = ()
    ends: bool = False
    walk: WalkOrder | None = None
    identity: str = ""


class Cluster:
    """A coordinator and its workers. Call `look` often, `close` in any case."""

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
        self._next_report_ms = 0
        self._stop = ""
        self.identity = options.identity or f"{socket.gethostname()}-{secrets.token_hex(8)}"
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="poll")
        workers = options.workers
        if workers is None:
            workers = max(1, round(sum(node.cpus for node in engine.nodes())))
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
        self.crew = WorkerSupervision(
            engine, member, options.workers, config.run, self._gone, report, clock
        )

    def look(self) -> None:
        """Do what is due. Raises what `WorkerSupervision.look` raises, and OwnedError: another
        cluster works in this workspace.
        """
        now = self._clock.monotonic_ms()
        self._poll.look()
        self.crew.look(now)
        if now >= self._next_report_ms:
            self._next_report_ms = now + _TELL_EVERY_MS
            self.coordinator.send("nodes", [asdict(node) for node in self.crew.nodes])
            if self._stop:
                self.coordinator.send("stop", self._stop)
        status = self._poll.answer or {}
        if status.get("rival") and not status.get("leads"):
            raise OwnedError(
                f"another cluster uses {self._workspace.root} ({status['rival']}); "
                "stop it or use another workspace (-w DIR)"
            )
        if status.get("why"):
            self.crew.start_no_more()

    @property
    def working(self) -> bool:
        """Whether a worker works by this cluster's settings: holds its lease, and partitions."""
        return any(
            place.status is not None and place.status.holds and place.status.partitions
            for place in self.crew.places
        )

    @property
    def why(self) -> str:
        """Why all were told to stop, as the coordinator says: finished, max_pages, or what `stop`
        was given; "" while it goes on.
        """
        return str((self._poll.answer or {}).get("why") or "")

    @property
    def trouble(self) -> str:
        """What is wrong now; "" if nothing is."""
        return str((self._poll.answer or {}).get("failure") or "") or self.crew.trouble

    @property
    def ended(self) -> bool:
        """Whether all were told to stop and have done so."""
        return bool(self._stop or self.why) and not self.crew.working

    def stop(self, reason: str = "stopped") -> None:
        """Have everybody commit, release and end. `look` on until `ended`."""
        self._stop = self._stop or reason
        self.coordinator.send("stop", self._stop)
        self.crew.leave()

    def vitals(self) -> list[WorkerStatus]:
        """Of all workers, those too that have ended."""
        return list(self.crew.vitals())

    def close(self) -> None:
        """Kill whoever is left; the coordinator gives its lease back if it can."""
        self.crew.close()
        if self.ended:
            with suppress(Unreachable):
                self.coordinator.ask("close", timeout_s=_POLL_S)
        self.coordinator.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _gone(self, worker: str, certain: bool) -> None:
        self.coordinator.send("gone", worker, certain)
