"""The process of the coordinator: leads the workspace, answers pings, writes `run/cluster.json`.

Runs in an engine (`lycosa.cluster.engine.Remote`). It starts as a candidate. Once another process
leads, it replies `lost` permanently.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lycosa.cluster.coordinator import Coordinator, CoordinatorPlan
from lycosa.cluster.engine import LOCAL
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import Clock, Interval, SystemClock
from lycosa.core.errors import LycosaError
from lycosa.core.units import format_duration, format_time
from lycosa.crawl.membership import Ping, PingReply
from lycosa.processes.threads import OnError, start_thread
from lycosa.store.coordination.cluster_lock import ClusterLock, lock_scope
from lycosa.store.coordination.leadership import (
    LEASE_SHARE,
    LeaderCandidate,
    Leadership,
    Timing,
)
from lycosa.store.coordination.owner import FOLDER
from lycosa.store.workspace import Workspace

FILE = f"{FOLDER}/cluster.json"
_WRITE_EVERY_MS = 2_000
_TICKS = 6  # in a ping interval


@dataclass(slots=True, frozen=True)
class CoordinatorOrder:
    """Settings of a coordinator. Picklable.

    A restarted process with the same `cluster` takes over at once.
    """

    location: str
    settings: ClusterSettings
    cluster: str
    engine: str = ""
    dashboard: str = ""
    plan: CoordinatorPlan = field(default_factory=CoordinatorPlan)


class CoordinatorService:
    """See the module. Works in a thread of its own from the start; `close` ends it."""

    def __init__(self, order: CoordinatorOrder, clock: Clock | None = None) -> None:
        self._order = order
        self._clock = clock or SystemClock()
        self._workspace = Workspace.open(order.location)
        timing = Timing(order.settings.hold, order.settings.reassign)
        name = f"{order.engine or 'coordinator'}-{socket.gethostname()}-{os.getpid()}"
        storage = self._workspace.storage
        self._process_lock = ClusterLock(storage)
        self._candidate = LeaderCandidate(
            storage,
            name,
            order.cluster,
            timing,
            self._clock,
            scope=lock_scope(storage) if order.engine == LOCAL else "",
        )
        self._name = name
        self._leadership: Leadership | None = None
        self._coordinator: Coordinator | None = None
        self._stop = ""  # argument of `stop`, perhaps before this process leads
        self._nodes: list[dict[str, Any]] = []
        self._failure = ""
        self._writes = Interval(self._clock, _WRITE_EVERY_MS)
        self._closing = threading.Event()
        self._thread = start_thread(self._work, name="coordinator", on_error=OnError.END_PROCESS)

    # -- called by workers and by the driver
    # ------------------------------------------------------------

    def ping(self, ping: Ping) -> PingReply:
        """See `Coordinator.ping`."""
        coordinator = self._coordinator
        return (
            coordinator.ping(ping) if coordinator is not None else PingReply(lost=True, soon=True)
        )

    def worker_died(self, worker: str, certain: bool = False) -> None:
        """See `Coordinator.worker_died`."""
        if self._coordinator is not None:
            self._coordinator.worker_died(worker, certain)

    def stop(self, reason: str = "stopped") -> None:
        """Have every worker commit, release and end."""
        self._stop = self._stop or reason
        if self._coordinator is not None:
            self._coordinator.stop(reason)

    def nodes(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Set the nodes in `run/cluster.json`: name, address, cpus."""
        self._nodes = [dict(node) for node in nodes]

    def status(self) -> dict[str, Any]:
        """Return the content of `run/cluster.json` and the fields for the driver.

        `leads`; `why`: reason for the stop; `done`: no partition is held any more; `rival`: the
        leader of another cluster; `failure`: why the log cannot be read.
        """
        coordinator, leadership = self._coordinator, self._leadership
        rival = self._candidate.rival
        own = {
            "leads": leadership is not None and leadership.holds,
            "why": coordinator.ended if coordinator is not None else "",
            "done": coordinator is not None and coordinator.done,
            "rival": f"{rival.leader} on {rival.host}" if rival is not None else "",
            "failure": self._failure,
        }
        return self._document(coordinator) | own if coordinator is not None else own

    def close(self) -> None:
        """End. Returns the lease if all work is done. May be called twice."""
        self._closing.set()
        self._thread.join()
        self._process_lock.release()

    # -- the thread
    # ------------------------------------------------------------

    def _work(self) -> None:
        pause_s = max(self._order.settings.ping_interval // _TICKS, 50) / 1000
        while not self._closing.wait(
            pause_s if self._leadership is not None else min(pause_s, 0.2)
        ):
            began = self._clock.monotonic_ms()
            try:
                self._supervise()
                self._failure = self._slowness(self._clock.monotonic_ms() - began)
            except (LycosaError, OSError) as error:  # storage is unavailable: leases expire
                self._failure = str(error)
        with suppress(OSError):
            if (
                self._coordinator is not None
                and self._leadership is not None
                and self._leadership.holds
            ):
                self._write()
                if self._coordinator.done or not self._coordinator.members:
                    self._leadership.end()

    def _supervise(self) -> None:
        if self._leadership is None:
            self._leadership = self._candidate.try_to_lead()
        leadership = self._leadership
        if leadership is None or leadership.lost:
            return
        leadership.touch()
        if self._coordinator is None:
            self._coordinator = self._begin(leadership)
        self._coordinator.tick()
        if leadership.holds and self._writes.is_due():
            self._write()

    def _slowness(self, passed_ms: int) -> str:
        """Return the problem if storage took too long to renew the lease, else ""."""
        hold, leadership = self._order.settings.hold, self._leadership
        if passed_ms < hold * LEASE_SHARE or (
            leadership is not None and (leadership.holds or leadership.lost)
        ):
            return ""
        return (
            f"storage is too slow: no coordinator can renew its lease within cluster.hold "
            f"({format_duration(hold)}); set cluster.hold to 8 times the duration of a request "
            "to storage, and cluster.reassign to twice that"
        )

    def _begin(self, leadership: Leadership) -> Coordinator:
        coordinator = Coordinator(
            self._workspace.state(),
            self._workspace.partitions,
            self._order.settings,
            self._clock,
            leadership,
            self._order.plan,
        )
        if self._stop:
            coordinator.stop(self._stop)
        return coordinator

    def _write(self) -> None:
        assert self._coordinator is not None
        document = (
            json.dumps(self._document(self._coordinator), ensure_ascii=False, indent=1) + "\n"
        )
        self._workspace.storage.replace(FILE, document.encode())

    def _document(self, coordinator: Coordinator) -> dict[str, Any]:
        return {
            "leader": self._name,
            "engine": self._order.engine,
            "dashboard": self._order.dashboard,
            "written_at": format_time(self._clock.now_ms()),
            "cpu_s": round(time.process_time(), 2),
            "nodes": self._nodes,
            **coordinator.status(),
        }
