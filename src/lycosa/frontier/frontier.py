"""The frontier: which URL next, and when.

Invariants
- A URL that waits is in `_queued` exactly once, with the arrival number of its one valid heap entry; older entries are skipped.
- A host is in `_ready` at most once, at the earliest time at which it may be asked and has something to ask.
- A host is asked by at most `connections_per_host` fetches at once, and not before `ready_at`, which only `finished`,
  `delay` and `hold` move.
Within a host the order is breadth-first: least depth, then first come. Times are milliseconds of the monotonic clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from lycosa.core.records import HostRow, UrlRow


@dataclass(slots=True)
class HostQueue:
    """One host's URLs and its clock."""

    row: HostRow
    waiting: list[tuple[int, int, UrlRow]] = field(default_factory=list)  # heap by (depth, arrival)
    later: list[tuple[int, int, UrlRow]] = field(default_factory=list)  # heap by (not before, arrival)
    ready_at: int = 0
    in_flight: int = 0
    held: bool = False
    scheduled_at: int | None = None  # where it stands in the heap of hosts


class Frontier:
    """All hosts that have something to fetch."""

    def __init__(self, connections_per_host: int = 1) -> None:
        self._per_host = connections_per_host
        self._hosts: dict[int, HostQueue] = {}
        self._ready: list[tuple[int, int, int]] = []  # (time, arrival, host_key)
        self._queued: dict[int, tuple[int, UrlRow]] = {}  # url_key -> (arrival, row)
        self._arrivals = count()

    def __len__(self) -> int:
        """How many URLs wait."""
        return len(self._queued)

    @property
    def hosts(self) -> dict[int, HostQueue]:
        return self._hosts

    def host(self, host_key: int) -> HostQueue | None:
        return self._hosts.get(host_key)

    def open_host(self, row: HostRow, ready_at: int = 0) -> HostQueue:
        """Register a host, or give back the one that stands."""
        queue = self._hosts.get(row.host_key)
        if queue is None:
            queue = self._hosts[row.host_key] = HostQueue(row, ready_at=ready_at)
        return queue

    def waiting(self, url_key: int) -> UrlRow | None:
        """The row of a URL that waits, or None."""
        entry = self._queued.get(url_key)
        return entry[1] if entry else None

    def add(self, row: UrlRow, not_before: int = 0) -> None:
        """Queue a URL of a registered host, to be fetched at `not_before` or later. Again with less depth: moves it forward."""
        queue = self._hosts[row.id.host_key]
        arrival = next(self._arrivals)
        self._queued[row.id.url_key] = (arrival, row)
        if not_before > 0:
            heapq.heappush(queue.later, (not_before, arrival, row))
        else:
            heapq.heappush(queue.waiting, (row.depth, arrival, row))
        self._schedule(queue)

    def remove(self, url_key: int) -> UrlRow | None:
        """Take a URL out, whatever its host's clock says (replay uses this)."""
        entry = self._queued.pop(url_key, None)
        return entry[1] if entry else None

    def next(self, now: int) -> UrlRow | None:
        """The next URL that may be fetched now; its host counts as being asked until `finished`. None: nothing is due."""
        while self._ready and self._ready[0][0] <= now:
            at, _, host_key = heapq.heappop(self._ready)
            queue = self._hosts[host_key]
            if queue.scheduled_at != at:
                continue  # an older entry: the host was scheduled again
            queue.scheduled_at = None
            if queue.held or queue.in_flight >= self._per_host or queue.ready_at > now:
                self._schedule(queue)
                continue
            row = self._pop(queue, now)
            if row is not None:
                queue.in_flight += 1
            self._schedule(queue)
            if row is not None:
                return row
        return None

    def put_back(self, row: UrlRow) -> None:
        """Undo `next`: the URL waits again and its host is not being asked."""
        queue = self._hosts[row.id.host_key]
        queue.in_flight -= 1
        self.add(row)

    def start(self, host_key: int) -> None:
        """Count a fetch that did not come from `next` (a robots.txt) against its host."""
        self._hosts[host_key].in_flight += 1

    def finished(self, host_key: int, now: int, pause: int) -> None:
        """A fetch from the host has ended; leave it alone for `pause`."""
        queue = self._hosts[host_key]
        queue.in_flight -= 1
        queue.ready_at = max(queue.ready_at, now + pause)
        self._schedule(queue)

    def delay(self, host_key: int, until: int) -> None:
        """Ask nothing of the host before `until`."""
        queue = self._hosts[host_key]
        queue.ready_at = max(queue.ready_at, until)
        self._schedule(queue)

    def hold(self, host_key: int) -> None:
        """Ask nothing of the host until `release` (its robots.txt is on the way)."""
        self._hosts[host_key].held = True

    def release(self, host_key: int) -> None:
        queue = self._hosts[host_key]
        queue.held = False
        self._schedule(queue)

    def next_time(self) -> int | None:
        """When something may be due at the earliest; None: nothing waits on a host that is not being asked."""
        while self._ready:
            at, _, host_key = self._ready[0]
            if self._hosts[host_key].scheduled_at == at:
                return at
            heapq.heappop(self._ready)
        return None

    def rows(self) -> Iterator[UrlRow]:
        """All URLs that wait, in no order."""
        return (row for _, row in self._queued.values())

    def _pop(self, queue: HostQueue, now: int) -> UrlRow | None:
        while queue.later and queue.later[0][0] <= now:
            _, arrival, row = heapq.heappop(queue.later)
            if self._valid(arrival, row):
                heapq.heappush(queue.waiting, (row.depth, arrival, row))
        while queue.waiting:
            _, arrival, row = heapq.heappop(queue.waiting)
            if self._valid(arrival, row):
                del self._queued[row.id.url_key]
                return row
        return None

    def _schedule(self, queue: HostQueue) -> None:
        self._drop_stale(queue)
        if queue.held or queue.in_flight >= self._per_host:
            return
        if queue.waiting:
            at = queue.ready_at
        elif queue.later:
            at = max(queue.ready_at, queue.later[0][0])
        else:
            return
        if queue.scheduled_at is None or queue.scheduled_at != at:
            queue.scheduled_at = at
            heapq.heappush(self._ready, (at, next(self._arrivals), queue.row.host_key))

    def _drop_stale(self, queue: HostQueue) -> None:
        for heap in (queue.waiting, queue.later):
            while heap and not self._valid(heap[0][1], heap[0][2]):
                heapq.heappop(heap)

    def _valid(self, arrival: int, row: UrlRow) -> bool:
        entry = self._queued.get(row.id.url_key)
        return entry is not None and entry[0] == arrival
