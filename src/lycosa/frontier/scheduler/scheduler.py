"""Which hosts are active: parked hosts that are due are opened, active hosts without work parked.

The frontier has a bounded number of active hosts, each with the heads of its URL queues. All
other URLs are rows: committed ones in the tables, uncommitted ones in the worker's batch. A refill
opens hosts that are due, has dry heads filled (`lycosa.frontier.scheduler.heads`) and parks hosts
that have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import polars as pl

from lycosa.core.clock import Clock, ClockStep
from lycosa.core.dataclass import dataclass
from lycosa.core.records import UrlRow
from lycosa.frontier.hosts.directory import HostDirectory
from lycosa.frontier.rows.row_reader import summary
from lycosa.frontier.scheduler.agenda import Agenda, Pending
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.heads import Heads
from lycosa.frontier.scheduler.parked_hosts import ParkedHosts, RowReaders
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.frontier.scheduler.turnover import Turnover
from lycosa.store.log.state import LogState

_REFILL_HOSTS = 2_000
"""Hosts of one refill, and hosts that are opened in a second: more than can be fetched from; after
a start all of them pause.
"""
_REFILL_EVERY_MS = 100
_MAX_REFILL_EVERY_MS = 2_000
_REFILL_SHARE = 0.1
"""Share of the time that refills may take while most active hosts have work: each reads the keys of
most of the table, whether few hosts or many are dry.
"""


@dataclass(slots=True, frozen=True)
class SchedulerLimits:
    """Limits: active hosts, URLs in their heads, and the minimum pause of a host. `succeeds`:
    another worker held the partitions before.
    """

    active_hosts: int
    waiting_urls: int
    least_pause_ms: int = 0
    succeeds: bool = False


class Scheduler:
    """Joins the active hosts (`frontier`), the parked ones (`parked`), the reader of queue heads
    (`heads`) and the due times (`agenda`). Not for several threads at once.

    `depth` returns the least depth at which a URL is known now.
    """

    def __init__(
        self,
        frontier: Frontier,
        directory: HostDirectory,
        agenda: Agenda,
        limits: SchedulerLimits,
        clock: Clock,
        pending: Pending,
        depth: Callable[[UrlRow], int],
    ) -> None:
        self.frontier = frontier
        self.agenda = agenda
        self.parked = ParkedHosts(
            frontier,
            directory,
            agenda,
            least_pause_ms=limits.least_pause_ms,
            succeeds=limits.succeeds,
            clock=clock,
            pending=pending,
        )
        self.heads = Heads(
            frontier,
            agenda,
            waiting_urls=limits.waiting_urls,
            clock=clock,
            pending=pending,
            depth=depth,
        )
        self._turnover = Turnover(
            frontier,
            self.parked.park,
            active_hosts=limits.active_hosts,
            least_pause_ms=limits.least_pause_ms,
            unvisited_first=self.parked.unvisited_first,
        )
        self._active_hosts = limits.active_hosts
        self._clock = clock
        self._clock_step = ClockStep(clock)
        self._next_refill = 0
        self._costly_until = 0
        self._next_fresh = 0

    @property
    def full(self) -> bool:
        """Whether a new host is to be parked: every place is taken, or enough are and parked hosts
        wait for theirs.
        """
        others_wait = self.parked.any_due and not self.parked.unvisited_first
        return len(self.frontier.hosts) >= (
            min(_REFILL_HOSTS, self._active_hosts) if others_wait else self._active_hosts
        )

    def load(self, row_readers: RowReaders) -> Iterator[pl.DataFrame]:
        """Call `ParkedHosts.load`; the heads are filled from the same tables."""
        self.heads.read_from(row_readers.urls)
        return self.parked.load(row_readers)

    def log_advanced(self, state: LogState) -> None:
        """Read from the live files of this state of the log."""
        if self.parked.row_readers is not None:
            self.parked.row_readers.refresh(state)

    def move(self, row: UrlRow) -> None:
        """Apply a changed due time of a URL to its host, active or parked."""
        if row.id.host_key in self.frontier.hosts:
            self.heads.wait_for(row)
            return
        due = self.agenda.due_at(row)
        if due is not None:
            self.parked.wake_at(row.id.host_key, due)

    def renew(self) -> Iterator[None]:
        """Search the tables for hosts that are due earlier under the current rules, a part at each
        step. (A host that is due later is rescheduled when it is examined.)

        Raises:
            FileNotFoundError: a file was deleted meanwhile: call it again.
        """
        now_ms = self._clock.now_ms()
        for queue in self.frontier.hosts.values():
            self.heads.set_next_due_at(queue, now_ms)
        if self.parked.row_readers is None:
            return
        due, needed = self.agenda.due_columns()
        for frame in self.parked.row_readers.urls.live(("state", *needed)):
            hosts = summary(frame, due).filter(pl.col("due_at").is_not_null())
            self.parked.wake_earlier(hosts)
            yield

    def reached(self, host_key: int) -> None:
        """Examine a host of which `only` admits more URLs than before."""
        queue = self.frontier.hosts.get(host_key)
        if queue is not None:
            self.heads.set_next_due_at(queue, 0)
        else:
            self.parked.wake(host_key)

    def open(self, host_key: int) -> HostQueue | None:
        """Make a parked host active (the next refill reads its URLs).

        None: no such host is known.
        """
        self.open_all([host_key])
        return self.frontier.hosts.get(host_key)

    def open_all(self, host_keys: Iterable[int]) -> None:
        """Open several hosts as `open` does, and read their rows together."""
        active = self.frontier.hosts
        parked = [key for key in host_keys if key not in active and self.parked.knows(key)]
        if parked:
            self.parked.open(parked)
            for key in parked:
                if key in active:
                    self.heads.set_next_due_at(active[key], 0)

    def next_time(self) -> int | None:
        """Return when a refill may find due URLs (ms, monotonic clock).

        None: no parked host will ever be due.
        """
        now = self._clock.monotonic_ms()
        self._apply_clock_step()
        if self.frontier.active.dry:
            return max(now, self._refill_at())
        times = []
        due = self.parked.next_due()
        if due is not None:
            times.append(max(due, self._next_fresh))
        look = self.heads.next_look()
        if look is not None:
            times.append(max(now + max(look - self._clock.now_ms(), 0), self._refill_at()))
        return min(times, default=None)

    def refill(self) -> bool:
        """Activate due hosts, unless the last refill was too recent.

        True if rows were read.

        While parked hosts wait, active hosts with dry heads go to the end of the line, and hosts
        without work, or active for too long, are parked (`lycosa.frontier.scheduler.turnover`). So
        all hosts are served, and neighbours in the files are read together.
        """
        now = self._clock.monotonic_ms()
        if now < self._refill_at():
            return False
        self._apply_clock_step()
        self._next_refill = now + _REFILL_EVERY_MS
        now_ms = self._clock.now_ms()
        dry = self.heads.pop_hosts_to_refill()
        fresh: list[int] = []
        if self.parked.any_due and now >= self._next_fresh:
            for key in self.frontier.active.idle():
                self.parked.park(key)
            self._turnover.shorten_lines(set(dry))
            dry = [key for key in dry if key in self.frontier.hosts]
            fresh = self.parked.due_hosts(
                self._turnover.free_capacity(_REFILL_HOSTS, now, set(dry))
            )
            dry = [key for key in dry if key in self.frontier.hosts]
            if fresh:
                self.parked.open(fresh)
            self._next_fresh = now + max(_REFILL_EVERY_MS, 1_000 * len(fresh) // _REFILL_HOSTS)
            self.frontier.prefer_unvisited(
                self.parked.unvisited_first and self.parked.directory.has_unvisited_due(now_ms)
            )
        keys = dry[:_REFILL_HOSTS]
        self.frontier.active.dry.update(dry[_REFILL_HOSTS:])
        keys += [key for key in fresh if key in self.frontier.hosts]
        if keys:
            self.heads.read(keys, now_ms)
            spent_ms = self._clock.monotonic_ms() - now
            self._costly_until = now + min(round(spent_ms / _REFILL_SHARE), _MAX_REFILL_EVERY_MS)
        return bool(keys)

    def _refill_at(self) -> int:
        """Return when the next refill may be (ms, monotonic clock)."""
        mostly_dry = 2 * len(self.frontier.active.dry) >= len(self.frontier.hosts)
        return self._next_refill if mostly_dry else max(self._next_refill, self._costly_until)

    def _apply_clock_step(self) -> None:
        """Shift the due times of parked hosts after the clock was set back.

        Hosts that are due by a schedule are examined too early by as much: nothing else would find
        their URLs that were visited while the clock was ahead.
        """
        back_ms = self._clock_step.back_ms()
        if not back_ms:
            return
        self.parked.set_back(back_ms)
        self.heads.set_back(back_ms)
        for budget in self.agenda.budgets.values():
            budget.set_back(back_ms)
