"""When each active host is next: a heap by time, hosts that are due by rank, and waiting lines.

A host is scheduled at most once. One that only lacks a collection that may fetch now is deferred.
One that only lacks its domain waits in the domain's line; one that only lacks a connection to its
address waits in the address's line. Times are milliseconds of the monotonic clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from itertools import chain, count, islice

from lycosa.frontier.politeness.clocks import BUSY, Clocks
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.frontier.scheduler.strategy import Rank

_RETRY_MS = 1_000
_DEFERRED = -1
"""`scheduled_at` of a deferred host: any time at which it may be fetched from is another."""
_MAX_STALE = 1_000

_Entry = tuple[Rank, int, int, int]
"""In a heap of due hosts: the host's rank, its turn, the number of the entry, the host key."""


class WaitingLines:
    """A line for each address, or for each registrable domain. A host is in one line at most.

    Only the first host of a line needs an entry in the schedule; otherwise all hosts of a large
    domain would be tried each time the domain has a place.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, None]] = {}
        self._line_of: dict[int, str] = {}

    def __len__(self) -> int:
        """Return how many hosts wait."""
        return len(self._line_of)

    def __contains__(self, name: str) -> bool:
        """Return whether a host waits in that queue."""
        return name in self._lines

    def join(self, host_key: int, name: str) -> None:
        """Add a host to the end of the line; one that is in it already keeps its place."""
        if self._line_of.get(host_key) != name:
            self.leave(host_key)
            self._lines.setdefault(name, {})[host_key] = None
            self._line_of[host_key] = name

    def leave(self, host_key: int) -> None:
        """Remove a host from its line, if it is in one."""
        name = self._line_of.pop(host_key, None)
        if name is not None:
            line = self._lines[name]
            del line[host_key]
            if not line:
                del self._lines[name]

    def first(self, name: str) -> int | None:
        """Return the host that has waited longest; None: no host waits."""
        line = self._lines.get(name)
        return next(iter(line)) if line else None

    def pop(self, name: str) -> int | None:
        """Remove and return the first host; None: no host waits."""
        first = self.first(name)
        if first is not None:
            self.leave(first)
        return first

    def cut(self, length: int) -> dict[str, list[int]]:
        """Remove and return by line the hosts behind the first `length`, in their order."""
        longer = {name: line for name, line in self._lines.items() if len(line) > length}
        cut = {name: list(islice(line, length, None)) for name, line in longer.items()}
        for host_key in chain.from_iterable(cut.values()):
            self.leave(host_key)
        return cut


class HostSchedule:
    """The order of the active hosts. `queues` is the live mapping of host keys to queues."""

    def __init__(self, queues: Mapping[int, HostQueue], clocks: Clocks) -> None:
        self._hosts = queues
        self.clocks = clocks
        self._times: list[tuple[int, int, int]] = []  # heap of (time, number, host_key)
        self._due: list[_Entry] = []  # heap
        self._deferred: dict[str, list[_Entry]] = {}  # by collection; heaps
        # heap of (time, domain): a host of the domain's line may be fetched from
        self._wakes: list[tuple[int, str]] = []
        self._waking: dict[str, int] = {}  # domain -> the time of its one valid entry there
        self._lines = WaitingLines()
        self.domain_lines = WaitingLines()
        self._numbers = count(1)

    def schedule(self, queue: HostQueue, not_before: int = 0, *, waits: bool = False) -> None:
        """Schedule a host. `waits`: it has a URL that may be fetched as soon as the host."""
        if queue.held or queue.parked:
            return
        ready_at = max(self.clocks.host_ready_at(queue.row.host_key), not_before)
        if ready_at >= BUSY:
            return
        at = ready_at if waits else queue.due_from(ready_at)
        if at is None or (queue.scheduled and queue.scheduled_at == at):
            return
        queue.schedule(next(self._numbers), at)
        heapq.heappush(self._times, (at, queue.scheduled, queue.row.host_key))

    def next_host(self, now: int, closed: Collection[str]) -> HostQueue | None:
        """Remove and return the first host that is due and not deferred for closed collections."""
        while self._times and self._times[0][0] <= now:
            _, number, host_key = heapq.heappop(self._times)
            queue = self._hosts.get(host_key)
            if queue is None or queue.scheduled != number:
                continue  # an older entry: the host was scheduled again
            heapq.heappush(self._due, self._entry(queue, now))
        heap, queue = self._due, self._first(self._due)
        for name, deferred in self._deferred.items():
            other = None if name in closed else self._first(deferred)
            if other is not None and (queue is None or deferred[0] < heap[0]):
                heap, queue = deferred, other
        if queue is not None:
            heapq.heappop(heap)
            queue.unschedule()
        return queue

    def defer(self, queue: HostQueue, now: int) -> None:
        """Schedule the host for when one of its collections may fetch again."""
        queue.schedule(next(self._numbers), _DEFERRED)
        entry = self._entry(queue, now)
        for name, head in queue.heads.items():
            if head.waits:
                heap = self._deferred.setdefault(name, [])
                heapq.heappush(heap, entry)
                if len(heap) > _MAX_STALE + 2 * len(self._hosts):
                    heap[:] = [
                        each
                        for each in heap
                        if each[3] in self._hosts and self._hosts[each[3]].scheduled == each[2]
                    ]
                    heapq.heapify(heap)

    def wait_for_domain(self, queue: HostQueue) -> None:
        """Put the host into the line of its registrable domain."""
        queue.park()
        self.domain_lines.join(queue.row.host_key, queue.row.registrable_domain)

    def wait_for_address(self, queue: HostQueue, now: int) -> None:
        """Put the host into the line of its address. It is retried when it is first and a fetch
        there ends, and once a second.
        """
        self._lines.join(queue.row.host_key, queue.row.ip)
        self.schedule(queue, now + _RETRY_MS)

    def leave_line(self, host_key: int) -> None:
        """Remove the host from the line of its address."""
        self._lines.leave(host_key)

    def wake(self, domain: str) -> None:
        """Wake the first host of the domain line when the domain has a place."""
        if domain not in self.domain_lines:
            return
        at = self.clocks.domain_ready_at(domain)
        if at < BUSY and self._waking.get(domain, BUSY) > at:
            self._waking[domain] = at
            heapq.heappush(self._wakes, (at, domain))

    def wake_lines(self, now: int) -> None:
        while self._wakes and self._wakes[0][0] <= now:
            at, domain = heapq.heappop(self._wakes)
            if self._waking.get(domain) != at:
                continue
            del self._waking[domain]
            if self.clocks.domain_ready_at(domain) > now:
                self.wake(domain)
                continue
            while (key := self.domain_lines.pop(domain)) is not None:
                queue = self._hosts.get(key)
                if queue is not None and queue.parked:
                    queue.unpark()
                    self.schedule(queue)
                    if queue.scheduled and queue.scheduled_at <= now:
                        break

    def release_address(self, address: str, now: int) -> None:
        """Schedule the first ready host of an address with a free connection."""
        while (key := self._lines.first(address)) is not None and not self.clocks.crowded(address):
            queue = self._hosts[key]
            self.schedule(queue)
            if queue.row.ip == address and queue.scheduled and queue.scheduled_at <= now:
                return
            self._lines.leave(key)

    def next_time(self) -> int | None:
        """Return when something may be due at the earliest; None: no idle host has a URL."""
        times = [at for at in (self._next_wake(), self._next_scheduled()) if at is not None]
        return min(times, default=None)

    def _next_wake(self) -> int | None:
        while self._wakes:
            at, domain = self._wakes[0]
            if self._waking.get(domain) == at:
                return at
            heapq.heappop(self._wakes)
        return None

    def _next_scheduled(self) -> int | None:
        for heap in (self._due, *self._deferred.values()):
            if self._first(heap) is not None:
                return self._hosts[heap[0][3]].scheduled_at
        while self._times:
            at, number, host_key = self._times[0]
            queue = self._hosts.get(host_key)
            if queue is not None and queue.scheduled == number:
                return at
            heapq.heappop(self._times)
        return None

    def _first(self, heap: list[_Entry]) -> HostQueue | None:
        """Return the host of the first valid entry; invalid ones before it are dropped."""
        while heap:
            *_, number, host_key = heap[0]
            queue = self._hosts.get(host_key)
            if queue is not None and queue.scheduled == number:
                return queue
            heapq.heappop(heap)
        return None

    def _entry(self, queue: HostQueue, now: int) -> _Entry:
        best: Rank | None = None
        for head in queue.heads.values():
            for row in head.first_urls(now):
                rank = (-head.order.priority, *head.order.strategy.host_rank(queue.row, row))
                best = rank if best is None else min(best, rank)
        return best or (), queue.turn, queue.scheduled, queue.row.host_key
