"""The workers of a cluster, as its driver looks after them: one in each place, started again when
it dies, moved to where there is room.

Whoever takes over partitions is the coordinator's affair; here are processes and machines alone.
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
from lycosa.processes.children import News

_LOOK_EVERY_MS = 250
_NODES_EVERY_MS = 1_000
"""Asking a Ray cluster for its nodes is a call, and so is asking for a worker's life: with four of
each a second the driver took 35 ms of CPU a second.
"""

_POLL_MS = 500
_POLL_S = 5.0
_HEARD_MS = 1_500
"""Who answered so lately is alive: the engine need not be asked."""
_RESTART_PAUSE_MS = 1_000
_NO_ROOM_PAUSE_MS = 3_000
_MOVE_EVERY_MS = 2_000
_UNASKED_MS = 10_000
_SILENT_MS = MAX_PAGE_MS + 30_000
"""A worker whose process answers nothing for so long hangs, and is killed: it would have ended
itself if it could.
"""
_STARTS_MS = 900_000
"""How long one may take to start: on a bare node the packages are installed first, which took 136 s
on a machine with a load of 25.
"""


@dataclass(slots=True)
class WorkerSlot:
    """One worker's place: who is there now, on which node, and how it fares. `leaving`: it is to
    end and not to be replaced.
    """

    name: str
    node: str = ""
    remote: Remote | None = None
    poll: Poll[MemberStatus] | None = None
    start_at: int = 0  # monotonic ms
    leaving: bool = False
    ended_at: int | None = None  # when it was first heard to have ended without being asked by us
    deaths: deque[int] = field(default_factory=deque)
    # of its earlier lives, as they were heard of last
    former: list[WorkerStatus] = field(default_factory=list)

    def begin(self, node: str, remote: Remote, poll: Poll[MemberStatus]) -> None:
        """A worker was started."""
        self.node, self.remote, self.poll = node, remote, poll

    def notice_end(self, now: int) -> int:
        """The worker has ended. Return when that was first seen."""
        if self.ended_at is None:
            self.ended_at = now
        return self.ended_at

    def clear(self) -> None:
        """The worker is gone: keep its counters."""
        if self.status is not None:
            vitals = self.status.vitals
            progress = continued(vitals.progress, Progress(vitals.progress.started_ms))
            self.former.append(replace(vitals, progress=progress))
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
    """`size`: how many workers in all; None: one for each CPU of the cluster's nodes, which may
    come and go.

    `order`: what a worker is started with, but for its name and node. `gone` gets the name of a
    life that has ended by itself, and whether its process certainly runs no more.
    """

    def __init__(
        self,
        engine: Engine,
        order: MemberOrder,
        size: int | None,
        settings: RunSettings,
        gone: Callable[[str, bool], None],
        report: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._order = order
        self._size = size
        self._settings = settings
        self._gone = gone
        self._report = report
        self._clock = clock
        self._number = 0
        self._next_move = self._next_look = self._next_nodes = 0
        self._threads = ThreadPoolExecutor(64, thread_name_prefix="poll")
        self.nodes: list[Node] = engine.nodes()
        self.places: list[WorkerSlot] = []
        self.ended: list[WorkerStatus] = []  # of places that are no more
        self.trouble = ""
        self.stopping = False
        self._dying: list[tuple[str, Remote]] = []  # lives whose end is not certain yet
        self._fill()

    def look(self, now: int) -> None:
        """Do what is due at `now` (monotonic ms). Call it as often as you like.

        Raises:
            SettingsRefused: a worker cannot work with the settings that it was given.
            WorkError: one died too often.
        """
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_MS
        if now >= self._next_nodes:
            self._look_at_nodes(now)
        for place in list(self.places):
            self._look_at(place, now)
        for life, remote in [each for each in self._dying if each[1].has_ended()]:
            self._dying.remove((life, remote))
            self._gone(life, True)
        if not self.stopping:
            self._fill()
            self._spread(now)
            for place in self.places:
                if place.remote is None and not place.leaving and now >= place.start_at:
                    self._start(place)

    @property
    def working(self) -> list[WorkerSlot]:
        """Places whose worker runs and has not ended."""
        return [
            place
            for place in self.places
            if place.remote is not None and not (place.status and place.status.ended)
        ]

    def vitals(self) -> Iterator[WorkerStatus]:
        """Of all lives, those that have ended too."""
        yield from self.ended
        for place in self.places:
            yield from place.former
            if place.status is not None:
                yield place.status.vitals

    def start_no_more(self) -> None:
        """Replace no worker that ends."""
        self.stopping = True

    def leave(self) -> None:
        """Have all workers commit and end; none is started any more."""
        self.stopping = True
        for place in self.places:
            if place.remote is not None:
                place.remote.send("leave")

    def close(self) -> None:
        """Kill whoever is left."""
        self.stopping = True
        for place in self.places:
            if place.remote is not None:
                place.remote.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # -- one place
    # ------------------------------------------------------------

    def _start(self, place: WorkerSlot) -> None:
        node = self._least_loaded()
        if not node:
            return
        order = replace(self._order, name=place.name, node=node)
        remote = self._engine.start(f"worker-{place.name}", ClusterWorker, order, node=node)
        poll = Poll(partial(_ask, remote), _POLL_MS, self._threads, self._clock)
        place.begin(node, remote, poll)

    def _look_at(self, place: WorkerSlot, now: int) -> None:
        remote, poll = place.remote, place.poll
        if remote is None or poll is None:
            return
        with suppress(LycosaError):  # a fault of its own, which it will tell of in its status
            poll.look()
        status = poll.answer
        if status is not None and status.failure is not None:
            remote.kill()
            self._failed(place, now, status.failure.news, status.failure.text)
        elif status is not None and status.ended:
            self._has_ended(place, remote, now)
        elif (
            status is None or poll.trouble or now - poll.answered_ms >= _HEARD_MS
        ) and not remote.alive():
            # it may have gone with its node, and is not to start there again
            self._look_at_nodes(now)
            node_died = place.node not in {node.name for node in self.nodes if node.alive}
            self._failed(place, now, News.FAILED, poll.trouble, node_died=node_died)
        elif now - poll.answered_ms >= (_SILENT_MS if status is not None else _STARTS_MS):
            remote.kill()
            self._failed(place, now, News.FAILED, "it does not respond")

    def _has_ended(self, place: WorkerSlot, remote: Remote, now: int) -> None:
        """It committed, released and ended: asked by us, or by the coordinator, of which we hear
        soon.
        """
        ended_at = place.notice_end(now)
        if place.leaving:
            remote.kill()
            place.clear()
            self._remove(place)
        elif not self.stopping and now - ended_at >= _UNASKED_MS:
            remote.kill()
            place.clear()

    def _failed(
        self, place: WorkerSlot, now: int, news: News, how: str, *, node_died: bool = False
    ) -> None:
        """What to do about a worker that is gone."""
        life = place.status.worker if place.status is not None else ""
        if life and place.remote is not None:
            self._gone(life, False)
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
        if news is News.USAGE:
            raise SettingsRefused(how)
        self.trouble = f"worker {place.name} died: {how or 'its process exited'}"
        if news is News.DISK:
            self._report(f"{self.trouble}; it is restarted when the disk has enough free space")
            place.start_later(now + _NO_ROOM_PAUSE_MS)
            return
        place.start_later(now + _RESTART_PAUSE_MS)
        if node_died:
            self._report(
                f"node {node} was lost, and worker {place.name} with it; the worker is "
                "restarted on another node"
            )
            return
        self._count_death(place, now)
        self._report(
            f"{self.trouble}; restarting it ({len(place.deaths)} of "
            f"{self._settings.restarts} restarts)"
        )

    def _count_death(self, place: WorkerSlot, now: int) -> None:
        place.deaths.append(now)
        while place.deaths[0] < now - self._settings.window:
            place.deaths.popleft()
        if len(place.deaths) > self._settings.restarts:
            raise WorkError(
                f"workers died {len(place.deaths)} times in "
                f"{format_duration(self._settings.window)}, more than run.restarts "
                f"({self._settings.restarts}) allows. Last failure: {self.trouble}. No data is "
                "lost: fix the cause and start again"
            )

    def _remove(self, place: WorkerSlot) -> None:
        self.ended += place.former
        self.places.remove(place)

    # -- nodes
    # ------------------------------------------------------------

    def _look_at_nodes(self, now: int) -> None:
        self._next_nodes = now + _NODES_EVERY_MS
        self.nodes = self._engine.nodes()

    def _fill(self) -> None:
        """As many places as there are to be."""
        start_count = (
            self._size
            if self._size is not None
            else sum(_room_on(node) for node in self.nodes if node.alive)
        )
        staying = [place for place in self.places if not place.leaving]
        for _ in range(start_count - len(staying)):
            self._number += 1
            self.places.append(WorkerSlot(f"w{self._number}"))

    def _load(self) -> Counter[str]:
        return Counter(
            place.node for place in self.places if place.remote is not None and not place.leaving
        )

    def _least_loaded(self) -> str:
        load = self._load()
        nodes = [node for node in self.nodes if node.alive and node.cpus > 0] or [
            node for node in self.nodes if node.alive
        ]
        return (
            min(nodes, key=lambda node: (load[node.name] / max(node.cpus, 1), node.name)).name
            if nodes
            else ""
        )

    def _spread(self, now: int) -> None:
        """Where the number of workers is fixed, one of those that share a node goes to a node that
        has none.
        """
        if self._size is None or now < self._next_move:
            return
        load = self._load()
        empty = [
            node for node in self.nodes if node.alive and node.cpus > 0 and not load[node.name]
        ]
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


def _room_on(node: Node) -> int:
    return int(node.cpus)


def _ask(remote: Remote) -> MemberStatus:
    status: MemberStatus = remote.ask("status", timeout_s=_POLL_S)
    return status
