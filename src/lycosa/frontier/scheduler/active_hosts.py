"""The active hosts and the heads of their URL queues (`lycosa.frontier.scheduler.queue`).

A host is `dry` if one of its lines is empty and the tables contain more URLs for that line:
`lycosa.frontier.scheduler.heads` then reads more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count

from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow
from lycosa.frontier.scheduler.queue import FIRST, CollectionOrder, Head, HostQueue
from lycosa.frontier.scheduler.strategy import Rank

_DEFAULT_ORDER = CollectionOrder()
_OVERFULL = 2


class ActiveHosts:
    """Host queues by host key.

    `orders` is by collection; a collection that it does not name is breadth-first. `due_since`
    returns since when a visited URL is due. `row_of_collection` returns the row of a URL in another
    collection, if that may be fetched too; None: there is none.
    """

    def __init__(
        self,
        orders: Mapping[str, CollectionOrder],
        due_since: Callable[[UrlRow], int],
        row_of_collection: Callable[[UrlRow, str], UrlRow | None],
    ) -> None:
        self.orders = dict(orders)
        self.due_since = due_since
        self._row_of_collection = row_of_collection
        self.queues: dict[int, HostQueue] = {}
        self._numbers = count(1)
        self._size = 0
        self.dry: set[int] = set()  # hosts with an empty line for which the tables contain URLs
        self._emptied: set[int] = set()  # every host without a queued URL, and maybe others

    def __len__(self) -> int:
        """Return the number of URLs in the heads."""
        return self._size

    def order(self, collection: str) -> CollectionOrder:
        """Return the order of a collection's URLs."""
        return self.orders.get(collection) or _DEFAULT_ORDER

    def reorder(self, collection: str, order: CollectionOrder) -> None:
        """Replace the order of a collection, for new heads."""
        self.orders[collection] = order

    def open(self, row: HostRow) -> HostQueue:
        """Return the queue of a host; a new one if the host was not active."""
        queue = self.queues.get(row.host_key)
        if queue is None:
            queue = self.queues[row.host_key] = HostQueue(row, turn=next(self._numbers))
            self._emptied.add(row.host_key)
        return queue

    def idle(self) -> list[int]:
        """Return the hosts without a queued URL and without a fetch in flight."""
        self._emptied = {key for key in self._emptied if not self.queues[key].size}
        return [key for key in self._emptied if self.queues[key].idle]

    def close(self, host_key: int) -> HostQueue:
        """Remove a host with the URLs of its heads (the tables contain them too)."""
        queue = self.queues.pop(host_key)
        self._size -= queue.size
        self.dry.discard(host_key)
        self._emptied.discard(host_key)
        return queue

    def close_line(
        self, host_key: int, collection: str, at: Rank | None, kind: int = FIRST
    ) -> None:
        """Set the rank from which the tables contain URLs of a kind; None: there are none."""
        line = self._head(self.queues[host_key], collection).line(kind)
        line.close(at)
        if line.dry:
            self.dry.add(host_key)

    def waiting(self, collection: str, host_key: int, key: int) -> UrlRow | None:
        """Return the row of a queued URL, or None."""
        queue = self.queues.get(host_key)
        head = queue.heads.get(collection) if queue else None
        return head.get(key) if head else None

    def add(self, row: UrlRow, not_before: int = 0) -> HostQueue:
        """Queue a URL of an active host, to be fetched at `not_before` or later. A URL that is
        queued already moves to its new place.
        """
        queue = self.queues[row.id.host_key]
        self._size += self._head(queue, row.collection).add(row, next(self._numbers), not_before)
        return queue

    def offer(self, queue: HostQueue, rows: Sequence[UrlRow], capacity: int) -> bool:
        """Queue new URLs of one collection that belong into the head. The head is closed at the
        rank of the first URL that does not. Return whether any was queued. `capacity`: of a head,
        in URLs.
        """
        head = self._head(queue, rows[0].collection)
        line = head.line(FIRST)
        any_fits = False
        for row in rows:
            if line.closed_at is not None:
                if head.rank(row) >= line.closed_at:
                    continue
            elif len(line.rows) >= capacity:
                # the queued URLs are not much worse: the next refill corrects the order
                line.close(head.rank(row))
                continue
            any_fits = True
            self._size += head.add(row, next(self._numbers))
            if len(line.rows) > _OVERFULL * capacity:
                self._trim(queue, head, capacity)
        return any_fits

    def _trim(self, queue: HostQueue, head: Head, capacity: int) -> None:
        others = [other for other in queue.heads.values() if other is not head]
        self._size -= head.trim(
            capacity, lambda key: any(other.get(key) is not None for other in others)
        )

    def remove(self, collection: str, host_key: int, key: int) -> UrlRow | None:
        """Remove a URL, regardless of the clock of its host (used by replay)."""
        queue = self.queues.get(host_key)
        head = queue.heads.get(collection) if queue else None
        return self._remove_row(host_key, head, key) if head else None

    def rows(self) -> Iterator[UrlRow]:
        """Yield all queued URLs, in no order."""
        return (
            row
            for queue in self.queues.values()
            for head in queue.heads.values()
            for row in head.rows()
        )

    def pop(self, queue: HostQueue, now: int, closed: Collection[str]) -> tuple[UrlRow, ...]:
        """Remove and return the first URL of the most urgent head, with its rows of other heads."""
        if len(queue.heads) == 1:
            ((name, head),) = queue.heads.items()
            row = None if name in closed else self._pop_head(head, now)
            if row is None:
                return ()
            queue.serve(next(self._numbers))
            return (row,)
        heads = [(name, head) for name, head in queue.heads.items() if name not in closed]
        heads.sort(key=lambda entry: (-entry[1].order.priority, entry[1].served_at))
        for _, head in heads:
            row = self._pop_head(head, now, several=True)
            if row is not None:
                head.serve(now)
                queue.serve(next(self._numbers))
                rows = [row]
                for name, other in heads:
                    same = self._remove_row(row.id.host_key, other, row.key)
                    if same is None and not other.complete and other is not head:
                        same = self._row_of_collection(row, name)
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
        if not line.rows:
            self._emptied.add(row.id.host_key)
        # Late: the tables contain URLs that are ordered before it, for example if it was queued
        # because another collection has it.
        if line.dry or (late and (several or line.kind != FIRST)):
            self.dry.add(row.id.host_key)
        return row

    def _remove_row(self, host_key: int, head: Head, key: int) -> UrlRow | None:
        entry = head.remove(key)
        if entry is None:
            return None
        self._size -= 1
        if not entry[1].rows:
            self._emptied.add(host_key)
        if entry[1].dry:
            self.dry.add(host_key)
        return entry[0]

    def _head(self, queue: HostQueue, collection: str) -> Head:
        head = queue.heads.get(collection)
        if head is None:
            head = queue.heads[collection] = Head(self.order(collection), self.due_since)
        return head
