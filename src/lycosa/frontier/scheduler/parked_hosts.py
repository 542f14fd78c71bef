"""The hosts that are not active: their rows are in the tables, a few numbers of each in memory.

Parking a host loses nothing: its URLs are in the tables or in the worker's batch. Stored times are
milliseconds since 1970, those of the frontier are of the monotonic clock; they are converted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import HostRow
from lycosa.fetch.robots_txt import MAX_CRAWL_DELAY_MS
from lycosa.frontier.hosts.directory import NEVER, HostDirectory, HostOrder
from lycosa.frontier.rows.row_reader import HostRowReader, summary
from lycosa.frontier.scheduler.agenda import Agenda, Pending
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.heads import HORIZON_MS
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.store.log.state import LogState
from lycosa.store.tables.rows import host_record, record_rows

_RETRY_MS = 1_000
_MAX_PAUSE_MS = MAX_CRAWL_DELAY_MS


@dataclass(slots=True, frozen=True)
class RowReaders:
    """Readers of the tables `urls` and `hosts`."""

    urls: HostRowReader
    hosts: HostRowReader

    def refresh(self, state: LogState) -> None:
        """Read from the files that count in this state of the log."""
        self.urls.refresh(state.files.get("urls", []))
        self.hosts.refresh(state.files.get("hosts", []))


class ParkedHosts:
    """Opens parked hosts and parks active ones. Not for several threads at once.

    `row_readers` is None while there are no tables. `succeeds`: another worker held the partitions
    before.
    """

    def __init__(
        self,
        frontier: Frontier,
        directory: HostDirectory,
        agenda: Agenda,
        *,
        least_pause_ms: int,
        succeeds: bool,
        clock: Clock,
        pending: Pending,
    ) -> None:
        self.directory = directory
        self.row_readers: RowReaders | None = None
        self.unvisited_first = any(
            order.strategy.unvisited_first for order in frontier.active.orders.values()
        )
        self._frontier = frontier
        self._agenda = agenda
        self._least_pause_ms = least_pause_ms
        self._succeeds = succeeds
        self._clock = clock
        self._pending = pending
        self._next_at = NEVER  # no parked host is due before; ms since 1970
        self._next_at_until = -1

    def knows(self, host_key: int) -> bool:
        """Return whether a host is known, active or parked."""
        return self.directory.slot(host_key) is not None

    def usual_pause_ms(self, row: HostRow) -> int:
        """Return the pause after a fetch, by the stored delay of the host alone."""
        return max(self._least_pause_ms, min(row.delay_ms, _MAX_PAUSE_MS))

    def load(self, row_readers: RowReaders) -> Iterator[pl.DataFrame]:
        """Load all hosts of the tables as parked, while the caller consumes the yielded frames.

        They are the live rows of `urls` with collection, operation, host_key, url_key, state and
        depth.
        """
        self.row_readers = row_readers
        self.directory.clear()
        due, needed = self._agenda.due_columns()
        for frame in row_readers.urls.live(("state", "depth", *needed)):
            self.directory.extend(summary(frame, due))
            yield frame
        last_visit_at = pl.col("last_visit_at").cast(pl.Int64)
        ahead = (last_visit_at - self._clock.now_ms()).clip(lower_bound=0)  # as in `_restore_clock`
        self.directory.update(
            frame.filter(pl.col("host") != "").select(
                "host_key",
                next_at=pl.col("not_before").cast(pl.Int64) - ahead.fill_null(0),
                last_visit_at=last_visit_at,
            )
            for frame in self._with_domains(
                row_readers.hosts.live(
                    ("host", "registrable_domain", "delay", "not_before", "last_visit_at")
                )
            )
        )

    def _with_domains(self, hosts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Pass on rows of `hosts`, and restore the clocks of their domains.

        These are the pauses of domains, and of hosts in domains with several hosts: any of these
        may have been fetched from at the claim. The rows of a domain share a partition, and a frame
        splits none but its first and its last.
        """
        clocks = self._frontier.clocks
        for frame in hosts:
            now_ms, now = self._clock.now_ms(), self._clock.monotonic_ms()
            rests = frame.filter(
                (pl.col("host") == "") & (pl.col("not_before").cast(pl.Int64) > now_ms)
            )
            for domain, until in rests.select(
                "registrable_domain", pl.col("not_before").cast(pl.Int64)
            ).iter_rows():
                clocks.restore_domain(domain, not_before=until, now_ms=now_ms, monotonic_ms=now)
            several = (pl.len().over("registrable_domain") > 1) | pl.col("partition").is_in(
                [frame["partition"][0], frame["partition"][-1]]
            )
            slow = (
                frame.filter(pl.col("host") != "")
                .filter(several)
                .filter(pl.col("delay") > self._least_pause_ms)
            )
            for domain, pause in (
                slow.group_by("registrable_domain").agg(pl.col("delay").max()).iter_rows()
            ):
                clocks.restore_pause(domain, pause, monotonic_ms=now)
            yield frame

    def new_host(self, row: HostRow) -> HostQueue:
        """Add an unknown host as active."""
        self.directory.activate(self.directory.add(row.host_key, row.partition))
        queue = self._frontier.open_host(row)
        queue.open_at(self._clock.monotonic_ms())
        # the former owner may have fetched from it without recording that
        if self._succeeds:
            self._restore_clock(row)
        return queue

    def add(self, row: HostRow) -> None:
        """Add an unknown host as parked, with a URL that is due."""
        slot = self.directory.add(row.host_key, row.partition)
        self.directory.set(slot, waiting=row.known)
        self._wake(slot)

    def urls_added(self, host_key: int, number: int) -> bool:
        """Make a parked host due, as new URLs were admitted. False: the host is unknown."""
        slot = self.directory.slot(host_key)
        if slot is None:
            return False
        self.directory.change(slot, waiting=number)
        self._wake(slot)
        return True

    def clear_due(self) -> None:
        """Mark all parked hosts as not due until they are woken: with `only`, due URLs are not
        known yet.
        """
        self.directory.set_none_due()
        self._next_at_until = -1

    def wake_at(self, host_key: int, due_at: int) -> None:
        """Wake a parked host at `due_at`, when one of its URLs is due."""
        slot = self.directory.slot(host_key)
        if slot is not None:
            self.directory.wake(slot, due_at)
            self._next_at = min(self._next_at, due_at)

    def wake(self, host_key: int) -> None:
        """Wake a parked host with a URL that is due now.

        Unknown hosts are ignored.
        """
        slot = self.directory.slot(host_key)
        if slot is not None:
            self._wake(slot)

    def wake_earlier(self, hosts: pl.DataFrame) -> None:
        """Make hosts (columns host_key and due_at) due at these times, if that is earlier."""
        self.directory.wake_many(hosts["host_key"].to_numpy(), hosts["due_at"].to_numpy())
        self._next_at_until = -1

    @property
    def any_due(self) -> bool:
        """Whether a parked host may be due now, as far as was seen last."""
        return self._next_at <= self._clock.now_ms()

    def next_due(self) -> int | None:
        """Return when the next parked host is due, in ms of the monotonic clock; None: never. The
        directory is searched at most once a second.
        """
        now = self._clock.monotonic_ms()
        if now >= self._next_at_until:
            earliest = self.directory.next_time()
            self._next_at = NEVER if earliest is None else earliest
            self._next_at_until = now + _RETRY_MS
            if self._next_at > self._clock.now_ms():
                self._frontier.prefer_unvisited(False)
        if self._next_at == NEVER:
            return None
        return now + max(self._next_at - self._clock.now_ms(), 0)

    def due_hosts(self, limit: int) -> list[int]:
        """Return the keys of at most `limit` hosts that are due."""
        order = HostOrder.SERVERS if self.unvisited_first else HostOrder.TIME
        slots = self.directory.pick(self._clock.now_ms(), HORIZON_MS, limit, order)
        return [int(key) for key in self.directory.host_key[slots]]

    def set_back(self, by_ms: int) -> None:
        """Move all times earlier after the clock was set back."""
        self.directory.set_back(by_ms)
        if self._next_at < NEVER:
            self._next_at -= by_ms
        self._next_at_until = -1

    def open(self, host_keys: Sequence[int]) -> None:
        """Make parked hosts active, and restore their clocks."""
        missing = []
        rows = {}
        for key in host_keys:
            row = self._pending.host(key)
            if row is None:
                missing.append(key)
            else:
                rows[key] = row
        if missing and self.row_readers is not None:
            rows.update((row.host_key, row) for row in self._stored_hosts(missing))
        slots = self.directory.slots(np.array(host_keys, np.uint64))
        waiting, visited = (
            self.directory.waiting[slots].tolist(),
            self.directory.visited[slots].tolist(),
        )
        for key, slot, url_count, done in zip(
            host_keys, slots.tolist(), waiting, visited, strict=True
        ):
            row = rows.get(key)
            if row is None:
                # not in the tables: nothing to fetch
                self.directory.set(slot, next_at=NEVER)
                continue
            row.known, row.visited = url_count, done
            self._frontier.open_host(row).open_at(self._clock.monotonic_ms())
            self._restore_clock(row)
            self.directory.activate(slot)

    def park(self, host_key: int, parked_ms: int = HORIZON_MS, *, away_ms: int = 0) -> None:
        """Park an active host. `parked_ms`: minimum time if it waits for its domain; `away_ms`: in
        any case.
        """
        queue = self._frontier.close_host(host_key)
        due = [at for at in (queue.next_due_at,) if at is not None]
        for head in queue.heads.values():
            if not head.complete or head.waits:
                due.append(0)
            due += [self._wall_ms(at) for line in head.lines for at, _, _ in line.later[:1]]
        row = queue.row
        ready = self._wall_ms(self._frontier.clocks.remove(host_key))
        row.defer_until(ready)
        # its domain has more hosts than can be fetched from soon
        if queue.parked:
            ready = max(ready, self._clock.now_ms() + parked_ms)
        next_at = max(min(due), ready, self._clock.now_ms() + away_ms) if due else NEVER
        self._next_at = min(self._next_at, next_at)
        slot = self._slot(host_key)
        self.directory.activate(slot, False)
        self.directory.set(
            slot,
            next_at=next_at,
            waiting=row.known,
            visited=row.visited,
            last_visit_at=row.last_visit_at,
        )

    def _wake(self, slot: int) -> None:
        """Count a parked host as due now."""
        now_ms = self._clock.now_ms()
        self.directory.wake(slot, now_ms)
        self._next_at = min(self._next_at, now_ms)
        if self.unvisited_first and not self.directory.visited[slot]:
            self._frontier.prefer_unvisited(True)

    def _restore_clock(self, row: HostRow) -> None:
        now_ms = self._clock.now_ms()
        self._frontier.clocks.restore(
            row.host_key,
            row.registrable_domain,
            self.usual_pause_ms(row),
            # a visit in the future: the clock was set back since
            not_before=row.not_before - max(row.last_visit_at - now_ms, 0),
            now_ms=now_ms,
            monotonic_ms=self._clock.monotonic_ms(),
        )

    def _stored_hosts(self, keys: list[int]) -> Iterator[HostRow]:
        assert self.row_readers is not None
        host_keys = np.array(keys, np.uint64)
        partitions = self.directory.partition[self.directory.slots(host_keys)]
        frame = self.row_readers.hosts.rows(partitions, host_keys, pl.col("host") != "")
        for row in record_rows(frame):
            yield host_record(row)

    def _slot(self, host_key: int) -> int:
        slot = self.directory.slot(host_key)
        assert slot is not None
        return slot

    def _wall_ms(self, monotonic_ms: int) -> int:
        return self._clock.now_ms() + monotonic_ms - self._clock.monotonic_ms()
