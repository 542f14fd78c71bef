"""What rests: the hosts and URLs that stand in the tables, and when they are brought to hand.

The frontier holds a bounded number of hosts, each with the head of its queue. Everything else is rows: committed ones on the
shelves, uncommitted ones in the worker's batches. A refill brings in hosts that are due, gives dry heads their next URLs, and
sends hosts back that have nothing to do. Nothing is lost by sending a host back: its rows are in the tables or on their way.

Stored times are milliseconds since 1970, the frontier's are of the monotonic clock; the change from one to the other is here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from lycosa.core.clock import Clock
from lycosa.core.records import HostRow, UrlId, UrlRow, UrlState
from lycosa.fetch.robots import MAX_CRAWL_DELAY_MS
from lycosa.frontier.budget import Budget
from lycosa.frontier.directory import NEVER, HostDirectory
from lycosa.frontier.directory import Order as HostOrder
from lycosa.frontier.domain_clock import BUSY
from lycosa.frontier.frontier import Frontier, HostQueue
from lycosa.frontier.reach import Unvisited
from lycosa.frontier.recrawl import RecrawlRules, due_at, due_expr
from lycosa.frontier.shelf import Shelf, summary
from lycosa.store.rows import host_record, url_record
from lycosa.store.state import LogState
from lycosa.url.scope import hostname

HORIZON_MS = 600_000
"""What is due within ten minutes belongs into a head; a host that rests longer than that rests in the tables."""

_REFILL_HOSTS = 2_000  # also how many that rested come in a second, more than can be asked: after a start all of them pause
_REFILL_EVERY_MS = 100
_ROOM_LEAST = 2
_SHARE_OF_LARGE = 200  # of a host with very many URLs each refill takes this share, so that reading it stays cheap a URL
_MOST_OF_LARGE = 1_000
_LOOK_AGAIN_MS = 1_000
_MOST_STALE = 1_000
_LONGEST_PAUSE_MS = MAX_CRAWL_DELAY_MS  # a longer one in the tables is of a time when back-off was part of it


@dataclass(slots=True, frozen=True)
class Shelves:
    """The tables that rest hosts and URLs."""

    urls: Shelf
    hosts: Shelf

    def refresh(self, state: LogState) -> None:
        """Read from the files that count in this state of the log."""
        self.urls.refresh(state.files.get("urls", []))
        self.hosts.refresh(state.files.get("hosts", []))


@dataclass(slots=True, frozen=True)
class Pending:
    """What stands in the worker's batches and not yet in the tables, by host; the newest version of each row."""

    urls: Callable[[int], Iterable[UrlRow]]
    host: Callable[[int], HostRow | None]


