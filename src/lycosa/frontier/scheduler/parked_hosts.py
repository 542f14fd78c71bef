"""What rests: the hosts that stand in the tables, and when they are brought to hand.

The frontier holds a bounded number of hosts, each with the head of its queue. Everything else is
rows: committed ones on the shelves, uncommitted ones in the worker's batches. A refill brings in
hosts that are due, has dry heads filled (`lycosa.frontier.scheduler.heads`), and sends hosts back
that have nothing to do. Nothing is lost by sending a host back: its rows are in the tables or on
their way.

Stored times are milliseconds since 1970, the frontier's are of the monotonic clock; the change from
one to the other is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from lycosa.core.clock import Clock, ClockStep
from lycosa.core.records import HostRow, UrlId, UrlRow
from lycosa.fetch.robots_txt import MAX_CRAWL_DELAY_MS
from lycosa.frontier.hosts.directory import NEVER, HostDirectory, HostOrder
from lycosa.frontier.recrawl.due import RecrawlRules
from lycosa.frontier.recrawl.refetch_budget import Budget
from lycosa.frontier.rows.row_reader import HostRowReader, summary
from lycosa.frontier.scheduler.agenda import Agenda
from lycosa.frontier.scheduler.frontier import Frontier
from lycosa.frontier.scheduler.heads import HORIZON_MS, Heads, Pending
from lycosa.frontier.scheduler.queue import HostQueue
from lycosa.frontier.scheduler.reach import Unvisited
from lycosa.frontier.scheduler.turnover import Turnover
from lycosa.store.rows import host_record
from lycosa.store.state import LogState

# also how many that rested come in a second, more than can be asked: after a start all of them
# pause
_REFILL_HOSTS = 2_000
_REFILL_EVERY_MS = 100
_LOOK_AGAIN_MS = 1_000
# a longer one in the tables is of a time when back-off was part of it
_MAX_PAUSE_MS = MAX_CRAWL_DELAY_MS


@dataclass(slots=True, frozen=True)
class RowReaders:
    """The tables that rest hosts and URLs."""

    urls: HostRowReader
    hosts: HostRowReader

    def refresh(self, state: LogState) -> None:
        """Read from the files that count in this state of the log."""
        self.urls.refresh(state.files.get("urls", []))
        self.hosts.refresh(state.files.get("hosts", []))


class ParkedHosts:
    """Brings rows to hand and sends hosts back. Not for several threads at once.

    `rules` says by collection when a visited page is due again; collections that it lacks are left
    alone (`paused`). `depth` gives the least depth at which a URL is known now; `in_flight` whether
    a URL is being fetched. `row_readers` is None while there are no tables. `only`: what this call
    may fetch, if not all that is due. `succeeds`: somebody held the partitions before.
    """

    def __init__(
        self,
        frontier: Frontier,
        directory: HostDirectory,
        *,
        rules: Mapping[str, RecrawlRules],
        active_hosts: int,
        waiting_urls: int,
        least_pause_ms: int = 0,
        succeeds: bool = False,
        clock: Clock,
        pending: Pending,
        depth: Callable[[UrlRow], int],
        in_flight: Callable[[UrlRow], bool],
    ) -> None:
        self.frontier = frontier
        self.directory = directory
        self.row_readers: RowReaders | None = None
        self.agenda = Agenda(rules, clock)
        self.heads = Heads(
            frontier,
            self.agenda,
            waiting_urls=waiting_urls,
            clock=clock,
            pending=pending,
            depth=depth,
            in_flight=in_flight,
        )
        self._active_hosts = active_hosts
        self._least_pause_ms = least_pause_ms
        self._succeeds = succeeds
        self._clock = clock
        self._pending = pending
        self._next_refill = 0
        self._next_fresh = 0
        self._rest_at = NEVER  # no resting host is due before; ms since 1970
        self._rest_at_until = -1
        self._unvisited_first = any(
            order.strategy.unvisited_first for order in frontier.orders.values()
        )
        self._turnover = Turnover(
            frontier,
            self._close,
            active_hosts=active_hosts,
            least_pause_ms=least_pause_ms,
            unvisited_first=self._unvisited_first,
        )
        self._clock_step = ClockStep(clock)

    @property
    def only(self) -> Unvisited | None:
        """What this call may fetch, if not all that is due."""
        return self.agenda.only

    @only.setter
    def only(self, only: Unvisited | None) -> None:
        self.agenda.only = only

    @property
    def budgets(self) -> dict[str, Budget]:
        """By collection; they hold back pages that were visited before."""
        return self.agenda.budgets

    @property
    def room(self) -> int:
        """How many URLs a head may hold now."""
        return self.heads.room

    @property
    def full(self) -> bool:
        """Whether a new host is to rest: every place is taken, or enough are and others wait for
        theirs.
        """
        active = len(self.frontier.hosts)
        others_wait = self._rest_at <= self._clock.now_ms() and not self._unvisited_first
        return active >= (
            min(_REFILL_HOSTS, self._active_hosts) if others_wait else self._active_hosts
        )

    def due_at(self, row: UrlRow) -> int | None:
        """`Agenda.due_at`."""
        return self.agenda.due_at(row)

    def wait_for(self, row: UrlRow) -> None:
        """`Heads.wait_for`."""
        self.heads.wait_for(row)

    def stored(self, identities: Sequence[UrlId]) -> Iterator[UrlRow]:
        """`Heads.stored`."""
        return self.heads.stored(identities)

    def rules_of(self, collection: str) -> RecrawlRules | None:
        """The rules of a collection; None: it is left alone."""
        return self.agenda.rules.get(collection)

    def set_rules(self, collection: str, rules: RecrawlRules) -> None:
        """Other rules for a collection that is worked. Follow it with `renew`, or hosts that rest
        keep their old times.
        """
        if collection in self.agenda.rules:
            self.agenda.rules[collection] = rules

    def usual_pause_ms(self, row: HostRow) -> int:
        """How long a host is left alone after a fetch of which nothing is known but that it was
        made.
        """
        return max(self._least_pause_ms, min(row.delay_ms, _MAX_PAUSE_MS))

    def move(self, row: UrlRow) -> None:
        """When a URL is due has changed: see that it comes at its time, on an active host or on one
        that rests.
        """
        if row.id.host_key in self.frontier.hosts:
            self.wait_for(row)
            return
        due = self.due_at(row)
        slot = self.directory.slot(row.id.host_key)
        if due is not None and slot is not None:
            self.directory.wake(slot, due)
            self._rest_at = min(self._rest_at, due)

    def renew(self) -> Iterator[None]:
        """Look through the tables for hosts that are due earlier under today's rules, a part at
        each step. (What is due later than was thought shows when its host is looked at.)

        Raises:
            FileNotFoundError: a file went away meanwhile: begin again.
        """
        now_ms = self._clock.now_ms()
        for queue in self.frontier.hosts.values():
            self.heads.look_at(queue, now_ms)
        if self.row_readers is None:
            return
        due, needed = self.agenda.due_columns()
        for frame in self.row_readers.urls.live(("state", *needed)):
            hosts = summary(frame, due).filter(pl.col("due_at").is_not_null())
            self.directory.wake_many(hosts["host_key"].to_numpy(), hosts["due_at"].to_numpy())
            self._rest_at_until = -1
            yield

    def refresh(self, state: LogState) -> None:
        """The log has gone on: read from the files that count now."""
        if self.row_readers is not None:
            self.row_readers.refresh(state)

    def load(self, row_readers: RowReaders) -> Iterator[pl.DataFrame]:
        """Take in the hosts of the tables, all of which rest, while the caller goes through what
        this yields: the live rows of `urls`, part by part, with the columns collection, operation,
        host_key, url_key, state and depth.
        """
        self.row_readers = row_readers
        self.heads.row_reader = row_readers.urls
        self.directory.clear()
        due, needed = self.agenda.due_columns()
        for frame in row_readers.urls.live(("state", "depth", *needed)):
            self.directory.extend(summary(frame, due))
            yield frame
        last_visit_at = pl.col("last_visit_at").cast(pl.Int64)
        ahead = (last_visit_at - self._clock.now_ms()).clip(lower_bound=0)  # as in `_take_up`
        self.directory.update(
            frame.filter(pl.col("host") != "").select(
                "host_key",
                "pages",
                next_at=pl.col("not_before").cast(pl.Int64) - ahead.fill_null(0),
                last_visit_at=last_visit_at,
            )
            for frame in self._with_domains(
                row_readers.hosts.live(
                    ("host", "registrable_domain", "pages", "delay", "not_before", "last_visit_at")
                )
            )
        )

    def _with_domains(self, hosts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Passes on rows of `hosts`, and takes up what they say of domains: their rests, and the
        pauses of hosts that are not the only one. Any of those may have been asked at the moment of
        our claim, so its domain counts as asked then.

        A domain's rows share a partition, and a frame cuts none but its first and its last.
        """
        clocks = self.frontier.clocks
        for frame in hosts:
            now_ms, now = self._clock.now_ms(), self._clock.monotonic_ms()
            rests = frame.filter(
                (pl.col("host") == "") & (pl.col("not_before").cast(pl.Int64) > now_ms)
            )
            for domain, until in rests.select(
                "registrable_domain", pl.col("not_before").cast(pl.Int64)
            ).iter_rows():
                clocks.take_up_domain(domain, not_before=until, now_ms=now_ms, monotonic_ms=now)
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
                clocks.take_up_pause(domain, pause, monotonic_ms=now)
            yield frame

    def knows(self, host_key: int) -> bool:
        """Whether a host is known, active or resting."""
        return self.directory.slot(host_key) is not None

    def new_host(self, row: HostRow) -> HostQueue:
        """Take in a host that was not known, and make it active."""
        self.directory.activate(self.directory.add(row.host_key, row.partition))
        queue = self.frontier.open_host(row)
        queue.opened_at = self._clock.monotonic_ms()
        # whoever held the partitions before may have asked it and not lived to say so
        if self._succeeds:
            self._take_up(row)
        return queue

    def rest(self, row: HostRow) -> None:
        """Take in a host that was not known, to rest until there is room for it. It has a URL that
        is due.
        """
        slot = self.directory.add(row.host_key, row.partition)
        self.directory.set(slot, waiting=row.known)
        self._wake(slot)

    def note(self, host_key: int) -> None:
        """A new URL of a resting host was admitted: it is due now."""
        slot = self._slot(host_key)
        self.directory.change(slot, waiting=1)
        self._wake(slot)

    def hush(self) -> None:
        """No resting host is due until it is woken: with `only`, what is due is not yet known."""
        self.directory.hush()
        self._rest_at_until = -1

    def reached(self, host_key: int) -> None:
        """`only` admits more URLs of a host: they are looked for in the tables."""
        queue, slot = self.frontier.hosts.get(host_key), self.directory.slot(host_key)
        if queue is not None:
            self.heads.look_at(queue, 0)
        elif slot is not None:
            self._wake(slot)

    def open(self, host_key: int) -> HostQueue | None:
        """Make a resting host active (its URLs come with the next refill). None: no such host is
        known.
        """
        queue = self.frontier.hosts.get(host_key)
        if queue is None and self.directory.slot(host_key) is not None:
            self._open([host_key])
            queue = self.frontier.hosts.get(host_key)
            if queue is not None:
                self.heads.look_at(queue, 0)
        return queue

    def next_time(self) -> int | None:
        """When a refill may find something that is due, in ms of the monotonic clock; None: nothing
        rests that ever will be.
        """
        now = self._clock.monotonic_ms()
        self._heed_clock()
        if self.frontier.dry:
            return max(now, self._next_refill)
        if now >= self._rest_at_until:
            earliest = self.directory.next_time()
            self._rest_at = NEVER if earliest is None else earliest
            self._rest_at_until = now + _LOOK_AGAIN_MS
            if self._rest_at > self._clock.now_ms():
                self.frontier.unvisited_only = False
        times = []
        if self._rest_at < NEVER:
            times.append(max(self._monotonic(self._rest_at), self._next_fresh))
        look = self.heads.next_look()
        if look is not None:
            times.append(max(self._monotonic(look), self._next_refill))
        return min(times, default=None)

    def refill(self) -> bool:
        """Bring in what is due, if the last refill is not too near. True if anything was read.

        While others wait that rest, hosts whose heads have run dry go to the end of their line, and
        nobody holds a place with nothing to do, or for long (`lycosa.frontier.scheduler.turnover`):
        all get their turn, and neighbours in the files are read together.
        """
        now = self._clock.monotonic_ms()
        if now < self._next_refill:
            return False
        self._heed_clock()
        self._next_refill = now + _REFILL_EVERY_MS
        now_ms = self._clock.now_ms()
        dry = self.heads.take_dry()
        fresh: list[int] = []
        if self._rest_at <= now_ms and now >= self._next_fresh:
            for key in [key for key, queue in self.frontier.hosts.items() if queue.idle]:
                self._close(key)
            self._turnover.shorten_lines(set(dry))
            dry = [key for key in dry if key in self.frontier.hosts]
            fresh = self._due_hosts(now_ms, self._turnover.make_room(_REFILL_HOSTS, now, set(dry)))
            dry = [key for key in dry if key in self.frontier.hosts]
            if fresh:
                self._open(fresh)
            self._next_fresh = now + max(_REFILL_EVERY_MS, 1_000 * len(fresh) // _REFILL_HOSTS)
            self.frontier.unvisited_only = self._unvisited_first and self.directory.unvisited_rest(
                now_ms
            )
        keys = dry[:_REFILL_HOSTS]
        self.frontier.dry.update(dry[_REFILL_HOSTS:])
        keys += [key for key in fresh if key in self.frontier.hosts]
        if keys:
            self.heads.read(keys, now_ms)
        return bool(keys)

    def _heed_clock(self) -> None:
        """When the date was set back, what rests waits no longer for it: hosts that were due would
        not be until it is that late again.

        Those that are due by a schedule are looked at too early by as much: of their URLs that were
        visited while the clock was ahead nothing else would tell.
        """
        back_ms = self._clock_step.back_ms()
        if not back_ms:
            return
        self.directory.set_back(back_ms)
        self.heads.set_back(back_ms)
        if self._rest_at < NEVER:
            self._rest_at -= back_ms
        for budget in self.budgets.values():
            budget.set_back(back_ms)
        self._rest_at_until = -1

    # -- hosts
    # ------------------------------------------------------------

    def _wake(self, slot: int) -> None:
        """A resting host is due now."""
        now_ms = self._clock.now_ms()
        self.directory.wake(slot, now_ms)
        self._rest_at = min(self._rest_at, now_ms)
        if self._unvisited_first and not self.directory.visited[slot]:
            self.frontier.unvisited_only = True

    def _due_hosts(self, now_ms: int, limit: int) -> list[int]:
        order = HostOrder.SERVERS if self._unvisited_first else HostOrder.TIME
        slots = self.directory.pick(now_ms, HORIZON_MS, limit, order)
        return [int(key) for key in self.directory.host_key[slots]]

    def _open(self, host_keys: Sequence[int]) -> None:
        """Make resting hosts active; politeness goes on where it stood."""
        missing = []
        rows = {}
        for key in host_keys:
            row = self._pending.host(key)
            if row is None:
                missing.append(key)
            else:
                rows[key] = row
        if missing and self.row_readers is not None:
            rows.update((row.host_key, row) for row in self._shelved_hosts(missing))
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
                # a row that the tables lack: nothing to ask
                self.directory.set(slot, next_at=NEVER)
                continue
            row.known, row.visited = url_count, done
            self.frontier.open_host(row).opened_at = self._clock.monotonic_ms()
            self._take_up(row)
            self.directory.activate(slot)

    def _take_up(self, row: HostRow) -> None:
        now_ms = self._clock.now_ms()
        self.frontier.clocks.take_up(
            row.host_key,
            row.registrable_domain,
            self.usual_pause_ms(row),
            # a visit to come: the clock was set back since
            not_before=row.not_before - max(row.last_visit_at - now_ms, 0),
            now_ms=now_ms,
            monotonic_ms=self._clock.monotonic_ms(),
        )

    def _shelved_hosts(self, keys: list[int]) -> Iterator[HostRow]:
        assert self.row_readers is not None
        host_keys = np.array(keys, np.uint64)
        partitions = self.directory.partition[self.directory.slots(host_keys)]
        frame = self.row_readers.hosts.rows(partitions, host_keys, pl.col("host") != "")
        for row in frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows():
            yield host_record(row)

    def _close(self, host_key: int, parked_ms: int = HORIZON_MS, *, away_ms: int = 0) -> None:
        """Send a host back. `parked_ms`: how long it stays away if it waits for its domain;
        `away_ms`: in any case.
        """
        queue = self.frontier.close_host(host_key)
        due = [at for at in (queue.next_due_at,) if at is not None]
        for head in queue.heads.values():
            if not head.complete or head.waits:
                due.append(0)
            due += [self._wall(at) for line in head.lines for at, _, _ in line.later[:1]]
        row = queue.row
        ready = self._wall(self.frontier.clocks.let_go(host_key))
        row.not_before = max(row.not_before, ready)
        # its domain has more hosts than it can be asked for; in its line it would stand for long
        if queue.parked:
            ready = max(ready, self._clock.now_ms() + parked_ms)
        next_at = max(min(due), ready, self._clock.now_ms() + away_ms) if due else NEVER
        self._rest_at = min(self._rest_at, next_at)
        slot = self._slot(host_key)
        self.directory.activate(slot, False)
        self.directory.set(
            slot,
            next_at=next_at,
            waiting=row.known,
            visited=row.visited,
            pages=row.pages,
            last_visit_at=row.last_visit_at,
        )

    def _slot(self, host_key: int) -> int:
        slot = self.directory.slot(host_key)
        assert slot is not None
        return slot

    def _monotonic(self, at_ms: int) -> int:
        """A stored time on the monotonic clock; what is past is now at the latest."""
        return self._clock.monotonic_ms() + max(at_ms - self._clock.now_ms(), 0)

    def _wall(self, monotonic_ms: int) -> int:
        return self._clock.now_ms() + monotonic_ms - self._clock.monotonic_ms()
