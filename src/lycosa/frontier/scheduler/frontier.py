"""The frontier at hand: the hosts that are being asked now, and when each may be asked. What waits
at one host, and in which order, is in `lycosa.frontier.scheduler.queue`.

Invariants
- A host is scheduled at most once, at the earliest time at which it may be asked and has something
  to ask.
- A host is asked only when its clocks allow (`lycosa.frontier.politeness.clocks`: its own, its
  registrable domain's, its address's), which only `finished` and `delay` move; and not while it is
  held.
- A host that has something to ask only in collections that may not fetch now stands aside, in the
  order in which hosts come, until one of them may or it is scheduled again.
- A host that could be asked but for its domain stands in the domain's line (`parked`); only the
  line's first is woken when the domain has a place. One that could be asked but for its address
  stands in the address's line; the first looks again when a fetch there ends, and all of them once
  a second.
- A host of which the tables hold more than its heads, and one of these lines is empty, is `dry`
  (`lycosa.frontier.scheduler.parked_hosts` brings more in).
Times are milliseconds of the monotonic clock. What rests is in the tables; nothing here outgrows
the limits it is given.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count

from lycosa.core.records import HostRow, UrlRow
from lycosa.frontier.politeness.address_queues import AddressLines
from lycosa.frontier.politeness.clocks import ClockRules, Clocks
from lycosa.frontier.politeness.domain_clock import BUSY
from lycosa.frontier.scheduler.queue import FIRST, CollectionOrder, Head, HostQueue
from lycosa.frontier.scheduler.strategy import Rank

_DEFAULT_ORDER = CollectionOrder()
_LOOK_AGAIN_MS = 1_000
_OVERFULL = 2
# `scheduled_at` of a host that stands aside: any time at which it may be asked is another
_ASIDE = -1
_MAX_STALE = 1_000


class Frontier:
    """The active hosts. `orders` is by collection; a collection that it does not name is
    breadth-first.
    """

    def __init__(
        self, clocks: Clocks | None = None, orders: Mapping[str, CollectionOrder] | None = None
    ) -> None:
        self.clocks = Clocks(ClockRules()) if clocks is None else clocks
        self._orders = dict(orders or {})
        self._hosts: dict[int, HostQueue] = {}
        self._times: list[tuple[int, int, int]] = []  # heap of (time, number, host_key)
        self._due: list[tuple[Rank, int, int]] = []  # heap of (host's rank, number, host_key)
        # heap of (time, domain): a host of the domain's line may be asked
        self._wakes: list[tuple[int, str]] = []
        self._aside: dict[str, list[tuple[Rank, int, int]]] = {}  # by collection, heaps as `_due`
        self._lines = AddressLines()
        self._waking: dict[str, int] = {}  # domain -> the time of its one valid entry there
        self._numbers = count(1)
        self._size = 0
        self.dry: set[int] = set()  # hosts with an empty head that the tables can fill
        # its row there, if that may be fetched too
        self.row_of_collection: Callable[[UrlRow, str], UrlRow | None] = lambda row, collection: (
            None
        )
        # since when a visited URL is due
        self.since: Callable[[UrlRow], int] = lambda row: row.visited_at
        # hosts rest that come before any visited one: ask for them first
        self.unvisited_only = False

    def __len__(self) -> int:
        """How many URLs wait here."""
        return self._size

    @property
    def hosts(self) -> dict[int, HostQueue]:
        return self._hosts

    @property
    def orders(self) -> Mapping[str, CollectionOrder]:
        return self._orders

    def order(self, collection: str) -> CollectionOrder:
        """How a collection's URLs are ordered."""
        return self._orders.get(collection) or _DEFAULT_ORDER

    def reorder(self, collection: str, order: CollectionOrder) -> None:
        """Give a collection another order; for heads that are made from now on."""
        self._orders[collection] = order

    def host(self, host_key: int) -> HostQueue | None:
        return self._hosts.get(host_key)

    def open_host(self, row: HostRow) -> HostQueue:
        """Make a host active, or give back the one that stands. When it may be asked is the clocks'
        business.
        """
        queue = self._hosts.get(row.host_key)
        if queue is None:
            queue = self._hosts[row.host_key] = HostQueue(row)
        return queue

    def ready_at(self, host_key: int) -> int:
        """When a host may be asked at the earliest, as things stand; `clocks.BUSY` if a fetch must
        end first.
        """
        row = self._hosts[host_key].row
        return self.clocks.ready_at(host_key, row.registrable_domain, row.ip)

    def close_host(self, host_key: int) -> HostQueue:
        """Take an active host out, with what waits in its heads (the tables hold it too)."""
        queue = self._hosts.pop(host_key)
        self._lines.leave(host_key)
        self._size -= queue.size
        self.dry.discard(host_key)
        return queue

    def close_line(
        self, host_key: int, collection: str, at: Rank | None, kind: int = FIRST
    ) -> None:
        """Say from which rank on the tables hold further URLs of a kind (None: there are no
        others).
        """
        line = self._head(self._hosts[host_key], collection).line(kind)
        line.closed_at = at
        if line.dry:
            self.dry.add(host_key)

    def waiting(self, collection: str, host_key: int, key: int) -> UrlRow | None:
        """The row of a URL that waits here, or None."""
        queue = self._hosts.get(host_key)
        head = queue.heads.get(collection) if queue else None
        return head.get(key) if head else None

    def add(self, row: UrlRow, not_before: int = 0) -> None:
        """Queue a URL of an active host, to be fetched at `not_before` or later. Again: moves it to
        where it now belongs.
        """
        queue = self._hosts[row.id.host_key]
        self._size += self._head(queue, row.collection).add(row, next(self._numbers), not_before)
        self._schedule(queue)

    def offer(self, row: UrlRow, room: int) -> bool:
        """Queue a new URL of an active host if it belongs into the head; else the head is closed
        there. `room`: how many URLs a head may hold.
        """
        queue = self._hosts[row.id.host_key]
        head = self._head(queue, row.collection)
        line = head.line(FIRST)
        rank = head.rank(row)
        if line.closed_at is not None and rank >= line.closed_at:
            return False
        if line.closed_at is None and len(line.rows) >= room:
            # what is here already is not worse by much: the next refill sorts it out
            line.closed_at = rank
            return False
        self.add(row)
        if len(line.rows) > _OVERFULL * room:
            others = [other for other in queue.heads.values() if other is not head]
            self._size -= head.trim(
                room, lambda key: any(other.get(key) is not None for other in others)
            )
        return True

    def remove(self, collection: str, host_key: int, key: int) -> UrlRow | None:
        """Take a URL out, whatever its host's clock says (replay uses this)."""
        queue = self._hosts.get(host_key)
        head = queue.heads.get(collection) if queue else None
        return self._take_out(host_key, head, key) if head else None

    def collections(self, host_key: int) -> Iterator[str]:
        """The collections that have, or had, URLs of an active host."""
        return iter(self._hosts[host_key].heads)

    def next(self, now: int, closed: Collection[str] = ()) -> tuple[UrlRow, ...]:
        """The next URL that may be fetched now, in every collection that waits for it; empty:
        nothing is due.

        The host counts as being asked until `finished`. `closed`: collections that may not fetch
        now.
        """
        put_off: list[HostQueue] = []
        rows: tuple[UrlRow, ...] = ()
        if closed and self._orders and all(name in closed for name in self._orders):
            return ()  # or every host that is due would be looked at, in vain
        self._wake_lines(now)
        while not rows and (queue := self._next_host(now, closed)) is not None:
            key, domain = queue.row.host_key, queue.row.registrable_domain
            if self.unvisited_only and queue.row.visited:
                put_off.append(queue)
                self._lines.leave(key)
                if len(self._orders) == 1:
                    break  # those behind it are visited too
                continue
            if queue.held or self.clocks.host_ready_at(key) > now:
                self._schedule(queue)
            elif self.clocks.domain_ready_at(domain) > now and self.ready_at(key) > now:
                queue.parked = True
                self.clocks.park(key, domain)
            elif self.ready_at(key) > now:
                self._lines.stand(key, queue.row.ip)
                # or when it is the first in line, and a fetch there ends
                self._schedule(queue, now + _LOOK_AGAIN_MS)
            else:
                self._lines.leave(key)
                rows = self._pop(queue, now, closed)
                if rows:
                    self.start(key, now)
                    self._schedule(queue)
                elif closed and any(head.waits for head in queue.heads.values()):
                    self._put_aside(queue, now)
                else:
                    self._schedule(queue)
                self._let_in(queue.row.ip, now)
            self._wake(domain)
        for queue in put_off:
            self._schedule(queue)
        return rows

    def undo(self, host_key: int) -> None:
        """The fetch that `next` announced is not made: its host is not being asked."""
        queue = self._hosts[host_key]
        address = queue.in_flight.pop()
        self.clocks.undone(host_key, queue.row.registrable_domain, address)
        self._let_in(address, BUSY)
        self._schedule(queue)
        self._wake(queue.row.registrable_domain)

    def put_back(self, rows: tuple[UrlRow, ...]) -> None:
        """Undo `next`: the URL waits again and its host is not being asked."""
        for row in rows:
            self.add(row)
        self.undo(rows[0].id.host_key)

    def start(self, host_key: int, now: int) -> None:
        """Count a fetch against its host (`next` does it for what it gives)."""
        queue = self._hosts[host_key]
        queue.in_flight.append(queue.row.ip)
        self.clocks.started(host_key, queue.row.registrable_domain, now, queue.row.ip)

    def finished(
        self,
        host_key: int,
        now: int,
        pause: int,
        *,
        domain_pause: int | None = None,
        may_burst: bool = False,
    ) -> None:
        """A fetch from the host has ended; leave it alone for `pause` (`Clocks.finished`)."""
        queue = self._hosts[host_key]
        domain = queue.row.registrable_domain
        address = queue.in_flight.pop()
        self.clocks.finished(
            host_key,
            domain,
            now,
            pause,
            address=address,
            domain_pause=domain_pause,
            may_burst=may_burst,
        )
        # before the host itself: of equals the first that is scheduled comes first
        self._let_in(address, now)
        self._schedule(queue)
        self._wake(domain)

    def start_unqueued(self, host_key: int, domain: str, now: int) -> bool:
        """Count a fetch that none of the heads gave, of a host that may rest in the tables. Give
        what it returns to `finish_beside`.
        """
        if host_key in self._hosts:
            self.start(host_key, now)
            return True
        self.clocks.started(host_key, domain, now)
        return False

    def finish_unqueued(
        self, host_key: int, domain: str, now: int, pause: int, *, queued: bool
    ) -> None:
        """It has ended; the host is left alone for `pause`."""
        if queued:  # a host that is being asked is never sent back
            self.finished(host_key, now, pause)
            return
        self.clocks.finished(host_key, domain, now, pause)
        if host_key in self._hosts:
            self._schedule(self._hosts[host_key])
        self._wake(domain)

    def delay(self, host_key: int, now: int, until: int) -> None:
        """Ask nothing of the host before `until`."""
        self.clocks.delay(host_key, now, until)
        self._schedule(self._hosts[host_key])

    def hold(self, host_key: int) -> None:
        """Ask nothing of the host until `release` (its robots.txt is on the way)."""
        self._hosts[host_key].held = True

    def release(self, host_key: int) -> None:
        queue = self._hosts[host_key]
        queue.held = False
        self._schedule(queue)

    def next_time(self) -> int | None:
        """When something may be due at the earliest; None: nothing waits on a host that is not
        being asked.
        """
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
        for heap in (self._due, *self._aside.values()):
            if self._first(heap) is not None:
                return self._hosts[heap[0][2]].scheduled_at
        while self._times:
            at, number, host_key = self._times[0]
            queue = self._hosts.get(host_key)
            if queue is not None and queue.scheduled == number:
                return at
            heapq.heappop(self._times)
        return None

    def rows(self) -> Iterator[UrlRow]:
        """All URLs that wait here, in no order."""
        return (
            row
            for queue in self._hosts.values()
            for head in queue.heads.values()
            for row in head.rows()
        )

    def _head(self, queue: HostQueue, collection: str) -> Head:
        head = queue.heads.get(collection)
        if head is None:
            head = queue.heads[collection] = Head(self.order(collection), self._since)
        return head

    def _since(self, row: UrlRow) -> int:
        return self.since(row)

    def _next_host(self, now: int, closed: Collection[str]) -> HostQueue | None:
        """Take the first of the hosts whose time has come, and that do not stand aside for these
        collections, off the schedule.
        """
        while self._times and self._times[0][0] <= now:
            _, number, host_key = heapq.heappop(self._times)
            queue = self._hosts.get(host_key)
            if queue is None or queue.scheduled != number:
                continue  # an older entry: the host was scheduled again
            heapq.heappush(self._due, (self._host_rank(queue, now), number, host_key))
        heaps = (
            [self._due, *(heap for name, heap in self._aside.items() if name not in closed)]
            if self._aside
            else [self._due]
        )
        firsts = [heap for heap in heaps if self._first(heap) is not None]
        if not firsts:
            return None
        _, _, host_key = heapq.heappop(min(firsts, key=_top) if len(firsts) > 1 else firsts[0])
        queue = self._hosts[host_key]
        queue.scheduled = 0
        return queue

    def _first(self, heap: list[tuple[Rank, int, int]]) -> HostQueue | None:
        """The host of a heap's first valid entry; those before it are dropped."""
        while heap:
            _, number, host_key = heap[0]
            queue = self._hosts.get(host_key)
            if queue is not None and queue.scheduled == number:
                return queue
            heapq.heappop(heap)
        return None

    def _put_aside(self, queue: HostQueue, now: int) -> None:
        """Nothing of the host may be asked now but for what its collections may fetch: it comes
        when one of them may.
        """
        queue.scheduled, queue.scheduled_at = next(self._numbers), _ASIDE
        entry = (self._host_rank(queue, now), queue.scheduled, queue.row.host_key)
        for name, head in queue.heads.items():
            if head.waits:
                heap = self._aside.setdefault(name, [])
                heapq.heappush(heap, entry)
                if len(heap) > _MAX_STALE + 2 * len(self._hosts):
                    heap[:] = [
                        each
                        for each in heap
                        if each[2] in self._hosts and self._hosts[each[2]].scheduled == each[1]
                    ]
                    heapq.heapify(heap)

    def _host_rank(self, queue: HostQueue, now: int) -> Rank:
        best: Rank | None = None
        for head in queue.heads.values():
            for row in head.firsts(now):
                rank = (-head.order.priority, *head.order.strategy.host_rank(queue.row, row))
                best = rank if best is None else min(best, rank)
        return best or ()

    def _pop(self, queue: HostQueue, now: int, closed: Collection[str]) -> tuple[UrlRow, ...]:
        """The first URL of the host's most urgent head, and its rows in the host's other heads."""
        if len(queue.heads) == 1:
            ((name, head),) = queue.heads.items()
            row = None if name in closed else self._pop_head(head, now)
            return (row,) if row is not None else ()
        heads = [(name, head) for name, head in queue.heads.items() if name not in closed]
        heads.sort(key=lambda entry: (-entry[1].order.priority, entry[1].served_at))
        for _, head in heads:
            row = self._pop_head(head, now, several=True)
            if row is not None:
                head.served_at = now
                rows = [row]
                for name, other in heads:
                    same = self._take_out(row.id.host_key, other, row.key)
                    if same is None and not other.complete and other is not head:
                        same = self.row_of_collection(row, name)
                    if same is not None:
                        rows.append(same)
                return tuple(rows)
        return ()

    def _pop_head(self, head: Head, now: int, *, several: bool = False) -> UrlRow | None:
        entry = head.pop(now)
        if entry is None:
            return None
        row, line, late = entry
        self._size -= 1
        # Late: it waited here for another head's sake, say, and the tables hold some that come
        # before it.
        if line.dry or (late and (several or line.kind != FIRST)):
            self.dry.add(row.id.host_key)
        return row

    def _take_out(self, host_key: int, head: Head, key: int) -> UrlRow | None:
        entry = head.remove(key)
        if entry is None:
            return None
        self._size -= 1
        if entry[1].dry:
            self.dry.add(host_key)
        return entry[0]

    def _wake(self, domain: str) -> None:
        """See that the first of the domain's line is woken when the domain has a place."""
        if not self.clocks.has_line(domain):
            return
        at = self.clocks.domain_ready_at(domain)
        if at < BUSY and self._waking.get(domain, BUSY) > at:
            self._waking[domain] = at
            heapq.heappush(self._wakes, (at, domain))

    def _wake_lines(self, now: int) -> None:
        while self._wakes and self._wakes[0][0] <= now:
            at, domain = heapq.heappop(self._wakes)
            if self._waking.get(domain) != at:
                continue
            del self._waking[domain]
            if self.clocks.domain_ready_at(domain) > now:
                self._wake(domain)
                continue
            while (key := self.clocks.unpark(domain)) is not None:
                queue = self._hosts.get(key)
                if queue is not None and queue.parked:
                    queue.parked = False
                    self._schedule(queue)
                    if queue.scheduled and queue.scheduled_at <= now:
                        break

    def _let_in(self, address: str, now: int) -> None:
        """Where an address has room, let the first in its line that may be asked now look again."""
        while not self.clocks.crowded(address) and (key := self._lines.first(address)) is not None:
            queue = self._hosts[key]
            self._schedule(queue)
            if queue.row.ip == address and queue.scheduled and queue.scheduled_at <= now:
                return
            self._lines.leave(key)

    def _schedule(self, queue: HostQueue, not_before: int = 0) -> None:
        if queue.held or queue.parked:
            return
        ready_at = max(self.clocks.host_ready_at(queue.row.host_key), not_before)
        if ready_at >= BUSY:
            return
        at = queue.due_from(ready_at)
        if at is None or (queue.scheduled and queue.scheduled_at == at):
            return
        queue.scheduled = next(self._numbers)
        queue.scheduled_at = at
        heapq.heappush(self._times, (at, queue.scheduled, queue.row.host_key))


def _top(heap: list[tuple[Rank, int, int]]) -> tuple[Rank, int, int]:
    return heap[0]
