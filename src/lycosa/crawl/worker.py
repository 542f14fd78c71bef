"""The worker: one event loop that holds partitions, fetches politely, and commits while it goes on.

What an exchange means is the ledger's business (`lycosa.crawl.ledger`), when to commit that of `lycosa.crawl.committing`; here is when to
fetch and when to end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lycosa.core.clock import Clock
from lycosa.core.config import Config
from lycosa.core.errors import Exclusion, FetchError
from lycosa.core.records import Exchange, UrlRow, UrlState, VisitKind
from lycosa.core.stopping import StopFlag
from lycosa.crawl.absorb import Absorber
from lycosa.crawl.allowance import AWAIT_GRANT, WAIT, Allowance
from lycosa.crawl.assignment import Assignment
from lycosa.crawl.budgets import is_held
from lycosa.crawl.checks import Checks
from lycosa.crawl.committing import Commits
from lycosa.crawl.discovery import KINDS
from lycosa.crawl.documents import MOST_UNREAD, DocumentFetcher
from lycosa.crawl.ledger import Ledger, Task
from lycosa.crawl.logins import Login, LoginDesk
from lycosa.crawl.manners import Manners
from lycosa.crawl.membership import Answer, Lease
from lycosa.crawl.progress import Progress
from lycosa.crawl.render_fetcher import RenderFetcher
from lycosa.crawl.rendering import Renders
from lycosa.crawl.requests import Requests
from lycosa.crawl.standing import Standings
from lycosa.crawl.urgent import UrgentTasks
from lycosa.fetch.fetcher import Fetcher
from lycosa.url.scope import url_origin

STOP_GRACE_MS = 3_000
"""At a stop, what is in flight may take this long to end (STORE.md: at most 3 s)."""

_OBSERVE_MS = 200
_IDLE_MS = 10  # something seems due and yet nothing could be begun: look again, but not at once
_TICK_MS = 1_000
_FOLLOW_MS = 60_000  # how often a worker reads on in the log beside its commits: merges, exclusions
_FOLLOW_OTHERS_MS = 1_000  # and where others may have found something for it
REFILL_MS = 60_000
"""So often hosts that rest are looked at while those at hand always have something to ask: else they would never be."""

_GRANT_MS = 1_000  # how long a page waits for the coordinator's word

Observer = Callable[[Progress], None]


@dataclass(slots=True, frozen=True)
class Limits:
    """When a call ends before the crawl does. None: no limit."""

    max_pages: int | None = None
    max_time_ms: int | None = None


class Worker:
    """Crawls collections with the partitions of one claim, until nothing is due or a limit is met.

    With `forever` it waits for what becomes due instead of ending.
    """

    def __init__(
        self,
        ledger: Ledger,
        config: Config,
        *,
        fetcher: Fetcher,
        clock: Clock,
        limits: Limits,
        forever: bool = False,
        observer: Observer | None = None,
        committed: Callable[[int], None] | None = None,
        tick: Callable[[], None] | None = None,
        longest_wait_ms: int = _OBSERVE_MS,
        lease: Lease | None = None,
        follow: Callable[[], int] | None = None,
    ) -> None:
        """`longest_wait_ms`: how long it may sleep while nothing is due; more where time is simulated. `lease`: nothing is fetched
        while it does not hold. `follow`: where other workers hold partitions, called each second after reading on in the log;
        returns the entry up to which all is applied.
        """
        self.ledger = ledger
        self.absorber = Absorber(ledger)
        self.progress = ledger.progress
        self.frontier = ledger.frontier
        self.checks: Checks | None = None  # of availability, made beside the crawl
        self._config = config
        self._documents = self.absorber.documents
        documents = DocumentFetcher(fetcher, self._documents, self._set_aside)
        self._urgent = UrgentTasks(ledger)
        self._renders: Renders | None = None
        self._fetcher: DocumentFetcher | RenderFetcher = documents
        if any(each.collection.render != "never" for each in ledger.assignments.values()):
            self._renders = Renders(ledger, config, self.absorber.understand, self._set_page_aside, self._urgent.look_again)
            self._fetcher = RenderFetcher(documents, self._renders)
        self.clock = clock
        collections = {name: each.collection for name, each in ledger.assignments.items()}
        self._manners = Manners(collections, ledger.domains, clock, os.environ)
        self._logins = LoginDesk(ledger, os.environ)
        expects = self._renders.expects if self._renders is not None else None
        self._requests = Requests(ledger, self._manners, self._logins, expects=expects)
        self._allowance = Allowance(ledger)
        self._limits = limits
        self._forever = forever
        self._closed: frozenset[str] = frozenset()  # collections that may not fetch now
        self._observer = observer
        self._tick = tick
        self._longest_wait_ms = longest_wait_ms
        self._lease = lease
        self._answer: Answer | None = None
        self._among = 1
        self._answered = False
        self._follow = follow
        self._follow_ms = _FOLLOW_MS if follow is None else _FOLLOW_OTHERS_MS
        self._standings = Standings(ledger)
        self._resting: frozenset[str] = frozenset()
        self._paused = False
        self._next_tick = 0
        self._next_refill = clock.monotonic_ms() + REFILL_MS
        self._next_look = clock.monotonic_ms() + (_FOLLOW_MS if follow is None else 0)
        self._pages_in_flight = 0
        self._moved = True  # whether this turn of the loop began anything
        self._last_observed = 0
        self._stop = StopFlag()
        in_cluster = self.nothing_to_do if follow is not None else None
        self.commits = Commits(ledger, config.crawl, clock, nothing_to_do=in_cluster, committed=committed)

    def run(self) -> Progress:
        """Fetch until nothing is due, a limit, or `stop`; then commit. May be called again when more became due.

        Raises:
            ClaimLost: somebody else holds the partitions; nothing more was committed.
            WorkError: the disk does not take what was fetched.
        """
        while not (ended := self._ended(self.clock.monotonic_ms())):
            self.turn()
        return self.end(ended)

    def turn(self) -> None:
        """One turn of the loop: start what may start, wait a little, act on what has ended. Raises what `run` raises."""
        clock = self.clock
        self._regrant()
        self._ticks(clock.monotonic_ms())
        if self.checks is not None:
            self.checks.turn(clock.monotonic_ms(), may_start=not self._paused and self._may_fetch())
        self._moved = self._start_due(clock.monotonic_ms())
        for exchange in self._wait():
            self._finish(exchange)
        self.commit_if_due()
        self._observe(clock.monotonic_ms())

    def end(self, ended: str) -> Progress:
        """Finish what is in flight and commit. `ended`: why, as `Progress` has it."""
        self.progress.ended = ended
        self._drain()
        self.progress.ended_ms = self.clock.monotonic_ms()
        return self.progress

    def close(self) -> None:
        """Leave the open WARC for replay, if there is one: after an error. Waits for a commit that is being written."""
        self._documents.close()
        self.commits.close()
        self.ledger.batch.abandon()

    def rest(self, collections: Iterable[str]) -> None:
        """Fetch nothing for these collections until told otherwise (their schedule says so)."""
        self._resting = frozenset(collections)

    def pause(self, paused: bool) -> None:
        """Fetch nothing at all until told otherwise; what is in flight ends, and commits go on."""
        self._paused = paused

    def grant(self, granted: Mapping[str, int]) -> None:
        """How many pages this claim may add in all, by collection; one that is missing has no budget. From any thread."""
        for name, assignment in self.ledger.assignments.items():
            assignment.grant = granted.get(name)

    def added(self) -> dict[str, int]:
        """How many pages this claim has added, uncommitted ones and those in flight too, by collection. From any thread."""
        return {name: assignment.in_flight + assignment.added for name, assignment in self.ledger.assignments.items()}

    def idle(self) -> tuple[bool, int]:
        """Whether nothing is due within `crawl.patience`, in flight, awaiting retry, uncommitted, unapplied or to be walked again; and
        the log entry up to which that is so. From any thread; about a second old, which that entry makes good.
        """
        standing = self._standings.latest
        return standing.idle, standing.head

    def waiting_by_partition(self) -> dict[int, int]:
        """How many known URLs wait in each partition that is held. From any thread; about a second old."""
        return self._standings.latest.waiting

    def nothing_to_do(self, until: int) -> bool:
        """Whether nothing is in flight and nothing is due up to then."""
        if self._fetcher.active:
            return False
        due = self._next_time()
        return due is None or due > until

    def _ticks(self, now: int) -> None:
        """What others do beside the fetching, once a second."""
        if self.commits.under_way is None and now >= self._next_look:
            self._next_look = now + self._follow_ms
            self.ledger.follow_log()
            if self._follow is not None:
                self._stand(self._follow())
        if self._tick is not None and now >= self._next_tick:
            self._next_tick = now + _TICK_MS
            self._tick()

    def _stand(self, read_to: int) -> None:
        """Note how things stand: everything up to that entry is applied."""
        ledger, now = self.ledger, self.clock.monotonic_ms()
        due = self._next_time()
        busy = (
            self._fetcher.active
            or self.commits.under_way is not None
            or not ledger.batch.empty
            or (due is not None and due <= now + self._config.crawl.patience)
            or any(each.fallen for each in ledger.assignments.values())
            or ledger.unfinished()
        )
        self._standings.renew(idle=not busy, head=read_to)

    def stop(self) -> None:
        """End soon (from a signal handler or another thread): finish what is in flight, commit, return from `run`."""
        self._stop.set()

    def _ended(self, now: int) -> str:
        if self._stop.is_set():
            return "stopped"
        if self._limits.max_time_ms is not None and now - self.progress.started_ms >= self._limits.max_time_ms:
            return "max_time"
        if not self._pages_in_flight and (self._full() or (not self._forever and all(map(self._spent, self.ledger.assignments.values())))):
            return "max_pages"
        if self._fetcher.active or self._forever:
            return ""
        due = self._next_time()
        if (due is not None and due <= now + self._config.crawl.patience) or self.ledger.unfinished():
            return ""
        return "finished"

    def _next_time(self) -> int | None:
        """When something may be due at the earliest: a page, or a robots.txt whose host rests."""
        times = (self.frontier.next_time(), self.ledger.reserve.next_time(), self._urgent.next_time)
        return min((at for at in times if at is not None), default=None)

    def _full(self) -> bool:
        wanted = self._limits.max_pages
        return wanted is not None and self.progress.pages + self._pages_in_flight >= wanted

    def _room(self) -> int:
        if self._paused or not self._may_fetch() or self._fetcher.unread >= MOST_UNREAD:
            return 0
        return self._config.fetch.connections - self._fetcher.fetching

    def _may_fetch(self) -> bool:
        """Whether an exchange may start: the lease holds, and its answer still names every partition (else this claim is to end)."""
        if self._lease is None:
            return True
        answer = self._lease.answer
        if answer is not self._answer:
            self._answer, self._answered = answer, self.ledger.claimed_partitions <= answer.partitions
        return self._answered and self._lease.holds

    def _regrant(self) -> None:
        """By the answer in force: under a new claim nothing is granted before an answer names that claim; and of the connections that a
        collection and an address are given, its part."""
        if self._lease is None:
            return
        self.grant(self._lease.granted(self.ledger.claim_number))
        if self._among != self._lease.answer.among:
            self._among = self._lease.answer.among
            self.frontier.clocks.share(self._among)

    def _start_due(self, now: int) -> bool:
        """Start what may be started. False: nothing was taken up."""
        if now >= self._next_refill:
            self._next_refill = now + REFILL_MS
            if self._hungry(now):
                self.ledger.reserve.refill()
        free = self._room()
        room = self._urgent.start(now, free, self._start)
        moved = room < free
        refilled = False
        while room > 0 and not self._full() and self._may_fetch() and not (self._renders is not None and self._renders.full):
            self._closed = frozenset(
                name
                for name, each in self.ledger.assignments.items()
                if each.in_flight - each.unread >= max(1, each.collection.connections // self._among)
                or name in self._resting
                or self._spent(each)
            )
            if len(self._closed) == len(self.ledger.assignments):
                break  # nothing may be fetched, so nothing is missing
            rows = self.frontier.next(now, self._closed)
            if not rows:
                if refilled or not self._hungry(now) or not self.ledger.reserve.refill():
                    break
                refilled = True
            else:
                moved = True
                room -= self._send(rows)
        return moved

    def _hungry(self, now: int) -> bool:
        """Whether the reserve has something that is due while we have nothing to do."""
        due = self.ledger.reserve.next_time()
        return due is not None and due <= now

    def _spent(self, assignment: Assignment) -> bool:
        """Whether nothing more may be fetched for a collection; one that looks at its pages again goes on with those."""
        budget = assignment.collection.max_pages
        if assignment.grant is not None:
            return assignment.collection.recrawl == "never" and assignment.added + assignment.in_flight >= assignment.grant
        return assignment.collection.recrawl == "never" and budget is not None and assignment.pages + assignment.in_flight >= budget

    def _send(self, rows: tuple[UrlRow, ...]) -> bool:
        """Start the fetch of a page if its robots.txt is known and allows it."""
        row = rows[0]
        if row.operation not in KINDS and self.absorber.operations is not None:
            self.absorber.operations.serve(rows)
            return False
        origin = url_origin(row.id.url)
        now_ms = self.clock.now_ms()
        if origin in self.ledger.refused_origins:
            return self._exclude(rows, Exclusion.ADDRESS)
        if self.ledger.excluded(row.id.url):
            return self._exclude(rows, Exclusion.OPERATOR)
        at_hand = self.ledger.robots.known(origin, now_ms)
        if not at_hand and not self.ledger.robots_known(origin, row.id.host_key, now_ms):
            self.frontier.hold(row.id.host_key)
            self.frontier.put_back(rows)
            self.frontier.start(row.id.host_key, self.clock.monotonic_ms())  # the host may be asked: for its robots.txt
            self._start(self.ledger.robots_task(origin))
            return True
        if not at_hand:  # it was read by an earlier run: perhaps for another collection, or without its sitemaps
            self.absorber.discovery.from_robots(origin, self.ledger.robots.sitemaps(origin))
        if not self.ledger.robots.reachable(origin):
            wait = max(self.ledger.robots.expires_at(origin) - now_ms, 1_000)
            self.frontier.put_back(rows)
            now = self.clock.monotonic_ms()
            self.frontier.delay(row.id.host_key, now, now + wait)
            return False
        if not self.ledger.robots.allowed(row.id.url, origin):
            return self._exclude(rows, Exclusion.ROBOTS)
        if not self._manners.plain:
            rows, others = self._manners.together(rows)
            for other in others:
                self.frontier.add(other)
            if row.key in self.ledger.in_flight:  # for a collection of other manners
                return self._wait_all(rows, self.clock.monotonic_ms() + _OBSERVE_MS)
            login = self._logins.due(rows, origin)
            if login is not None:
                return self._log_in(login, rows)
        rows = self._not_held(rows)
        if not rows:
            self.frontier.undo(row.id.host_key)
            return False
        row = rows[0]
        if not self._allowance.afford(rows):
            return False
        for each in rows:  # before it is asked for the last time: whoever asks meanwhile how much was added is told of it
            self.ledger.assignments[each.collection].in_flight += 1
        if not self._affords_grant(rows):
            for each in rows:
                self.ledger.assignments[each.collection].in_flight -= 1
                self.frontier.add(each, self.clock.monotonic_ms() + _GRANT_MS)
            self.frontier.undo(row.id.host_key)
            return False
        self._start(Task(row.id, rows, origin, KINDS[row.operation], row.fails + 1))
        self._pages_in_flight += 1
        self.ledger.in_flight[row.key] = rows
        return True

    def _wait_all(self, rows: tuple[UrlRow, ...], until: int) -> bool:
        """The fetch is not made now; these are looked at again at `until` (monotonic)."""
        for row in rows:
            self.frontier.add(row, until)
        self.frontier.undo(rows[0].id.host_key)
        return False

    def _log_in(self, login: Login, rows: tuple[UrlRow, ...]) -> bool:
        """Log in before these are fetched; the host is held meanwhile."""
        task = self._logins.begin(login)
        if task is None:
            return self._wait_all(rows, max(login.next_try, self.clock.monotonic_ms() + _OBSERVE_MS))
        self.frontier.hold(rows[0].id.host_key)
        self.frontier.put_back(rows)
        self.ledger.urgent.append(task)
        return True

    def _affords_grant(self, rows: tuple[UrlRow, ...]) -> bool:
        """Whether the answer in force has room for these, counted as in flight already."""
        self._regrant()
        assignments = [self.ledger.assignments[row.collection] for row in rows if not (is_held(row) or row.operation)]
        return all(each.grant is None or each.added + each.in_flight <= each.grant for each in assignments)

    def _not_held(self, rows: tuple[UrlRow, ...]) -> tuple[UrlRow, ...]:
        """The rows whose collections may fetch it now; the others are put off, or wait for what is being fetched."""
        free = []
        for row in rows:
            held = self._allowance.held(row)
            if held in (WAIT, AWAIT_GRANT):
                self.frontier.add(row, self.clock.monotonic_ms() + (_OBSERVE_MS if held == WAIT else _GRANT_MS))
            elif held:
                self.ledger.put_off(row, held)
            else:
                free.append(row)
        return tuple(free)

    def _exclude(self, rows: tuple[UrlRow, ...], reason: Exclusion) -> bool:
        self.frontier.undo(rows[0].id.host_key)
        for row in rows:
            self.ledger.exclude(row, reason)
        return False

    def _start(self, task: Task) -> None:
        self._fetcher.start(self._requests.of(task))

    def _wait(self) -> list[Exchange]:
        if self._fetcher.fetching and self._lease is not None and not self._lease.holds:
            self._fetcher.stop()  # the partitions may be another's before long; what has ended is there all the same
            return self._fetcher.wait(0)
        timeout = self._longest_wait_ms
        waits_for_others = self._closed and self._fetcher.active
        due = None if self._full() or self._room() <= 0 or waits_for_others else self._next_time()
        if due is not None:
            timeout = min(timeout, max(due - self.clock.monotonic_ms(), 0 if self._moved else _IDLE_MS))
        if self._fetcher.active:
            return self._fetcher.wait(timeout)
        if self._closed:
            timeout = self._longest_wait_ms
        if timeout:
            self._fetcher.sleep(timeout, self._stop)
        return []

    def _drain(self) -> None:
        """Nothing new is started: give what is in flight a little time, then commit all that was understood."""
        deadline = self.clock.monotonic_ms() + STOP_GRACE_MS
        while self._fetcher.active and self.clock.monotonic_ms() < deadline and (self._lease is None or self._lease.holds):
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._fetcher.stop()
        while self._fetcher.fetching:
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._fetcher.leave()
        self.commit_now()
        self._observe(self._last_observed + _OBSERVE_MS + 1)

    def _set_aside(self, exchange: Exchange) -> Callable[[], bytes] | None:
        """A document has come: archive it. It comes again, to `_finish`, when it is read."""
        assert isinstance(exchange.token, Task)
        self._requests.hear(exchange, exchange.token)
        return None if exchange.error else self.absorber.set_aside(exchange, exchange.token)

    def _set_page_aside(self, exchange: Exchange) -> bool:
        """The same for a page that is to be rendered."""
        assert isinstance(exchange.token, Task)
        self._requests.hear(exchange, exchange.token)
        return not exchange.error and self.absorber.set_aside(exchange, exchange.token, to_render=True) is not None

    def _finish(self, exchange: Exchange) -> None:
        task = exchange.token
        assert isinstance(task, Task)
        if exchange.error == FetchError.INTERRUPTED:
            self.ledger.give_back(task, self.clock.monotonic_ms())
        else:
            self._requests.hear(exchange, task)
            self._requests.forget(exchange)
            self.absorber.absorb(exchange, task)
            if task.kind is VisitKind.LOGIN:
                self._go_on(exchange, task)
        if task.rows:
            self._pages_in_flight -= 1
            for row in task.rows:  # after its page was counted: it must not be missing from `added` in between
                self.ledger.assignments[row.collection].in_flight -= 1

    def _go_on(self, exchange: Exchange, task: Task) -> None:
        """The next step of a log-in, or its end."""
        following = self._logins.answered(exchange, task)
        if following is not None:
            self.ledger.urgent.append(following)
        else:
            self.frontier.release(task.identity.host_key)

    def commit_if_due(self) -> None:
        """Commit what has come together, if it is much or old enough."""
        self.commits.if_due()

    def commit_now(self) -> None:
        """Commit what there is, and wait until it is on disk."""
        self.commits.now()

    def _observe(self, now: int) -> None:
        if now - self._last_observed < _OBSERVE_MS:
            return
        self._last_observed = now
        progress = self.progress
        progress.queue = max(progress.states[UrlState.KNOWN] - self._pages_in_flight, 0)
        progress.in_flight = self._fetcher.active
        progress.hosts = len(self.ledger.reserve.directory)
        if self._observer is not None:
            self._observer(progress)
