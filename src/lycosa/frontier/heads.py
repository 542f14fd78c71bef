"""The heads of active hosts' queues: filled from the tables and the worker's batches, and looked at again when more is due.

A head holds the first of its collection's URLs of one host that are due within `HORIZON_MS`. What is due later stays in the
tables, and the host is looked at again then. Heads are copies: rows that wait for their commit are laid over what the shelf gives.
A URL of several collections goes into all their heads as soon as it is in one, for one fetch is to serve them all.

Stored times are milliseconds since 1970, the frontier's are of the monotonic clock.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from lycosa.core.clock import Clock
from lycosa.core.records import HostRow, UrlId, UrlRow
from lycosa.frontier.agenda import Agenda
from lycosa.frontier.domain_clock import BUSY
from lycosa.frontier.frontier import Frontier, HostQueue
from lycosa.frontier.shelf import Shelf
from lycosa.store.rows import url_record
from lycosa.url.scope import hostname

HORIZON_MS = 600_000
"""What is due within ten minutes belongs into a head; a host that rests longer than that rests in the tables."""

_ROOM_LEAST = 2
_SHARE_OF_LARGE = 200  # of a host with very many URLs each refill takes this share, so that reading it stays cheap a URL
_MOST_OF_LARGE = 1_000
_MOST_STALE = 1_000

_Place = tuple[int, str]  # of a head: host key, collection


@dataclass(slots=True, frozen=True)
class Pending:
    """What stands in the worker's batches and not yet in the tables, by host; the newest version of each row."""

    urls: Callable[[int], Iterable[UrlRow]]
    host: Callable[[int], HostRow | None]
    beside: Callable[[UrlRow, str], UrlRow | None] = lambda row, collection: None
    """The row of a URL in another collection."""


