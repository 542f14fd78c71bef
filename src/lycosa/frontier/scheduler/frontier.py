"""Selects the next URL to fetch: active hosts, their schedule and politeness clocks.

Invariants
- A host is fetched from only when its clocks allow (`lycosa.frontier.politeness.clocks`: its own,
  its registrable domain's, its address's), which only `finished` and `delay` set; and not while it
  is reserved.
- A host is scheduled at most once, at the earliest time at which it may be fetched from and has a
  URL that is due (`lycosa.frontier.scheduler.host_schedule`).
- Memory is within the given limits: inactive hosts are in the tables
  (`lycosa.frontier.scheduler.parked_hosts`).
Times are milliseconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from lycosa.core.host_row import HostRow
from lycosa.core.records import UrlRow
from lycosa.frontier.politeness.clocks import BUSY, ClockRules, Clocks
from lycosa.frontier.scheduler.active_hosts import ActiveHosts
from lycosa.frontier.scheduler.host_schedule import HostSchedule, WaitingLines
from lycosa.frontier.scheduler.queue import CollectionOrder, HostQueue


class Frontier:
    """Returns URLs of the active hosts. The arguments are those of `ActiveHosts`."""

    def __init__(
        self,
        clocks: Clocks | None = None,
        orders: Mapping[str, CollectionOrder] | None = None,
        *,
        due_since: Callable[[UrlRow], int] = lambda row: row.visited_at,
        row_of_collection: Callable[[UrlRow, str], UrlRow | None] = lambda row, collection: None,
    ) -> None:
        self.clocks = Clocks(ClockRules()) if clocks is None else clocks
        self.active = ActiveHosts(orders or {}, due_since, row_of_collection)
        self.hosts = self.active.queues
        """The active hosts by host key."""
        self._schedule = HostSchedule(self.active.queues, self.clocks)
        # parked hosts come before any visited one: URLs of unvisited hosts go first
        self.unvisited_only = False

    def __len__(self) -> int:
        """Return the number of URLs in the heads."""
        return len(self.active)

    @property
    def domain_lines(self) -> WaitingLines:
        """The hosts that wait for a place in their registrable domain."""
        return self._schedule.domain_lines

    def open_host(self, row: HostRow) -> HostQueue:
        """Make a host active, or return its queue if it is active already."""
        return self.active.open(row)

    def ready_at(self, host_key: int) -> int:
        """Return when a host may be fetched from; `clocks.BUSY` if a fetch must end first."""
        row = self.hosts[host_key].row
        return self.clocks.ready_at(host_key, row.registrable_domain, row.ip)

    def close_host(self, host_key: int) -> HostQueue:
        """Remove an active host with the URLs of its heads (the tables contain them too)."""
        self._schedule.leave_line(host_key)
        return self.active.close(host_key)

    def add(self, row: UrlRow, not_before: int = 0) -> None:
        """Queue a URL of an active host, to be fetched at `not_before` or later. A URL that is
        queued already moves to its new place.
        """
        self._schedule.schedule(self.active.add(row, not_before), waits=not_before <= 0)

    def offer(self, rows: Sequence[UrlRow], capacity: int) -> None:
        """Queue new URLs of one active host and collection that belong into the head; the head is
        closed at the others. `capacity`: of a head, in URLs.
        """
        queue = self.hosts[rows[0].id.host_key]
        if self.active.offer(queue, rows, capacity):
            self._schedule.schedule(queue, waits=True)

    def next(self, now: int, closed: Collection[str] = ()) -> tuple[UrlRow, ...]:
        """Return the next URL that may be fetched now, in every collection that has it queued.

        Empty: nothing is due. The fetch counts as in flight until `finished`. `closed`: collections
        that may not fetch now.
        """
        postponed: list[HostQueue] = []
        rows: tuple[UrlRow, ...] = ()
        if closed and self.active.orders and all(name in closed for name in self.active.orders):
            return ()  # avoids looking at every host that is due
        self._schedule.wake_lines(now)
        while not rows and (queue := self._schedule.next_host(now, closed)) is not None:
            key, domain = queue.row.host_key, queue.row.registrable_domain
            if self.unvisited_only and queue.row.visited:
                postponed.append(queue)
                self._schedule.leave_line(key)
                if len(self.active.orders) == 1:
                    break  # the following ones are visited too
                continue
            if not queue.held and self.clocks.ready_at(key, domain, queue.row.ip) <= now:
                self._schedule.leave_line(key)
                rows = self.active.pop(queue, now, closed)
                if rows:
                    self.start(key, now)
                if not rows and closed and any(head.waits for head in queue.heads.values()):
                    self._schedule.defer(queue, now)
                else:
                    self._schedule.schedule(queue)
                self._schedule.release_address(queue.row.ip, now)
            elif queue.held or self.clocks.host_ready_at(key) > now:
                self._schedule.schedule(queue)
            elif self.clocks.domain_ready_at(domain) > now:
                self._schedule.wait_for_domain(queue)
            else:
                self._schedule.wait_for_address(queue, now)
            self._schedule.wake(domain)
        for queue in postponed:
            self._schedule.schedule(queue)
        return rows

    def undo(self, host_key: int) -> None:
        """Undo `next` for a fetch that is not made."""
        queue = self.hosts[host_key]
        queue.serve(0)
        address = queue.in_flight.pop()
        self.clocks.undone(host_key, queue.row.registrable_domain, address)
        self._schedule.release_address(address, BUSY)
        self._schedule.schedule(queue)
        self._schedule.wake(queue.row.registrable_domain)

    def start(self, host_key: int, now: int) -> None:
        """Count a fetch that is not from `next`."""
        queue = self.hosts[host_key]
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
        """Record the end of a fetch; pause the host (`Clocks.finished`)."""
        queue = self.hosts[host_key]
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
        # before the host itself: equal ones in the order of scheduling
        self._schedule.release_address(address, now)
        self._schedule.schedule(queue)
        self._schedule.wake(domain)

    def start_unqueued(self, host_key: int, domain: str, now: int) -> bool:
        """Count a fetch that is not from a queue; its host may be parked. Pass the result to
        `finish_unqueued`.
        """
        if host_key in self.hosts:
            self.start(host_key, now)
            return True
        self.clocks.started(host_key, domain, now)
        return False

    def finish_unqueued(
        self, host_key: int, domain: str, now: int, pause: int, *, queued: bool
    ) -> None:
        """Record the end of a fetch of `start_unqueued`; pause the host."""
        if queued:  # a host with a fetch in flight is never parked
            self.finished(host_key, now, pause)
            return
        self.clocks.finished(host_key, domain, now, pause)
        if host_key in self.hosts:
            self._schedule.schedule(self.hosts[host_key])
        self._schedule.wake(domain)

    def delay(self, host_key: int, now: int, until: int) -> None:
        """Pause the host until `until`."""
        self.clocks.delay(host_key, now, until)
        self._schedule.schedule(self.hosts[host_key])

    def hold(self, host_key: int) -> None:
        """Fetch nothing from the host until `release` (its robots.txt is being fetched)."""
        self.hosts[host_key].hold()

    def release(self, host_key: int) -> None:
        queue = self.hosts[host_key]
        queue.release()
        self._schedule.schedule(queue)

    def prefer_unvisited(self, only: bool) -> None:
        """Return URLs of unvisited hosts only."""
        self.unvisited_only = only

    def next_time(self) -> int | None:
        """Return when something may be due at the earliest; None: every host with URLs has a fetch
        in flight.
        """
        return self._schedule.next_time()
