"""The heads of active hosts' queues: filled from the tables and the worker's batches, and examined
again when more URLs are due.

A head contains the first of its collection's URLs of one host that are due within `HORIZON_MS`, the
same number of each kind (`queue.kind_of`). What is due later stays in the tables, and the host is
examined again then. Heads are copies: uncommitted rows replace those of the row reader. A URL of
several collections is added to all their heads at once, since one fetch serves them all.

Stored times are milliseconds since 1970, the frontier's are of the monotonic clock.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from sys import intern

import numpy as np
import polars as pl

from lycosa.core.clock import Clock
from lycosa.core.records import UrlId, UrlRow
from lycosa.frontier.politeness.clocks import BUSY
from lycosa.frontier.rows.row_reader import HostRowReader, RowChoice
from lycosa.frontier.scheduler.agenda import Agenda, Pending
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.queue import FIRST, KINDS, HostQueue, kind_expr
from lycosa.frontier.scheduler.strategy import Rank
from lycosa.store.tables.rows import record_rows, url_record, url_records

HORIZON_MS = 600_000
"""URLs that are due within ten minutes may be in a head; hosts with longer pauses are parked."""

_MIN_URLS_PER_HOST = 2
# share of a refill for a host with very many URLs, so that reading remains cheap per URL
_SHARE_OF_LARGE = 200
_MAX_OF_LARGE = 1_000
_MAX_STALE = 1_000

_Place = tuple[int, str]  # of a head: host key, collection
_Kinds = dict[int, list[UrlRow]]


class Heads:
    """Fills the heads of the frontier's hosts. Not for several threads at once.

    `depth` returns the least depth at which a URL is known now. `row_reader` reads the table
    `urls`; it is None while there are no tables.
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
    ) -> None:
        self.row_reader: HostRowReader | None = None
        self._frontier = frontier
        self._agenda = agenda
        self._waiting_urls = waiting_urls
        self._clock = clock
        self._pending = pending
        self._depth = depth
        # heap of (next_due_at, host_key); valid while it is the host's
        self._wakes: list[tuple[int, int]] = []

    @property
    def urls_per_host(self) -> int:
        """Return the current maximum number of URLs in a head."""
        return max(_MIN_URLS_PER_HOST, self._waiting_urls // max(1, len(self._frontier.hosts)))

    def wait_for(self, row: UrlRow) -> None:
        """Queue a changed URL of an active host, or leave it to the tables.

        It is queued if it is due soon and its head is not full.
        """
        due = self._agenda.due_at(row)
        if due is None:
            return
        queue = self._frontier.hosts[row.id.host_key]
        wait = due - self._clock.now_ms()
        head = queue.heads.get(row.collection)
        earliest = self._agenda.earliest(row, due)
        others = queue.heads.values() if len(queue.heads) > 1 else ()
        fits = (
            head is None
            or len(head) < self.urls_per_host
            or any(other.get(row.key) is not None for other in others)
        )
        if head is not None and fits:
            kind = head.order.kind(row)
            closed_at = head.line(kind).closed_at if kind != FIRST else None
            # otherwise URLs with short intervals would never leave the head
            fits = closed_at is None or head.rank(row) < closed_at
        if wait <= HORIZON_MS and earliest == due and fits:
            self._frontier.add(row, self._clock.monotonic_ms() + wait if wait > 0 else 0)
        else:
            self.set_next_due_at(queue, earliest)

    def stored(self, identities: Sequence[UrlId]) -> Iterator[UrlRow]:
        """Return the stored rows of single URLs, in all collections; heads may have newer ones."""
        if self.row_reader is None or not identities:
            return
        frame = self.row_reader.find(
            np.array([identity.partition for identity in identities], np.uint16),
            np.array([identity.host_key for identity in identities], np.uint64),
            np.array([identity.url_key for identity in identities], np.uint64),
        )
        yield from url_records(frame)

    def read_from(self, row_reader: HostRowReader) -> None:
        """Fill the heads from the table `urls`."""
        self.row_reader = row_reader

    # -- when a host is examined again
    # ------------------------------------------------------------

    def set_next_due_at(self, queue: HostQueue, at_ms: int) -> None:
        """Examine an active host again at this time at the latest."""
        if queue.next_due_at is None or at_ms < queue.next_due_at:
            queue.set_next_due_at(at_ms)
            heapq.heappush(self._wakes, (at_ms, queue.row.host_key))
            if len(self._wakes) > _MAX_STALE + 2 * len(self._frontier.hosts):
                self._wakes = [
                    (each.next_due_at, key)
                    for key, each in self._frontier.hosts.items()
                    if each.next_due_at is not None
                ]
                heapq.heapify(self._wakes)

    def set_back(self, by_ms: int) -> None:
        """Examine hosts earlier after the clock was set back."""
        self._wakes = []
        for key, queue in self._frontier.hosts.items():
            if queue.next_due_at is not None:
                at_ms = queue.next_due_at - by_ms
                queue.set_next_due_at(at_ms)
                self._wakes.append((at_ms, key))
        heapq.heapify(self._wakes)

    def next_look(self) -> int | None:
        """Return when the next host is to be examined; None: none."""
        while self._wakes and not self._valid_wake(*self._wakes[0]):
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def pop_hosts_to_refill(self) -> list[int]:
        """Return the active hosts to be refilled now, which are no longer dry."""
        now, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        while self._wakes and self._wakes[0][0] <= now_ms:
            at, key = heapq.heappop(self._wakes)
            if self._valid_wake(at, key):
                self._frontier.active.dry.add(key)
        dry = []
        for key in self._frontier.active.dry:
            ready_at = self._frontier.clocks.host_ready_at(key)
            if ready_at >= BUSY or ready_at <= now + HORIZON_MS:
                dry.append(key)
            else:
                # its pause is long
                self.set_next_due_at(self._frontier.hosts[key], now_ms + ready_at - now)
        self._frontier.active.dry.clear()
        return dry

    def _valid_wake(self, at_ms: int, host_key: int) -> bool:
        queue = self._frontier.hosts.get(host_key)
        return queue is not None and queue.next_due_at == at_ms

    # -- filling
    # ------------------------------------------------------------

    def read(self, host_keys: Sequence[int], now_ms: int) -> None:
        """Fill the heads of these active hosts from the tables and the uncommitted rows."""
        horizon = now_ms + HORIZON_MS
        urls_per_host = max(
            _MIN_URLS_PER_HOST, (self._waiting_urls - len(self._frontier)) // len(host_keys)
        )
        pending = {
            key: {
                (row.collection, row.operation, row.id.url_key): row
                for row in self._pending.urls(key)
            }
            for key in host_keys
        }
        kinds_by_place: dict[_Place, _Kinds] = {}
        more: dict[_Place, set[int]] = {}
        for key in host_keys:
            self._frontier.hosts[key].next_due_at = None
            for row in pending[key].values():
                self._take(row, horizon, kinds_by_place)
        if self.row_reader is not None:
            for keys, limit in self._portions(host_keys, urls_per_host):
                extra = max(len(pending[key]) for key in keys)
                for collection in self._agenda.rules:
                    order = self._frontier.active.order(collection)
                    kinds = KINDS if order.revisits else 1
                    # `extra` of them may be outdated by pending rows, all of one kind
                    max_rows = limit + kinds * (extra + 1)
                    counts_by_host: dict[int, Counter[int]] = {}
                    for row in self._stored_due_rows(
                        keys, collection, horizon, max_rows, extra + 1
                    ):
                        counts_by_host.setdefault(row.id.host_key, Counter())[order.kind(row)] += (
                            self._agenda.is_near(row, horizon)
                        )
                        if (collection, row.operation, row.id.url_key) not in pending[
                            row.id.host_key
                        ]:
                            self._take(row, horizon, kinds_by_place)
                    for key, numbers in counts_by_host.items():
                        if numbers.total() >= max_rows:
                            # Kinds alternate: a kind with fewer rows than the limit is complete.
                            more[key, collection] = {
                                kind
                                for kind, number in numbers.items()
                                if number >= max_rows // kinds
                            }
        heads = ((key, name) for key in host_keys for name in self._frontier.hosts[key].heads)
        for place in dict.fromkeys([*kinds_by_place, *more, *heads]):
            kinds_of_place = kinds_by_place.get(place, {})
            self._fill(place, kinds_of_place, urls_per_host, more.get(place, ()), now_ms)
        if len(self._agenda.rules) > 1:
            self._share(host_keys, pending, horizon, now_ms)

    def _take(self, row: UrlRow, horizon: int, kinds_by_place: dict[_Place, _Kinds]) -> None:
        due = self._agenda.due_at(row)
        if due is None:
            return
        earliest = self._agenda.earliest(row, due)
        if earliest <= horizon and earliest == due:
            kinds = kinds_by_place.setdefault((row.id.host_key, row.collection), {})
            kinds.setdefault(self._frontier.active.order(row.collection).kind(row), []).append(row)
            return
        self.set_next_due_at(self._frontier.hosts[row.id.host_key], earliest)

    def _portions(
        self, host_keys: Sequence[int], urls_per_host: int
    ) -> Iterator[tuple[list[int], int]]:
        """Return groups of hosts that are read together, and the URLs to read of each.

        Hosts with very many URLs are read alone, and more of them at once.
        """
        hosts = self._frontier.hosts
        large = [key for key in host_keys if hosts[key].row.known > urls_per_host * _SHARE_OF_LARGE]
        for key in large:
            yield [key], min(hosts[key].row.known // _SHARE_OF_LARGE, _MAX_OF_LARGE)
        rest = [key for key in host_keys if key not in set(large)]
        if rest:
            yield rest, urls_per_host

    def _stored_due_rows(
        self, keys: list[int], collection: str, horizon: int, limit: int, far: int
    ) -> Iterator[UrlRow]:
        """Return the first rows of each host that are due, then the `far` that are due next."""
        assert self.row_reader is not None
        is_required, later, near = self._agenda.due_filter(collection, horizon)
        collection_order = self._frontier.active.order(collection)
        kind = kind_expr() if collection_order.revisits else None
        order = [pl.when(near).then(0).otherwise(later)]
        order += [] if kind is None else [pl.when(kind == FIRST).then(0).otherwise(later)]
        order += [
            -pl.col(name).cast(pl.Float64) if down else pl.col(name).cast(pl.Float64)
            for name, down in collection_order.strategy.columns
        ]
        frame = self.row_reader.rows(
            self._partitions(keys),
            np.array(keys, np.uint64),
            (pl.col("collection") == collection) & is_required,
            RowChoice(order, limit + far, near, far, kind),
        )
        hosts = self._frontier.hosts
        for row in record_rows(frame):
            host = hosts[row[1]].row
            # texts that many rows share are stored once: a fifth of the memory of a queued URL
            shared = (
                row[0],
                host.host_key,
                row[2],
                row[3],
                collection,
                intern(row[5]),
                row[6],
                intern(row[7]),
                intern(row[8]),
                *row[9:],
            )
            yield url_record(shared, host.host)

    def _fill(
        self, place: _Place, loaded: _Kinds, urls_per_host: int, more: Collection[int], now_ms: int
    ) -> None:
        """Add the rows that fit, and close the lines for which the tables contain `more`."""
        host_key, collection = place
        queue = self._frontier.hosts[host_key]
        head = queue.heads.get(collection)
        order = self._frontier.active.order(collection)
        new_kinds: _Kinds = {}

        def rank(row: UrlRow) -> Rank:
            return order.rank(row, self._frontier.active.due_since)

        for kind, rows in loaded.items():
            new_kinds[kind] = [
                row
                for row in rows
                if (head is None or head.get(row.key) is None) and not self._pending.in_flight(row)
            ]
            for row in new_kinds[kind]:
                row.reduce_depth(self._depth(row))
            new_kinds[kind].sort(key=rank)
        urls_per_host = max(urls_per_host, min(queue.row.known // _SHARE_OF_LARGE, _MAX_OF_LARGE))
        left, lines = urls_per_host, len(new_kinds)
        for kind, rows in sorted(new_kinds.items(), key=lambda each: len(each[1])):
            first_rows = rows[: max(1, left // lines)]
            left, lines = left - len(first_rows), lines - 1
            for row in first_rows:
                self._add(row, now_ms)
            closed_at = (
                rank(rows[len(first_rows)])
                if len(rows) > len(first_rows)
                else (rank(first_rows[-1]) if first_rows else ())
                if kind in more
                else None
            )
            self._frontier.active.close_line(host_key, collection, closed_at, kind)
        lines_here = [line.kind for line in head.lines] if head is not None else []
        for kind in {*lines_here, *more} - new_kinds.keys():
            self._frontier.active.close_line(
                host_key, collection, () if kind in more else None, kind
            )

    def _share(
        self,
        host_keys: Sequence[int],
        pending: dict[int, dict[tuple[str, str, int], UrlRow]],
        horizon: int,
        now_ms: int,
    ) -> None:
        """Add the URLs of each head to the incomplete heads of other collections that have them.

        Otherwise they would be fetched once for each collection.
        """
        lacking: dict[_Place, dict[int, UrlRow]] = {}
        for key in host_keys:
            heads = self._frontier.hosts[key].heads
            for collection, head in heads.items():
                if not head.complete:
                    others = {row.key: row for other in heads.values() for row in other.rows()}
                    lacking[key, collection] = {
                        number: row for number, row in others.items() if head.get(number) is None
                    }
        for (key, collection), rows in lacking.items():
            for number, row in list(rows.items()):
                newest = pending[key].get((collection, row.operation, row.id.url_key))
                if newest is not None:
                    del rows[number]
                    self._add_if_due(newest, horizon, now_ms)
        sought = {row.id.url_key: row.id for rows in lacking.values() for row in rows.values()}
        for row in self.stored(list(sought.values())):
            if row.key in lacking.get((row.id.host_key, row.collection), ()):
                self._add_if_due(row, horizon, now_ms)

    def _add_if_due(self, row: UrlRow, horizon: int, now_ms: int) -> None:
        if self._agenda.is_near(row, horizon) and not self._pending.in_flight(row):
            row.reduce_depth(self._depth(row))
            self._add(row, now_ms)

    def _add(self, row: UrlRow, now_ms: int) -> None:
        wait = (self._agenda.due_at(row) or 0) - now_ms
        self._frontier.add(row, self._clock.monotonic_ms() + wait if wait > 0 else 0)

    def _partitions(self, keys: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        return np.array([self._frontier.hosts[key].row.partition for key in keys], np.uint16)
