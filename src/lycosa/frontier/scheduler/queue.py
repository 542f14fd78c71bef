"""The queue of a host: a head for each collection, with alternating lines.

Invariants
- A URL that waits here is in its line's `rows` exactly once, with the arrival number of its one
  valid heap entry; older entries are skipped.
- A line contains the first of its URLs in its own order; when it is closed (`closed_at`), the
  tables contain more from that rank on.
- Of the lines with a URL that may be fetched, the least recently served one is next. So no kind of
  fetch starves another on a host with more due URLs than requests (decision 19).

No clock is read here: `lycosa.frontier.scheduler.frontier` decides when the host may be requested.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import field

import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow, VisitKind
from lycosa.frontier.politeness.latency import LatencyTracker, initial_latency, observe
from lycosa.frontier.scheduler.strategy import STRATEGIES, Rank, Strategy

FIRST, LIST, AGAIN = 0, 1, 2
"""The lines of a head: first visits, by the strategy; sitemaps and feeds that are read again; pages
that are visited again. The last two are ordered by due time.
"""

KINDS = 3

_LISTS = (VisitKind.SITEMAP.value, VisitKind.FEED.value)


def kind_of(row: UrlRow) -> int:
    """Return the queue of a URL, in a collection that visits pages again."""
    if not row.visited_at:
        return FIRST
    return AGAIN if not row.operation else LIST if row.operation in _LISTS else FIRST


def kind_expr() -> pl.Expr:
    """Return `kind_of` over the columns of `urls`."""
    visited = pl.col("visited_at").cast(pl.Int64).fill_null(0) > 0
    operation = pl.col("operation").fill_null("")
    again = (
        pl.when(operation == "")
        .then(AGAIN)
        .when(operation.is_in(list(_LISTS)))
        .then(LIST)
        .otherwise(FIRST)
    )
    return pl.when(visited).then(again).otherwise(FIRST)


@dataclass(slots=True, frozen=True)
class CollectionOrder:
    """How a collection's URLs are ordered. Of two collections at one host the higher priority is
    served first.

    `revisits`: pages are visited again, so each kind has a line of its own; else there is one line,
    by the strategy.
    """

    strategy: Strategy = STRATEGIES["breadth-first"]
    priority: float = 0.0
    revisits: bool = False

    def kind(self, row: UrlRow) -> int:
        """Return the line of a URL."""
        return kind_of(row) if self.revisits and row.visited_at else FIRST

    def rank(self, row: UrlRow, due_at: Callable[[UrlRow], int]) -> Rank:
        """Return the rank of a URL in its line. `due_at`: returns the due time of a visited URL, ms
        since 1970.
        """
        rank = self.strategy.rank(row)
        return rank if self.kind(row) == FIRST else (due_at(row), *rank)


@dataclass(slots=True)
class Line:
    """The first of one kind of one collection's URLs of one host."""

    kind: int
    waiting: list[tuple[Rank, int, int]] = field(default_factory=list)  # heap: rank, arrival, key
    # heap: not before, arrival, key
    later: list[tuple[int, int, int]] = field(default_factory=list)
    # by `UrlRow.key`: (arrival, row)
    rows: dict[int, tuple[int, UrlRow]] = field(default_factory=dict)
    # the tables have further URLs from this rank on; None: no others
    closed_at: Rank | None = None
    served: int = 0  # the head's turn at which it was served last

    @property
    def dry(self) -> bool:
        """Whether the line is empty and the tables contain more."""
        return self.closed_at is not None and not self.rows

    def valid(self, number: int, key: int) -> bool:
        entry = self.rows.get(key)
        return entry is not None and entry[0] == abs(number)

    def close(self, at: Rank | None) -> None:
        """Set the rank from which the tables contain URLs; None: there are none."""
        self.closed_at = at

    def serve(self, turn: int) -> None:
        """Record that the first URL was taken, in that turn of the head."""
        self.served = turn

    def trim(self, maximum: int, elsewhere: Callable[[int], bool]) -> int:
        """Keep the first `maximum` URLs and those that wait elsewhere too. Return how many were
        removed.
        """
        waiting = sorted(entry for entry in self.waiting if self.valid(entry[1], entry[2]))
        self.waiting, rest = waiting[:maximum], waiting[maximum:]  # sorted, so a heap
        gone = 0
        for entry in rest:
            if elsewhere(entry[2]):
                self.waiting.append(entry)
            else:
                del self.rows[entry[2]]
                gone += 1
        if rest:
            self.closed_at = rest[0][0]
        return gone

    def drop_stale(self) -> None:
        rows, waiting, later = self.rows, self.waiting, self.later
        while waiting and (
            (entry := rows.get(waiting[0][2])) is None or entry[0] != abs(waiting[0][1])
        ):
            heapq.heappop(waiting)
        while later and not self.valid(later[0][1], later[0][2]):
            heapq.heappop(later)