class Heads:
    """Fills the heads of the frontier's hosts. Not for several threads at once.

    `depth` gives the least depth at which a URL is known now; `in_flight` whether a URL is being fetched. `shelf` holds `urls`; it
    is None while there are no tables.
    """

    def __init__(
        self,
        frontier: Frontier,
        agenda: Agenda,
        *,
        waiting_urls: int,
        clock: Clock,
        pending: Pending,
        depth: Callable[[UrlRow], int],
        in_flight: Callable[[UrlRow], bool],
    ) -> None:
        self.shelf: Shelf | None = None
        self._frontier = frontier
        self._agenda = agenda
        self._waiting_urls = waiting_urls
        self._clock = clock
        self._pending = pending
        self._depth = depth
        self._in_flight = in_flight
        frontier.beside = self._beside
        self._wakes: list[tuple[int, int]] = []  # heap of (next_due_at, host_key); valid while it is the host's

    @property
    def room(self) -> int:
        """How many URLs a head may hold now."""
        return max(_ROOM_LEAST, self._waiting_urls // max(1, len(self._frontier.hosts)))

    def wait_for(self, row: UrlRow) -> None:
        """A URL of an active host changed: it waits here if it is due soon and there is room, else in the tables."""
        due = self._agenda.due_at(row)
        if due is None:
            return
        queue = self._frontier.hosts[row.id.host_key]
        wait = due - self._clock.now_ms()
        head = queue.heads.get(row.collection)
        earliest = self._agenda.earliest(row, due)
        others = queue.heads.values() if len(queue.heads) > 1 else ()
        fits = head is None or len(head.rows) < self.room or any(row.key in other.rows for other in others)
        if wait <= HORIZON_MS and earliest == due and fits:
            self._frontier.add(row, self._clock.monotonic_ms() + wait if wait > 0 else 0)
        else:
            self.look_at(queue, earliest)

    def stored(self, identities: Sequence[UrlId]) -> Iterator[UrlRow]:
        """The rows of single URLs as the tables hold them, in all collections. (What is at hand may be newer.)"""
        if self.shelf is None or not identities:
            return
        frame = self.shelf.find(
            np.array([identity.partition for identity in identities], np.uint16),
            np.array([identity.host_key for identity in identities], np.uint64),
            np.array([identity.url_key for identity in identities], np.uint64),
        )
        wanted = {identity.url_key for identity in identities}
        for row in _rows(frame):
            if row[2] in wanted:
                yield url_record(row, hostname(row[3]))

    # -- when a host is looked at again -------------------------------------------------------------------------------

    def look_at(self, queue: HostQueue, at_ms: int) -> None:
        """See that an active host is looked at again at this time at the latest."""
        if queue.next_due_at is None or at_ms < queue.next_due_at:
            queue.next_due_at = at_ms
            heapq.heappush(self._wakes, (at_ms, queue.row.host_key))
            if len(self._wakes) > _MOST_STALE + 2 * len(self._frontier.hosts):
                self._wakes = [(each.next_due_at, key) for key, each in self._frontier.hosts.items() if each.next_due_at is not None]
                heapq.heapify(self._wakes)

    def set_back(self, by_ms: int) -> None:
        """The clock was set back: hosts that were to be looked at are so earlier by as much."""
        self._wakes = []
        for key, queue in self._frontier.hosts.items():
            if queue.next_due_at is not None:
                queue.next_due_at -= by_ms
                self._wakes.append((queue.next_due_at, key))
        heapq.heapify(self._wakes)

    def next_look(self) -> int | None:
        """When the next host is to be looked at again; None: none."""
        while self._wakes and not self._valid_wake(*self._wakes[0]):
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def take_dry(self) -> list[int]:
        """The active hosts that the tables have something for now; they count as dry no more."""
        now, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        while self._wakes and self._wakes[0][0] <= now_ms:
            at, key = heapq.heappop(self._wakes)
            if self._valid_wake(at, key):
                self._frontier.dry.add(key)
        dry = []
        for key in self._frontier.dry:
            ready_at = self._frontier.clocks.host_ready_at(key)
            if ready_at >= BUSY or ready_at <= now + HORIZON_MS:
                dry.append(key)
            else:
                self.look_at(self._frontier.hosts[key], now_ms + ready_at - now)  # it rests for long
        self._frontier.dry.clear()
        return dry

    def _valid_wake(self, at_ms: int, host_key: int) -> bool:
        queue = self._frontier.hosts.get(host_key)
        return queue is not None and queue.next_due_at == at_ms

    # -- filling ------------------------------------------------------------------------------------------------------

    def read(self, host_keys: Sequence[int], now_ms: int) -> None:
        """Give these active hosts the heads of their queues, from the tables and the batches."""
        horizon = now_ms + HORIZON_MS
        room = max(_ROOM_LEAST, (self._waiting_urls - len(self._frontier)) // len(host_keys))
        pending = {key: self._pending_rows(key) for key in host_keys}
        taken: dict[_Place, list[UrlRow]] = {}
        more: set[_Place] = set()
        further: dict[int, list[str]] = {}
        for key in host_keys:
            self._frontier.hosts[key].next_due_at = None
            for row in pending[key].values():
                self._take(row, horizon, taken)
        if self.shelf is not None:
            for keys, limit in self._portions(host_keys, room):
                extra = max(len(pending[key]) for key in keys)
                asked = limit + extra + 1  # so many of them may be outdated by pending rows
                for collection in self._agenda.rules:
                    given: Counter[int] = Counter()
                    for row in self._shelved(keys, collection, horizon, asked, extra + 1):
                        given[row.id.host_key] += self._agenda.is_near(row, horizon)
                        if (collection, row.operation, row.id.url_key) not in pending[row.id.host_key]:
                            self._take(row, horizon, taken)
                    for key in (key for key, number in given.items() if number >= asked):
                        more.add((key, collection))
                        further.setdefault(key, []).append(collection)
        for place, rows in taken.items():
            self._fill(place, rows, room, place in more, now_ms)
        for key in host_keys:
            for collection in {*self._frontier.hosts[key].heads, *further.get(key, ())}:
                if (key, collection) not in taken:
                    self._frontier.close_head(key, collection, () if (key, collection) in more else None)
        if len(self._agenda.rules) > 1:
            self._share(host_keys, pending, horizon, now_ms)

    def _take(self, row: UrlRow, horizon: int, taken: dict[_Place, list[UrlRow]]) -> None:
        due = self._agenda.due_at(row)
        if due is None:
            return
        earliest = self._agenda.earliest(row, due)
        if earliest <= horizon and earliest == due:
            taken.setdefault((row.id.host_key, row.collection), []).append(row)
            return
        self.look_at(self._frontier.hosts[row.id.host_key], earliest)

    def _portions(self, host_keys: Sequence[int], room: int) -> Iterator[tuple[list[int], int]]:
        """Hosts that are read together, and how many URLs each may give. A host with very many gives more at once."""
        hosts = self._frontier.hosts
        large = [key for key in host_keys if hosts[key].row.known > room * _SHARE_OF_LARGE]
        for key in large:
            yield [key], min(hosts[key].row.known // _SHARE_OF_LARGE, _MOST_OF_LARGE)
        rest = [key for key in host_keys if key not in set(large)]
        if rest:
            yield rest, room

    def _shelved(self, keys: list[int], collection: str, horizon: int, limit: int, far: int) -> Iterator[UrlRow]:
        """The first rows of each host that are due, then the `far` that are due next."""
        assert self.shelf is not None
        wanted, later, near = self._agenda.wanted(collection, horizon)
        strategy = self._frontier.order(collection).strategy
        order = [pl.when(near).then(0).otherwise(later)]
        order += [-pl.col(name).cast(pl.Float64) if down else pl.col(name).cast(pl.Float64) for name, down in strategy.columns]
        frame = self.shelf.rows(
            self._partitions(keys),
            np.array(keys, np.uint64),
            (pl.col("collection") == collection) & wanted,
            order=order,
            limit=limit + far,
            near=near,
            far=far,
        )
        hosts = self._frontier.hosts
        for row in _rows(frame):
            host = hosts[row[1]].row
            # What many rows share is held once: a fifth of what a waiting URL takes.
            shared = (row[0], host.host_key, row[2], row[3], collection, intern(row[5]), row[6], intern(row[7]), intern(row[8]), *row[9:])
            yield url_record(shared, host.host)

    def _fill(self, place: _Place, rows: list[UrlRow], room: int, more: bool, now_ms: int) -> None:
        host_key, collection = place
        queue = self._frontier.hosts[host_key]
        rank = self._frontier.order(collection).strategy.rank
        head = queue.heads.get(collection)
        here = head.rows if head else {}
        wanted = []
        for row in rows:
            if row.key in here or self._in_flight(row):
                continue
            row.depth = min(row.depth, self._depth(row))
            wanted.append(row)
        wanted.sort(key=rank)
        kept = wanted[: max(room, min(queue.row.known // _SHARE_OF_LARGE, _MOST_OF_LARGE))]
        for row in kept:
            self._add(row, now_ms)
        closed_at = rank(wanted[len(kept)]) if len(wanted) > len(kept) else (rank(kept[-1]) if kept else ()) if more else None
        self._frontier.close_head(host_key, collection, closed_at)

    def _share(self, host_keys: Sequence[int], pending: dict[int, dict[tuple[str, str, int], UrlRow]], horizon: int, now_ms: int) -> None:
        """What waits in one head goes into the heads of the other collections that have it too, however late it comes there: else
        it would be fetched once for each. Where a head is complete there is nothing to look for."""
        lacking: dict[_Place, dict[int, UrlRow]] = {}
        for key in host_keys:
            heads = self._frontier.hosts[key].heads
            for collection, head in heads.items():
                if not head.complete:
                    others = {number: row for other in heads.values() for number, (_, row) in other.rows.items()}
                    lacking[key, collection] = {number: row for number, row in others.items() if number not in head.rows}
        for (key, collection), rows in lacking.items():
            for number, row in list(rows.items()):
                newest = pending[key].get((collection, row.operation, row.id.url_key))
                if newest is not None:
                    del rows[number]
                    self._add_beside(newest, horizon, now_ms)
        sought = {row.id.url_key: row.id for rows in lacking.values() for row in rows.values()}
        for row in self.stored(list(sought.values())):
            if row.key in lacking.get((row.id.host_key, row.collection), ()):
                self._add_beside(row, horizon, now_ms)

    def _add_beside(self, row: UrlRow, horizon: int, now_ms: int) -> None:
        if self._agenda.is_near(row, horizon) and not self._in_flight(row):
            row.depth = min(row.depth, self._depth(row))
            self._add(row, now_ms)

    def _beside(self, row: UrlRow, collection: str) -> UrlRow | None:
        """The row that a URL which is fetched now has in another collection too, if that is still in the batches, and due."""
        other = self._pending.beside(row, collection)
        if other is None or self._in_flight(other) or not self._agenda.is_near(other, self._clock.now_ms()):
            return None
        return other

    def _add(self, row: UrlRow, now_ms: int) -> None:
        wait = (self._agenda.due_at(row) or 0) - now_ms
        self._frontier.add(row, self._clock.monotonic_ms() + wait if wait > 0 else 0)

    def _pending_rows(self, host_key: int) -> dict[tuple[str, str, int], UrlRow]:
        return {(row.collection, row.operation, row.id.url_key): row for row in self._pending.urls(host_key)}

    def _partitions(self, keys: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        return np.array([self._frontier.hosts[key].row.partition for key in keys], np.uint16)


def _rows(frame: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Rows as `url_record` takes them."""
    return frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows()
