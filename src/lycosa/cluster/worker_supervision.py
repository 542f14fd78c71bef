"""Starts, restarts and moves the workers of a cluster, one in each slot.

Only processes and nodes are handled here; the coordinator assigns partitions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from lycosa.cluster.engine import Engine, Node, Remote
from lycosa.cluster.member import ClusterWorker, MemberOrder, MemberStatus
from lycosa.cluster.polling import Poll
from lycosa.config.settings import RunSettings
from lycosa.core.clock import Clock
from lycosa.core.errors import LycosaError, SettingsRefused, WorkError
from lycosa.core.units import format_duration
from lycosa.crawl.processing.page_mark import MAX_PAGE_MS
from lycosa.crawl.session.worker_status import WorkerStatus, continued
from lycosa.crawl.state.progress import Progress
from lycosa.processes.children import ReportKind

_LOOK_EVERY_MS = 250
_NODES_EVERY_MS = 1_000
"""Listing the nodes of a Ray cluster is a remote call, so it is made once a second."""

_POLL_MS = 500
_POLL_S = 5.0
_RECENT_MS = 1_500
"""A worker that answered within this time is alive: no call of the engine."""
_RESTART_PAUSE_MS = 1_000
_DISK_FULL_PAUSE_MS = 3_000
_MOVE_EVERY_MS = 2_000
_UNREQUESTED_MS = 10_000
_SILENT_MS = MAX_PAGE_MS + 30_000
"""A worker that does not answer for this time is killed."""
_STARTS_MS = 900_000
"""Maximum start time of a worker; on a bare node packages are installed first."""


@dataclass(slots=True)
class WorkerSlot:
    """A slot for one worker. `leaving`: the worker ends and is not replaced."""

    name: str
    node: str = ""
    remote: Remote | None = None
    poll: Poll[MemberStatus] | None = None
    start_at: int = 0  # monotonic ms
    leaving: bool = False
    ended_at: int | None = None  # when an end was first seen that the driver did not request
    deaths: deque[int] = field(default_factory=deque)
    # last reports of earlier workers of this slot
    former: list[WorkerStatus] = field(default_factory=list)

    def begin(self, node: str, remote: Remote, poll: Poll[MemberStatus]) -> None:
        """Record that a worker was started."""
        self.node, self.remote, self.poll = node, remote, poll

    def notice_end(self, now: int) -> int:
        """Record that the worker has ended. Return when that was first seen."""
        if self.ended_at is None:
            self.ended_at = now
        return self.ended_at

    def clear(self) -> None:
        """Remove an ended worker from the slot, but store its counters."""
        if self.status is not None:
            worker_status = self.status.worker_status
            progress = continued(
                worker_status.progress, Progress(worker_status.progress.started_ms)
            )
            self.former.append(replace(worker_status, progress=progress))
        self.remote = self.poll = self.ended_at = None

    def start_later(self, at: int) -> None:
        """Start a worker at that time at the earliest."""
        self.start_at = at

    def leave(self) -> None:
        """Have the worker end; it is not replaced."""
        self.leaving = True
        if self.remote is not None:
            self.remote.send("leave")

    @property
    def status(self) -> MemberStatus | None:
        return self.poll.answer if self.poll is not None else None


class WorkerSupervision:
    """Supervises the workers of a cluster.

    `size`: number of workers; None: one for each CPU of the nodes, which may join and leave.
    `maximum`: the highest number of workers in any case.
    `order`: for every worker, without name and node. `worker_died` is called with the worker name
    of a process that has ended, and whether its end is certain.
    """

    def __init__(
        self,
        engine: Engine,
        order: MemberOrder,
        size: int | None,
        maximum: int,
        settings: RunSettings,
        worker_died: Callable[[str, bool], None],
        report: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._order = order
        self._size = size
        self._maximum = maximum
        self._settings = settings
        self._worker_died = worker_died
        self._report = report
        self._clock = clock
        self._number = 0
        self._next_move = self._next_look = self._next_nodes = 0
        self._threads = ThreadPoolExecutor(64, thread_name_prefix="poll")
        self.nodes: list[Node] = engine.nodes()
        self.places: list[WorkerSlot] = []
        self.ended: list[WorkerStatus] = []  # of removed slots
        self.failure = ""
        self.stopping = False
        self._dying: list[tuple[str, Remote]] = []  # their end is not certain yet
        self._fill()

    def tick(self, now: int) -> None:
        """Poll the workers, and start, restart or kill them as needed.

        May be called at any rate. `now`: monotonic ms.

        Raises:
            SettingsRefused: a worker cannot work with its settings.
            WorkError: a worker died too often.
        """
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_MS
        if now >= self._next_nodes:
            self._poll_nodes(now)
        for place in list(self.places):
            self._poll_worker(place, now)
        for life, remote in [each for each in self._dying if each[1].has_ended()]:
            self._dying.remove((life, remote))
            self._worker_died(life, True)
        if not self.stopping:
            self._fill()
            self._spread(now)
            for place in self.places:
                if place.remote is None and not place.leaving and now >= place.start_at:
                    self._start(place)

    @property
    def working(self) -> list[WorkerSlot]:
        """The slots with a worker that has not ended."""
        return [
            place
            for place in self.places
            if place.remote is not None and not (place.status and place.status.ended)
        ]

    def worker_statuses(self) -> Iterator[WorkerStatus]:
        """Return the state of all workers, including ended ones."""
        yield from self.ended
        for place in self.places:
            yield from place.former
            if place.status is not None:
                yield place.status.worker_status

    def stop_restarting(self) -> None:
        """Stop replacing workers that end."""
        self.stopping = True

    def leave(self) -> None:
        """Stop all workers after a commit, and replace none."""
        self.stopping = True
        for place in self.places:
            if place.remote is not None:
                place.remote.send("leave")

    def close(self) -> None:
        """Kill all remaining workers."""
        self.stopping = True
        for place in self.places:
            if place.remote is not None:
                place.remote.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # -- one slot
    # ------------------------------------------------------------

    def _start(self, place: WorkerSlot) -> None:
        node = self._least_loaded()
        if not node:
            return
        order = replace(self._order, name=place.name, node=node)
        remote = self._engine.start(f"worker-{place.name}", ClusterWorker, order, node=node)
        ask = partial(remote.ask, "status", timeout_s=_POLL_S)
        poll: Poll[MemberStatus] = Poll(ask, _POLL_MS, self._threads, self._clock)
        place.begin(node, remote, poll)

    def _poll_worker(self, place: WorkerSlot, now: int) -> None:
        remote, poll = place.remote, place.poll
        if remote is None or poll is None:
            return
        with suppress(LycosaError):  # the worker reports its failure in its status
            poll.tick()
        status = poll.answer
        if status is not None and status.failure is not None:
            remote.kill()
            self._failed(place, now, status.failure.kind, status.failure.text)
        elif status is not None and status.ended:
            self._has_ended(place, remote, now)
        elif (
            status is None or poll.error or now - poll.answered_ms >= _RECENT_MS
        ) and not remote.alive():
            # its node may be lost, and the worker must not start there again
            self._poll_nodes(now)
            node_died = place.node not in {node.name for node in self.nodes}
            self._failed(place, now, ReportKind.FAILED, poll.error, node_died=node_died)
        elif now - poll.answered_ms >= (_SILENT_MS if status is not None else _STARTS_MS):
            remote.kill()
            self._failed(place, now, ReportKind.FAILED, "it does not respond")

    def _has_ended(self, place: WorkerSlot, remote: Remote, now: int) -> None:
        """Handle a clean end, requested by the driver or by the coordinator."""
        ended_at = place.notice_end(now)
        if place.leaving:
            remote.kill()
            place.clear()
            self._remove(place)
        elif not self.stopping and now - ended_at >= _UNREQUESTED_MS:
            remote.kill()
            place.clear()

    def _failed(
        self, place: WorkerSlot, now: int, kind: ReportKind, how: str, *, node_died: bool = False
    ) -> None:
        """Handle a dead worker: remove its slot, or restart it."""
        life = place.status.worker if place.status is not None else ""
        if life and place.remote is not None:
            self._worker_died(life, False)
            self._dying.append((life, place.remote))
        node = place.node
        place.clear()
        if place.leaving or (node_died and self._size is None):
            self._remove(place)
            if node_died:
                self._report(f"node {node} was lost, and worker {place.name} with it")
            return
        if self.stopping:
            return
        if kind is ReportKind.USAGE:
            raise SettingsRefused(how)
        self.failure = f"worker {place.name} died: {how or 'its process exited'}"
        if kind is ReportKind.DISK:
            self._report(f"{self.failure}; it is restarted when the disk has enough free space")
            place.start_later(now + _DISK_FULL_PAUSE_MS)
            return
        place.start_later(now + _RESTART_PAUSE_MS)
        if node_died:
            self._report(
                f"node {node} was lost, and worker {place.name} with it; the worker is "
                "restarted on another node"
            )
            return
        count_death(place.deaths, now, self._settings, self.failure)
        self._report(
            f"{self.failure}; restarting it ({len(place.deaths)} of "
            f"{self._settings.restarts} restarts)"
        )

    def _remove(self, place: WorkerSlot) -> None:
        self.ended += place.former
        self.places.remove(place)

    # -- nodes
    # ------------------------------------------------------------

    def _poll_nodes(self, now: int) -> None:
        self._next_nodes = now + _NODES_EVERY_MS
        self.nodes = self._engine.nodes()

    def _fill(self) -> None:
        """Add the missing slots."""
        start_count = (
            self._size if self._size is not None else sum(int(node.cpus) for node in self.nodes)
        )
        staying = [place for place in self.places if not place.leaving]
        for _ in range(min(start_count, self._maximum) - len(staying)):
            self._number += 1
            self.places.append(WorkerSlot(f"w{self._number}"))

    def _load(self) -> Counter[str]:
        return Counter(
            place.node for place in self.places if place.remote is not None and not place.leaving
        )

    def _least_loaded(self) -> str:
        load = self._load()
        nodes = [node for node in self.nodes if node.cpus > 0] or self.nodes
        return (
            min(nodes, key=lambda node: (load[node.name] / max(node.cpus, 1), node.name)).name
            if nodes
            else ""
        )

    def _spread(self, now: int) -> None:
        """With a fixed number of workers, move one from a shared node to an empty node."""
        if self._size is None or now < self._next_move:
            return
        load = self._load()
        empty = [node for node in self.nodes if node.cpus > 0 and not load[node.name]]
        crowded = [node for node in self.nodes if load[node.name] > 1]
        if not empty or not crowded or any(place.remote is None for place in self.places):
            return
        self._next_move = now + _MOVE_EVERY_MS
        fullest = max(crowded, key=lambda node: load[node.name] / max(node.cpus, 1))
        place = next(
            place
            for place in reversed(self.places)
            if place.node == fullest.name and not place.leaving
        )
        place.leave()
        self._report(
            f"node {empty[0].name} joined the cluster: worker {place.name} stops, and a new "
            "worker starts on that node"
        )


def count_death(deaths: deque[int], now: int, settings: RunSettings, failure: str) -> None:
    """Record the death of a worker among the recent ones. `now`: monotonic ms.

    Raises:
        WorkError: there were more than `run.restarts` in `run.window`.
    """
    deaths.append(now)
    while deaths[0] < now - settings.window:
        deaths.popleft()
    if len(deaths) > settings.restarts:
        raise WorkError(
            f"the worker died {len(deaths)} times in {format_duration(settings.window)}, more than "
            f"run.restarts ({settings.restarts}) allows. Last failure: {failure}. No data is lost: "
            "fix the cause and start again"
        )