@dataclass(slots=True)
class Head:
    """The first of one collection's URLs of one host. `due_at` returns since when a URL is due,
    ms since 1970.
    """

    order: CollectionOrder
    due_at: Callable[[UrlRow], int]
    lines: list[Line] = field(default_factory=list)  # one of each kind of URL so far
    served_at: int = 0
    turn: int = 0

    def __len__(self) -> int:
        return sum(len(line.rows) for line in self.lines)

    def rows(self) -> Iterator[UrlRow]:
        """Yield all URLs of this head, in no order."""
        return (row for line in self.lines for _, row in line.rows.values())

    def get(self, key: int) -> UrlRow | None:
        """Return the queued URL with that `UrlRow.key`, or None."""
        for line in self.lines:
            entry = line.rows.get(key)
            if entry is not None:
                return entry[1]
        return None

    def line(self, kind: int) -> Line:
        """Return the line of a kind, which is created if necessary."""
        for line in self.lines:
            if line.kind == kind:
                return line
        line = Line(kind)
        self.lines.append(line)
        return line

    @property
    def complete(self) -> bool:
        """Whether the tables contain no other URLs."""
        return all(line.closed_at is None for line in self.lines)

    @property
    def waits(self) -> bool:
        """Whether this head has a URL that may be fetched (after `ripen`)."""
        return any(line.waiting for line in self.lines)

    def rank(self, row: UrlRow) -> Rank:
        """Return the rank of a URL in its line."""
        return self.order.rank(row, self.due_at)

    def add(self, row: UrlRow, number: int, not_before: int = 0) -> bool:
        """Queue a URL, or move it to its current place. Return whether it is new here. `number`:
        sequence number of its arrival.
        """
        order, key = self.order, row.key
        line = self.line(order.kind(row) if row.visited_at else FIRST)
        new = key not in line.rows
        if new and len(self.lines) > 1:
            new = all(other.rows.pop(key, None) is None for other in self.lines)
        line.rows[key] = (number, row)
        if not_before > 0:
            heapq.heappush(line.later, (not_before, number, key))
        elif line.kind == FIRST:
            strategy = order.strategy
            heapq.heappush(
                line.waiting, (strategy.rank(row), -number if strategy.last_first else number, key)
            )
        else:
            heapq.heappush(line.waiting, (self.rank(row), number, key))
        return new

    def serve(self, now: int) -> None:
        """Record that a URL of the head was taken for a fetch."""
        self.served_at = now

    def remove(self, key: int) -> tuple[UrlRow, Line] | None:
        """Remove a URL."""
        for line in self.lines:
            entry = line.rows.pop(key, None)
            if entry is not None:
                return entry[1], line
        return None

    def pop(self, now: int) -> tuple[UrlRow, Line, bool] | None:
        """Remove the first URL of the line whose turn it is. Return also whether the tables contain
        URLs that are ordered before it.
        """
        lines = self.lines if len(self.lines) == 1 else sorted(self.lines, key=_served)
        for line in lines:
            self._move_ready(line, now)
            if line.waiting:
                rank, _, key = heapq.heappop(line.waiting)
                _, row = line.rows.pop(key)
                self.turn += 1
                line.serve(self.turn)
                return row, line, line.closed_at is not None and rank >= line.closed_at
        return None

    def first_urls(self, now: int) -> list[UrlRow]:
        """Return the first URL of each line that may be fetched now."""
        for line in self.lines:
            self._move_ready(line, now)
        return [line.rows[line.waiting[0][2]][1] for line in self.lines if line.waiting]

    def trim(self, maximum: int, elsewhere: Callable[[int], bool]) -> int:
        """Keep the first `maximum` first visits. Return how many were removed.

        URLs that wait elsewhere too stay; the tables or the batches contain the others.
        """
        return self.line(FIRST).trim(maximum, elsewhere)

    def _move_ready(self, line: Line, now: int) -> None:
        """Move URLs whose `not_before` has passed; drop stale entries off the top."""
        while line.later and line.later[0][0] <= now:
            _, number, key = heapq.heappop(line.later)
            if line.valid(number, key):
                self.add(line.rows[key][1], number)
        line.drop_stale()