class Reserve:
    """Brings rows to hand and sends hosts back. Not for several threads at once.

    `rules` says by collection when a visited page is due again; collections that it lacks are left alone (`paused`).
    `depth` gives the least depth at which a URL is known now; `in_flight` whether a URL is being fetched. `shelves` is
    None while there are no tables. `only`: what this call may fetch, if not all that is due.
    `succeeds`: somebody held the partitions before.
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
        self.shelves: Shelves | None = None
        self.only: Unvisited | None = None
        self._rules = dict(rules)
        self.budgets: dict[str, Budget] = {}  # by collection; they hold back pages that were visited before
        self._active_hosts = active_hosts
        self._waiting_urls = waiting_urls
        self._least_pause_ms = least_pause_ms
        self._succeeds = succeeds
        self._clock = clock
        self._pending = pending
        self._depth = depth
        self._in_flight = in_flight
        self._next_refill = 0
        self._next_fresh = 0
        self._wakes: list[tuple[int, int]] = []  # heap of (next_due_at, host_key); valid while it is the host's
        self._rest_at = NEVER  # no resting host is due before; ms since 1970
        self._rest_at_until = -1
        self._unvisited_first = any(order.strategy.unvisited_first for order in frontier.orders.values())

    @property
    def room(self) -> int:
        """How many URLs a head may hold now."""
        return max(_ROOM_LEAST, self._waiting_urls // max(1, len(self.frontier.hosts)))

    @property
    def full(self) -> bool:
        """Whether a new host is to rest: every place is taken, or enough are and others wait for theirs."""
        active = len(self.frontier.hosts)
        others_wait = self._rest_at <= self._clock.now_ms() and not self._unvisited_first
        return active >= (min(_REFILL_HOSTS, self._active_hosts) if others_wait else self._active_hosts)

    def due_at(self, row: UrlRow) -> int | None:
        """When a URL is to be fetched, ms since 1970 (0: now); None: never, as things are."""
        rules = self._rules.get(row.collection)
        if rules is None or (self.only is not None and not self.only.admits(row)):
            return None
        if row.state == UrlState.KNOWN:
            return row.not_before
        return due_at(
            rules,
            state=row.state,
            visited_at=row.visited_at,
            not_before=row.not_before,
            fails=row.fails,
            depth=row.depth,
            importance=row.importance,
            change_rate=row.change_rate,
            claim=row.claim,
            silence=row.silence,
        )

    def wait_for(self, row: UrlRow) -> None:
        """A URL of an active host changed: it waits here if it is due soon and there is room, else in the tables."""
        due = self.due_at(row)
        if due is None:
            return
        queue = self.frontier.hosts[row.id.host_key]
        wait = due - self._clock.now_ms()
        head = queue.heads.get(row.collection)
        earliest = self._earliest_of(row, due)
        if wait <= HORIZON_MS and earliest == due and (head is None or len(head.rows) < self.room):
            self.frontier.add(row, self._clock.monotonic_ms() + wait if wait > 0 else 0)
        else:
            self._look_at(queue, earliest)

    def move(self, row: UrlRow) -> None:
        """When a URL is due has changed: see that it comes at its time, on an active host or on one that rests."""
        if row.id.host_key in self.frontier.hosts:
            self.wait_for(row)
            return
        due = self.due_at(row)
        slot = self.directory.slot(row.id.host_key)
        if due is not None and slot is not None:
            self.directory.wake(slot, due)
            self._rest_at = min(self._rest_at, due)

    def rules_of(self, collection: str) -> RecrawlRules | None:
        """The rules of a collection; None: it is left alone."""
        return self._rules.get(collection)

    def set_rules(self, collection: str, rules: RecrawlRules) -> None:
        """Other rules for a collection that is worked. Follow it with `renew`, or hosts that rest keep their old times."""
        if collection in self._rules:
            self._rules[collection] = rules

    def renew(self) -> Iterator[None]:
        """Look through the tables for hosts that are due earlier under today's rules, a part at each step. (What is due later than
        was thought shows when its host is looked at.)

        Raises:
            FileNotFoundError: a file went away meanwhile: begin again.
        """
        now_ms = self._clock.now_ms()
        for queue in self.frontier.hosts.values():
            self._look_at(queue, now_ms)
        if self.shelves is None:
            return
        due = {collection: due_expr(rules) for collection, rules in self._rules.items()}
        needed = {name for expression in due.values() for name in expression.meta.root_names()}
        for frame in self.shelves.urls.live(("state", *needed)):
            hosts = summary(frame, due).filter(pl.col("due_at").is_not_null())
            self.directory.wake_many(hosts["host_key"].to_numpy(), hosts["due_at"].to_numpy())
            self._rest_at_until = -1
            yield

    def refresh(self, state: LogState) -> None:
        """The log has gone on: read from the files that count now."""
        if self.shelves is not None:
            self.shelves.refresh(state)

    def load(self, shelves: Shelves) -> Iterator[pl.DataFrame]:
        """Take in the hosts of the tables, all of which rest, while the caller goes through what this yields: the live rows of
        `urls`, part by part, with the columns collection, operation, host_key, url_key, state and depth."""
        self.shelves = shelves
        self.directory.clear()
        due = {collection: due_expr(rules) for collection, rules in self._rules.items()}
        needed = {name for expression in due.values() for name in expression.meta.root_names()}
        for frame in shelves.urls.live(("state", "depth", *needed)):
            self.directory.extend(summary(frame, due))
            yield frame
        self.directory.update(
            frame.filter(pl.col("host") != "").select(
                "host_key", "pages", next_at=pl.col("not_before").cast(pl.Int64), last_visit_at=pl.col("last_visit_at").cast(pl.Int64)
            )
            for frame in self._with_domains(
                shelves.hosts.live(("host", "registrable_domain", "pages", "delay", "not_before", "last_visit_at"))
            )
        )

    def _with_domains(self, hosts: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Passes on rows of `hosts`, and takes up what they say of domains: their rests, and the pauses of hosts that are not the
        only one. Any of those may have been asked at the moment of our claim, so its domain counts as asked then.

        A domain's rows share a partition, and a frame cuts none but its first and its last.
        """
        clocks = self.frontier.clocks
        for frame in hosts:
            now_ms, now = self._clock.now_ms(), self._clock.monotonic_ms()
            rests = frame.filter((pl.col("host") == "") & (pl.col("not_before").cast(pl.Int64) > now_ms))
            for domain, until in rests.select("registrable_domain", pl.col("not_before").cast(pl.Int64)).iter_rows():
                clocks.take_up_domain(domain, not_before=until, now_ms=now_ms, monotonic_ms=now)
            several = (pl.len().over("registrable_domain") > 1) | pl.col("partition").is_in([frame["partition"][0], frame["partition"][-1]])
            slow = frame.filter(pl.col("host") != "").filter(several).filter(pl.col("delay") > self._least_pause_ms)
            for domain, pause in slow.group_by("registrable_domain").agg(pl.col("delay").max()).iter_rows():
                clocks.take_up_pause(domain, pause, monotonic_ms=now)
            yield frame

    def knows(self, host_key: int) -> bool:
        """Whether a host is known, active or resting."""
        return self.directory.slot(host_key) is not None

    def new_host(self, row: HostRow) -> HostQueue:
        """Take in a host that was not known, and make it active."""
        self.directory.activate(self.directory.add(row.host_key, row.partition))
        queue = self.frontier.open_host(row)
        if self._succeeds:  # whoever held the partitions before may have asked it and not lived to say so
            self._take_up(row)
        return queue

    def rest(self, row: HostRow) -> None:
        """Take in a host that was not known, to rest until there is room for it. It has a URL that is due."""
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
            self._look_at(queue, 0)
        elif slot is not None:
            self._wake(slot)

    def open(self, host_key: int) -> HostQueue | None:
        """Make a resting host active (its URLs come with the next refill). None: no such host is known."""
        queue = self.frontier.hosts.get(host_key)
        if queue is None and self.directory.slot(host_key) is not None:
            self._open([host_key])
            queue = self.frontier.hosts.get(host_key)
            if queue is not None:
                self._look_at(queue, 0)
        return queue

    def stored(self, identities: Sequence[UrlId]) -> Iterator[UrlRow]:
        """The rows of single URLs as the tables hold them, in all collections. (What is at hand may be newer.)"""
        if self.shelves is None or not identities:
            return
        frame = self.shelves.urls.find(
            np.array([identity.partition for identity in identities], np.uint16),
            np.array([identity.host_key for identity in identities], np.uint64),
            np.array([identity.url_key for identity in identities], np.uint64),
        )
        wanted = {identity.url_key for identity in identities}
        for row in frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows():
            if row[2] in wanted:
                yield url_record(row, hostname(row[3]))

    def next_time(self) -> int | None:
        """When a refill may find something that is due, in ms of the monotonic clock; None: nothing rests that ever will be."""
        now = self._clock.monotonic_ms()
        if self.frontier.dry:
            return max(now, self._next_refill)
        if now >= self._rest_at_until:
            earliest = self.directory.next_time()
            self._rest_at = NEVER if earliest is None else earliest
            self._rest_at_until = now + _LOOK_AGAIN_MS
            if self._rest_at > self._clock.now_ms():
                self.frontier.unvisited_only = False
        while self._wakes and not self._valid_wake(*self._wakes[0]):
            heapq.heappop(self._wakes)
        times = []
        if self._rest_at < NEVER:
            times.append(max(self._monotonic(self._rest_at), self._next_fresh))
        if self._wakes:
            times.append(max(self._monotonic(self._wakes[0][0]), self._next_refill))
        return min(times, default=None)

    def refill(self) -> bool:
        """Bring in what is due, if the last refill is not too near. True if anything was read.

        While others wait that rest, hosts whose heads have run dry go to the end of their line, and nobody holds a place with
        nothing to do: all get their turn, and neighbours in the files are read together.
        """
        now = self._clock.monotonic_ms()
        if now < self._next_refill:
            return False
        self._next_refill = now + _REFILL_EVERY_MS
        now_ms = self._clock.now_ms()
        dry = self._dry(now, now_ms)
        fresh: list[int] = []
        if self._rest_at <= now_ms and now >= self._next_fresh:
            for key in [key for key, queue in self.frontier.hosts.items() if queue.idle]:
                self._close(key)
            dry = [key for key in dry if key in self.frontier.hosts]
            fresh = self._due_hosts(now_ms, self._make_room(_REFILL_HOSTS, now, set(dry)))
            self._open(fresh)
            self._next_fresh = now + max(_REFILL_EVERY_MS, 1_000 * len(fresh) // _REFILL_HOSTS)
            self.frontier.unvisited_only = self._unvisited_first and self.directory.unvisited_rest(now_ms)
        keys = dry[:_REFILL_HOSTS]
        self.frontier.dry.update(dry[_REFILL_HOSTS:])
        keys += [key for key in fresh if key in self.frontier.hosts]
        if keys:
            self._read(keys, now_ms)
        return bool(keys)

    def close_idle(self) -> None:
        """Send back every host that has nothing to do now (before the counts of a resting frontier are asked for)."""
        for key in [key for key, queue in self.frontier.hosts.items() if queue.idle]:
            self._close(key)

    # -- hosts --------------------------------------------------------------------------------------------------------

    def _dry(self, now: int, now_ms: int) -> list[int]:
        """The active hosts that the tables have something for now; they count as dry no more."""
        while self._wakes and self._wakes[0][0] <= now_ms:
            at, key = heapq.heappop(self._wakes)
            if self._valid_wake(at, key):
                self.frontier.dry.add(key)
        dry = []
        for key in self.frontier.dry:
            ready_at = self.frontier.clocks.host_ready_at(key)
            if ready_at >= BUSY or ready_at <= now + HORIZON_MS:
                dry.append(key)
            else:
                self._look_at(self.frontier.hosts[key], self._wall(ready_at))  # it rests for long
        self.frontier.dry.clear()
        return dry

    def _look_at(self, queue: HostQueue, at_ms: int) -> None:
        """See that an active host is looked at again at this time at the latest."""
        if queue.next_due_at is None or at_ms < queue.next_due_at:
            queue.next_due_at = at_ms
            heapq.heappush(self._wakes, (at_ms, queue.row.host_key))
            if len(self._wakes) > _MOST_STALE + 2 * len(self.frontier.hosts):
                self._wakes = [(each.next_due_at, key) for key, each in self.frontier.hosts.items() if each.next_due_at is not None]
                heapq.heapify(self._wakes)

    def _valid_wake(self, at_ms: int, host_key: int) -> bool:
        queue = self.frontier.hosts.get(host_key)
        return queue is not None and queue.next_due_at == at_ms

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

    def _make_room(self, wanted: int, now: int, kept: Container[int]) -> int:
        """Send hosts back until `wanted` more fit, if so many can go; gives back how many fit.

        First go those that rest for long; then those that stand in their domain's line: a domain of very many hosts must not
        take all places; and for a strategy that wants a page of every host first, those that gave one.
        """
        hosts = self.frontier.hosts
        free = self._active_hosts - len(hosts)
        if free < wanted:
            quiet = [(key, queue) for key, queue in hosts.items() if not queue.in_flight and not queue.held and key not in kept]
            resting = [key for key, _ in quiet if self.frontier.clocks.host_ready_at(key) > now + HORIZON_MS]
            parked = [key for key, queue in quiet if queue.parked]
            visited = [key for key, queue in quiet if queue.row.visited] if self._unvisited_first else []
            for key in dict.fromkeys([*resting, *parked, *visited]):
                if free >= wanted:
                    break
                self._close(key)
                free += 1
        return max(0, min(free, wanted))

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
        if missing and self.shelves is not None:
            rows.update((row.host_key, row) for row in self._shelved_hosts(missing))
        for key in host_keys:
            slot = self._slot(key)
            row = rows.get(key)
            if row is None:
                self.directory.set(slot, next_at=NEVER)  # a row that the tables lack: nothing to ask
                continue
            row.known, row.visited = int(self.directory.waiting[slot]), int(self.directory.visited[slot])
            self.frontier.open_host(row)
            self._take_up(row)
            self.directory.activate(slot)

    def _take_up(self, row: HostRow) -> None:
        self.frontier.clocks.take_up(
            row.host_key,
            row.registrable_domain,
            max(self._least_pause_ms, min(row.delay_ms, _LONGEST_PAUSE_MS)),
            not_before=row.not_before,
            now_ms=self._clock.now_ms(),
            monotonic_ms=self._clock.monotonic_ms(),
        )

    def _shelved_hosts(self, keys: list[int]) -> Iterator[HostRow]:
        assert self.shelves is not None
        partitions = self.directory.partition[[self._slot(key) for key in keys]]
        frame = self.shelves.hosts.rows(partitions, np.array(keys, np.uint64), pl.col("host") != "")
        for row in frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows():
            yield host_record(row)

    def _close(self, host_key: int) -> None:
        queue = self.frontier.close_host(host_key)
        due = [at for at in (queue.next_due_at,) if at is not None]
        waiting = 0
        for head in queue.heads.values():
            waiting += len(head.rows)
            if not head.complete or head.waiting:
                due.append(0)
            due += [self._wall(at) for at, _, _ in head.later[:1]]
        row = queue.row
        ready = self._wall(self.frontier.clocks.let_go(host_key))
        row.not_before = max(row.not_before, ready)
        if queue.parked:  # its domain has more hosts than it can be asked for; in its line it would stand for long
            ready = max(ready, self._clock.now_ms() + HORIZON_MS)
        next_at = max(min(due), ready) if due else NEVER
        self._rest_at = min(self._rest_at, next_at)
        slot = self._slot(host_key)
        self.directory.activate(slot, False)
        self.directory.set(slot, next_at=next_at, waiting=row.known, visited=row.visited, pages=row.pages, last_visit_at=row.last_visit_at)

    def _slot(self, host_key: int) -> int:
        slot = self.directory.slot(host_key)
        assert slot is not None
        return slot

    # -- URLs ---------------------------------------------------------------------------------------------------------

    def _read(self, host_keys: Sequence[int], now_ms: int) -> None:
        """Give these active hosts the heads of their queues, from the tables and the batches."""
        horizon = now_ms + HORIZON_MS
        room = max(_ROOM_LEAST, (self._waiting_urls - len(self.frontier)) // len(host_keys))
        pending = {key: self._pending_rows(key) for key in host_keys}
        taken: dict[tuple[int, str], list[UrlRow]] = {}
        more: set[tuple[int, str]] = set()
        for key in host_keys:
            queue = self.frontier.hosts[key]
            queue.next_due_at = None
            for row in pending[key].values():
                self._take(row, horizon, taken)
        if self.shelves is not None:
            for keys, limit in self._portions(host_keys, room):
                extra = max(len(pending[key]) for key in keys)
                asked = limit + extra + 1  # so many of them may be outdated by pending rows
                for collection, rules in self._rules.items():
                    given: Counter[int] = Counter()
                    for row in self._shelved(keys, collection, rules, horizon, asked, extra + 1):
                        given[row.id.host_key] += self._is_near(row, horizon)
                        if (collection, row.operation, row.id.url_key) not in pending[row.id.host_key]:
                            self._take(row, horizon, taken)
                    more.update((key, collection) for key, number in given.items() if number >= asked)
        now = self._clock.monotonic_ms()
        for (key, collection), rows in taken.items():
            self._fill(self.frontier.hosts[key], collection, rows, room, (key, collection) in more, now, now_ms)
        for key in host_keys:
            for collection in {*self.frontier.hosts[key].heads, *(name for host, name in more if host == key)}:
                if (key, collection) not in taken:
                    self.frontier.close_head(key, collection, () if (key, collection) in more else None)

    def _take(self, row: UrlRow, horizon: int, taken: dict[tuple[int, str], list[UrlRow]]) -> None:
        due = self.due_at(row)
        if due is None:
            return
        earliest = self._earliest_of(row, due)
        if earliest <= horizon and earliest == due:
            taken.setdefault((row.id.host_key, row.collection), []).append(row)
            return
        self._look_at(self.frontier.hosts[row.id.host_key], earliest)

    def _is_near(self, row: UrlRow, horizon: int) -> bool:
        """Whether a head may hold a URL now."""
        due = self.due_at(row)
        return due is not None and due <= horizon and self._earliest_of(row, due) == due

    def _earliest_of(self, row: UrlRow, due_at: int) -> int:
        """When a URL that is due may be fetched as far as its collection's budget goes."""
        budget = self.budgets.get(row.collection)
        return due_at if budget is None or row.state == UrlState.KNOWN else budget.earliest(due_at)

    def _portions(self, host_keys: Sequence[int], room: int) -> Iterator[tuple[list[int], int]]:
        """Hosts that are read together, and how many URLs each may give. A host with very many gives more at once."""
        hosts = self.frontier.hosts
        large = [key for key in host_keys if hosts[key].row.known > room * _SHARE_OF_LARGE]
        for key in large:
            yield [key], min(hosts[key].row.known // _SHARE_OF_LARGE, _MOST_OF_LARGE)
        rest = [key for key in host_keys if key not in set(large)]
        if rest:
            yield rest, room

    def _shelved(self, keys: list[int], collection: str, rules: RecrawlRules, horizon: int, limit: int, far: int) -> Iterator[UrlRow]:
        """The first rows of each host that are due, then the `far` that are due next."""
        assert self.shelves is not None
        due = due_expr(rules)
        wanted = due.is_not_null() if self.only is None else due.is_not_null() & self.only.condition()
        strategy = self.frontier.order(collection).strategy
        budget = self.budgets.get(collection)
        if budget is not None and not budget.open:  # what the budget holds back comes after what may be fetched
            later = pl.when(pl.col("state") == UrlState.KNOWN).then(due).otherwise(budget.earliest_expr(due))
            near = (due <= horizon) & (later <= due)
        else:
            later, near = due, due <= horizon
        order = [pl.when(near).then(0).otherwise(later)]
        order += [-pl.col(name).cast(pl.Float64) if down else pl.col(name).cast(pl.Float64) for name, down in strategy.columns]
        partitions = np.array([self.frontier.hosts[key].row.partition for key in keys], np.uint16)
        frame = self.shelves.urls.rows(
            partitions,
            np.array(keys, np.uint64),
            (pl.col("collection") == collection) & wanted,
            order=order,
            limit=limit + far,
            near=near,
            far=far,
        )
        for row in frame.with_columns(cs.datetime().dt.epoch("ms")).iter_rows():
            yield url_record(row, hostname(row[3]))

    def _fill(self, queue: HostQueue, collection: str, rows: list[UrlRow], room: int, more: bool, now: int, now_ms: int) -> None:
        rank = self.frontier.order(collection).strategy.rank
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
            wait = (self.due_at(row) or 0) - now_ms
            self.frontier.add(row, now + wait if wait > 0 else 0)
        closed_at = rank(wanted[len(kept)]) if len(wanted) > len(kept) else (rank(kept[-1]) if kept else ()) if more else None
        self.frontier.close_head(queue.row.host_key, collection, closed_at)

    def _pending_rows(self, host_key: int) -> dict[tuple[str, str, int], UrlRow]:
        return {(row.collection, row.operation, row.id.url_key): row for row in self._pending.urls(host_key)}

    def _monotonic(self, at_ms: int) -> int:
        """A stored time on the monotonic clock; what is past is now at the latest."""
        return self._clock.monotonic_ms() + max(at_ms - self._clock.now_ms(), 0)

    def _wall(self, monotonic_ms: int) -> int:
        return self._clock.now_ms() + monotonic_ms - self._clock.monotonic_ms()