@dataclass(slots=True)
class HostQueue:
    """One host: its row, its clock, and a head for each collection that has URLs of it."""

    row: HostRow
    heads: dict[str, Head] = field(default_factory=dict)
    latency: LatencyTracker | None = None  # None: no request since it became active
    # the address that each fetch in flight is counted for
    in_flight: list[str] = field(default_factory=list)
    held: bool = False
    parked: bool = False
    turn: int = 0  # number of its last fetch; the lowest of equal hosts is first
    opened_at: int = 0  # when it became active
    scheduled: int = 0  # the number of its one valid entry in a heap; 0: none
    scheduled_at: int = 0
    # due time of the earliest URL that only the tables contain, ms since 1970; None: there is none
    next_due_at: int | None = None

    @property
    def size(self) -> int:
        return sum(len(head) for head in self.heads.values())

    @property
    def idle(self) -> bool:
        """Whether no URL is queued and no fetch is in flight."""
        return (
            not self.in_flight
            and not self.held
            and not any(line.rows for head in self.heads.values() for line in head.lines)
        )

    def observe_latency(self, first_byte_ms: int) -> None:
        """Apply the response time of a request."""
        self.latency = observe(self.latency or initial_latency(self.row.latency_ms), first_byte_ms)
        self.row.record_latency(self.latency.usual_ms)

    def restore_latency(self, latency: LatencyTracker | None, usual_ms: float) -> None:
        """Undo `observe_latency`."""
        self.latency = latency
        self.row.record_latency(usual_ms)

    def open_at(self, now: int) -> None:
        """Record that the host became active."""
        self.opened_at = now

    def hold(self) -> None:
        """Request nothing of the host until `release`."""
        self.held = True

    def release(self) -> None:
        """Undo `hold`."""
        self.held = False

    def serve(self, turn: int) -> None:
        """Record that a URL of the host was taken; 0: its turn was not used."""
        self.turn = turn

    def park(self) -> None:
        """Record that the host waits for its domain."""
        self.parked = True

    def unpark(self) -> None:
        """Record that the domain has a free place."""
        self.parked = False

    def schedule(self, number: int, at: int) -> None:
        """Make the heap entry with that number the host's only valid one."""
        self.scheduled, self.scheduled_at = number, at

    def unschedule(self) -> None:
        """Record that the host was taken from its heap."""
        self.scheduled = 0

    def set_next_due_at(self, at_ms: int | None) -> None:
        """Set when the tables contain a due URL; None: never."""
        self.next_due_at = at_ms

    def due_from(self, ready_at: int) -> int | None:
        """Return when a URL may be fetched; None: no URL is queued.

        `ready_at`: when the host may be requested.
        """
        at: int | None = None
        for head in self.heads.values():
            for line in head.lines:
                line.drop_stale()
                if line.waiting:
                    return ready_at
                if line.later:
                    line_at = max(ready_at, line.later[0][0])
                    at = line_at if at is None else min(at, line_at)
        return at


def _served(line: Line) -> int:
    return line.served
