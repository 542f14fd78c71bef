"""The worker: one event loop that holds partitions, fetches politely, archives first, understands, commits.

The order of every exchange is: append to the open WARC, then act. So whatever the rows say can be made again from the
archive, and a worker that dies loses only what it had not finished reading from the network.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from lycosa.core.clock import Clock
from lycosa.core.config import Collection, Config
from lycosa.core.errors import Exclusion, FetchError, Refusal
from lycosa.core.records import Exchange, Request, UrlId, UrlRow, UrlState, Visit, VisitKind
from lycosa.crawl.batch import Batch
from lycosa.crawl.links import LinkGate, redirect_link
from lycosa.crawl.outcome import Outcome, Verdict, judge
from lycosa.crawl.progress import Progress
from lycosa.crawl.robots import MAX_HOPS, RobotsKeeper
from lycosa.crawl.understand import Reader, Understand
from lycosa.crawl.visits import build_visit
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.decode import Headers, parse_head
from lycosa.fetch.guard import is_public
from lycosa.fetch.robots import product_token
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.known import KnownUrls
from lycosa.frontier.politeness import Pace, backoff_ms, pause_ms
from lycosa.store.claim import Claim, Orphan
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.normalise import LinkResolver
from lycosa.url.scope import url_origin

STOP_GRACE_MS = 3_000
"""At a stop, what is in flight may take this long to end (STORE.md: at most 3 s)."""

_OBSERVE_MS = 200
_LATENCY_WEIGHT = 0.2


@dataclass(slots=True)
class Task:
    """One fetch on its way. `row` is None for a robots.txt; `origin` is whose robots.txt it is about."""

    identity: UrlId
    row: UrlRow | None
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0


@dataclass(slots=True, frozen=True)
class Limits:
    """When a call ends before the crawl does. None: no limit."""

    max_pages: int | None = None
    max_time_ms: int | None = None


_public = lru_cache(4_096)(is_public)

Observer = Callable[[Progress], None]


class Worker:
    """Crawls one collection with the partitions of one claim, until nothing is due or a limit is met."""

    def __init__(
        self,
        claim: Claim,
        config: Config,
        collection: Collection,
        seeds: Iterable[str],
        *,
        domains: Domains,
        partitions: int,
        fetcher: CurlFetcher,
        clock: Clock,
        limits: Limits,
        info: dict[str, str],
        observer: Observer | None = None,
        committed: Callable[[int], None] | None = None,
    ) -> None:
        self.collection = collection
        self.frontier = Frontier(collection.connections_per_host)
        self.known = KnownUrls()
        self.identifier = Identifier(domains, partitions)
        self.gate = LinkGate(
            collection,
            seeds,
            domains=domains,
            identifier=self.identifier,
            frontier=self.frontier,
            known=self.known,
            admitted=self._url_admitted,
            changed=self._url_changed,
            fallen=self._url_fell,
        )
        self.robots = RobotsKeeper(config.fetch.user_agent)
        self.progress = Progress(clock.monotonic_ms())
        self.fallen: dict[int, tuple[UrlId, int]] = {}
        self._claim = claim
        self._config = config
        self._fetcher = fetcher
        self._clock = clock
        self._limits = limits
        self._info = info
        self._observer = observer
        self._committed = committed
        self._pace = Pace.of(collection, config.fetch.retry_wait)
        self._understand: Understand = Reader(config.fetch.max_decoded, product_token(config.fetch.user_agent))
        self._batch = Batch(claim, info)
        self._refused_origins: set[str] = set()  # the guard does not let us dial them
        self._urgent: deque[Task] = deque()  # robots files, which go before the pages of their host
        self._pages_in_flight = 0
        self._last_commit = clock.monotonic_ms()
        self._last_observed = 0
        self._stop = threading.Event()
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._committing: Future[int] | None = None

    # -- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> Progress:
        """Fetch until nothing is due, a limit, or `stop`; then commit. May be called again when more became due.

        Raises:
            ClaimLost: somebody else holds the partitions; nothing more was committed.
            WorkError: the disk does not take what was fetched.
        """
        clock = self._clock
        while not (ended := self._ended(clock.monotonic_ms())):
            self._start_due(clock.monotonic_ms())
            for exchange in self._wait():
                self._finish(exchange)
            self._commit_if_due(clock.monotonic_ms())
            self._observe(clock.monotonic_ms())
        self.progress.ended = ended
        self._drain()
        self.progress.ended_ms = clock.monotonic_ms()
        return self.progress

    def close(self) -> None:
        """Leave the open WARC for replay, if there is one: after an error. Waits for a commit that is being written."""
        self._commits.shutdown(wait=True)
        self._batch.abandon()

    def stop(self) -> None:
        """End soon (from a signal handler or another thread): finish what is in flight, commit, return from `run`."""
        self._stop.set()

    def use(self, understand: Understand) -> Understand:
        """Understand answers by another function from now on (replay uses a child process); gives the one before."""
        before, self._understand = self._understand, understand
        return before

    def _ended(self, now: int) -> str:
        if self._stop.is_set():
            return "stopped"
        if self._limits.max_time_ms is not None and now - self.progress.started_ms >= self._limits.max_time_ms:
            return "max_time"
        if self._full() and not self._pages_in_flight:
            return "max_pages"
        if self._fetcher.active:
            return ""
        due = self._next_time()
        return "finished" if due is None or due > now + self._config.crawl.patience else ""

    def _next_time(self) -> int | None:
        """When something may be due at the earliest: a page, or a robots.txt whose host rests."""
        times = [self.frontier.hosts[task.identity.host_key].ready_at for task in self._urgent]
        page = self.frontier.next_time()
        if page is not None:
            times.append(page)
        return min(times, default=None)

    def _full(self) -> bool:
        wanted = self._limits.max_pages
        return wanted is not None and self.progress.pages + self._pages_in_flight >= wanted

    def _room(self) -> int:
        return min(self._config.fetch.connections, self.collection.connections) - self._fetcher.active

    def _start_due(self, now: int) -> None:
        room = self._room()
        for _ in range(len(self._urgent)):
            task = self._urgent.popleft()
            queue = self.frontier.hosts[task.identity.host_key]
            if room > 0 and queue.in_flight == 0 and queue.ready_at <= now:
                self.frontier.start(task.identity.host_key)
                self._start(task)
                room -= 1
            else:
                self._urgent.append(task)
        while room > 0 and not self._full():
            row = self.frontier.next(now)
            if row is None:
                break
            if self._send(row):
                room -= 1

    def _send(self, row: UrlRow) -> bool:
        """Start the fetch of a page if its robots.txt is known and allows it."""
        origin = url_origin(row.id.url)
        now_ms = self._clock.now_ms()
        if origin in self._refused_origins:
            self.frontier.finished(row.id.host_key, 0, 0)
            self._settle(row, UrlState.EXCLUDED, Exclusion.ADDRESS)
            return False
        if not self._robots_known(origin, row.id.host_key, now_ms):
            self.frontier.hold(row.id.host_key)
            self.frontier.put_back(row)
            self._urgent.append(self._robots_task(origin))
            return False
        if not self.robots.reachable(origin):
            wait = max(self.robots.expires_at(origin) - now_ms, 1_000)
            self.frontier.put_back(row)
            self.frontier.delay(row.id.host_key, self._clock.monotonic_ms() + wait)
            return False
        if not self.robots.allowed(row.id.url, origin):
            self.frontier.finished(row.id.host_key, 0, 0)
            self._settle(row, UrlState.EXCLUDED, Exclusion.ROBOTS)
            return False
        self._start(Task(row.id, row, origin, VisitKind.PAGE, row.fails + 1))
        self._pages_in_flight += 1
        self.gate.in_flight[row.id.url_key] = row
        return True

    def _start(self, task: Task) -> None:
        self._fetcher.start(Request(task.identity.url, task.kind, token=task))

    def _robots_known(self, origin: str, host_key: int, now_ms: int) -> bool:
        if self.robots.known(origin, now_ms):
            return True
        for entry in self.frontier.hosts[host_key].row.robots:
            if entry.origin == origin and entry.expires_at > now_ms:
                self.robots.load(entry)
                return True
        return False

    def _robots_task(self, origin: str) -> Task:
        return Task(self.identifier.identify(f"{origin}/robots.txt"), None, origin, VisitKind.ROBOTS)

    def _wait(self) -> list[Exchange]:
        timeout = _OBSERVE_MS
        due = None if self._full() or self._room() <= 0 else self._next_time()
        if due is not None:
            timeout = min(timeout, max(due - self._clock.monotonic_ms(), 0))
        if self._fetcher.active:
            return self._fetcher.wait(timeout)
        if timeout:
            self._stop.wait(timeout / 1000)
        return []

    def _drain(self) -> None:
        """Nothing new is started: give what is in flight a little time, then commit all that was understood."""
        deadline = self._clock.monotonic_ms() + STOP_GRACE_MS
        while self._fetcher.active and self._clock.monotonic_ms() < deadline:
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._fetcher.stop()
        while self._fetcher.active:
            for exchange in self._fetcher.wait(100):
                self._finish(exchange)
        self._commit()
        self._await_commit()
        self._count_later()
        self._observe(self._last_observed + _OBSERVE_MS + 1)

    # -- an exchange has ended --------------------------------------------------------------------------------------

    def _finish(self, exchange: Exchange) -> None:
        task = exchange.token
        assert isinstance(task, Task)
        if task.kind is VisitKind.PAGE:
            self._pages_in_flight -= 1
        now = self._clock.monotonic_ms()
        if exchange.error == FetchError.INTERRUPTED:
            self._give_back(task, now)
            return
        self.absorb(exchange, task)

    def absorb(self, exchange: Exchange, task: Task, replayed: Visit | None = None) -> None:
        """Archive an exchange, then act on it. `replayed`: its visit as an earlier run wrote it (its record id is kept)."""
        headers = parse_head(exchange.response_head)
        row = task.row
        last_attempt = row is not None and row.fails >= self._config.fetch.retries
        verdict = judge(exchange, headers, now_ms=self._clock.now_ms(), last_attempt=last_attempt)
        visit = build_visit(exchange, headers, task.identity, self.collection.name, row, task.attempt)
        if row is None:
            visit.referrer, visit.depth = task.origin, task.hop  # what replay needs to know of a robots.txt
        if replayed is not None:
            visit.record_id = replayed.record_id
        if verdict.outcome is Outcome.REDIRECT:
            visit.redirect_to = self._redirect_target(task, verdict)
            if not visit.redirect_to:
                verdict = Verdict(Outcome.LATER, FetchError.BAD_REDIRECT)
        if not visit.error and verdict.reason == FetchError.BAD_REDIRECT:
            visit.error = FetchError.BAD_REDIRECT
        self._batch.archive(exchange, visit)
        self._count(visit)
        if task.kind is VisitKind.ROBOTS:
            self._read_robots(exchange, task, visit, verdict)
        elif row is not None:
            self.gate.in_flight.pop(row.id.url_key, None)
            self._read_page(exchange, headers, row, visit, verdict)
        self._batch.add_visit(visit)
        self._rest(task, exchange, verdict, visit.server)

    def replayed(self, exchange: Exchange, task: Task, visit: Visit) -> None:
        """Absorb an exchange that an earlier worker had archived; the record keeps its id. May commit."""
        if task.kind is VisitKind.ROBOTS:
            self._urgent = deque(waiting for waiting in self._urgent if waiting.origin != task.origin)
        self.frontier.start(task.identity.host_key)
        self.absorb(exchange, task, visit)
        self._commit_if_due(self._clock.monotonic_ms())

    def orphans(self) -> list[Orphan]:
        """The WARCs that earlier workers left uncommitted."""
        return self._claim.orphans()

    def used(self, orphan: str) -> None:
        """The next commit names an orphaned WARC whose exchanges have all been absorbed."""
        self._batch.orphans_used.append(orphan)

    def open_host(self, identity: UrlId) -> None:
        """Make sure that a host stands in the frontier."""
        if self.frontier.host(identity.host_key) is None:
            self.frontier.open_host(self.gate.new_host(identity, self._clock.now_ms()))

    def change(self, row: UrlRow) -> None:
        """The next commit holds this row."""
        self._batch.change_url(row)

    def reopen(self, row: UrlRow) -> None:
        """An excluded URL is admitted again."""
        self.open_host(row.id)
        self._settle(row, UrlState.KNOWN)

    def exclude(self, row: UrlRow, reason: Exclusion) -> None:
        """A known URL is stopped."""
        self.open_host(row.id)
        self._settle(row, UrlState.EXCLUDED, reason)

    def _redirect_target(self, task: Task, verdict: Verdict) -> str:
        target = LinkResolver(task.identity.url).resolve(verdict.location)
        return "" if isinstance(target, Refusal) else target

    def _read_page(self, exchange: Exchange, headers: Headers, row: UrlRow, visit: Visit, verdict: Verdict) -> None:
        now_ms = self._clock.now_ms()
        row.checks += 1
        if verdict.outcome in (Outcome.RETRY, Outcome.LATER):
            self._try_later(row, verdict, now_ms)
            return
        row.visited_at = visit.fetched_at
        row.fails = 0
        row.not_before = 0
        if verdict.outcome is Outcome.GONE:
            self._settle(row, UrlState.GONE, verdict.reason)
        elif verdict.outcome is Outcome.EXCLUDED:
            self._settle(row, UrlState.EXCLUDED, verdict.reason)
        elif verdict.outcome is Outcome.REDIRECT:
            self._redirect(row, visit, now_ms)
        elif verdict.outcome is Outcome.UNCHANGED:
            visit.changed = False
            self._settle(row, UrlState.VISITED)
        else:
            self._understand_page(exchange, headers, row, visit, now_ms)

    def _understand_page(self, exchange: Exchange, headers: Headers, row: UrlRow, visit: Visit, now_ms: int) -> None:
        understood = self._understand(exchange, headers)
        row.changes += row.digest not in ("", visit.digest)
        row.etag, row.last_modified, row.digest = visit.etag, visit.last_modified, visit.digest
        if understood.truncated and not visit.truncated:
            visit.truncated = "decoded"
        if understood.error:
            visit.error = understood.error
            self.progress.errors[understood.error] += 1
        if understood.error == FetchError.PARSE_CRASHED:
            self._settle(row, UrlState.EXCLUDED, Exclusion.PARSE_CRASHED)
            return
        page = understood.page
        if page is None:
            self._settle(row, UrlState.VISITED, understood.error or "media_type")
            return
        visit.links_count = len(page.links)
        self._settle(row, UrlState.VISITED)
        self._batch.add_page(visit, page, row.redirect_from)
        host = self.frontier.hosts[row.id.host_key].row
        host.pages += 1
        self.progress.pages += 1
        self.progress.public_pages += _public(exchange.ip)
        self.progress.languages[page.language] += 1
        for reason, number in page.refused.items():
            self.gate.refused[reason] += number
        if page.may_follow:
            self.gate.follow(row, page.links, now_ms)
        else:
            self.gate.refused[Refusal.NOFOLLOW] += len(page.links)

    def _redirect(self, row: UrlRow, visit: Visit, now_ms: int) -> None:
        self._batch.add_redirect(visit, redirect_link(visit.redirect_to))
        if row.redirects >= self._config.fetch.max_redirects:
            self._settle(row, UrlState.VISITED, "redirect")
            self._exclude_target(row, visit.redirect_to, now_ms)
            return
        self._settle(row, UrlState.VISITED, "redirect")
        self.gate.redirect(row, visit.redirect_to, now_ms)

    def _exclude_target(self, row: UrlRow, target: str, now_ms: int) -> None:
        """The hop after the last one that is allowed: known, so that it can be explained, and stopped."""
        if self.gate.redirect(row, target, now_ms) is None:
            waiting = self.frontier.remove(self.identifier.identify(target).url_key)
            if waiting is not None and waiting.redirects > self._config.fetch.max_redirects:
                self._settle(waiting, UrlState.EXCLUDED, Exclusion.REDIRECT_LIMIT)
            elif waiting is not None:
                self.frontier.add(waiting)

    def _try_later(self, row: UrlRow, verdict: Verdict, now_ms: int) -> None:
        row.fails += 1
        row.reason = verdict.reason
        self.progress.errors[verdict.reason] += 1
        more = verdict.outcome is Outcome.RETRY and row.fails <= self._config.fetch.retries
        wait = backoff_ms(self._config.fetch.retry_wait, row.fails) if more else self._config.fetch.retry_later
        wait = max(wait, verdict.wait_ms)
        if not more:
            row.fails = 0
        row.not_before = now_ms + wait
        row.state_at = now_ms
        self.frontier.add(row, self._clock.monotonic_ms() + max(wait, 1))
        self._url_changed(row)

    def _settle(self, row: UrlRow, state: UrlState, reason: str = "") -> None:
        """A URL changes its state; it no longer waits."""
        if row.state != state:
            self.progress.states[row.state] -= 1
            self.progress.states[state] += 1
            host = self.frontier.hosts[row.id.host_key].row
            host.visited += (state is UrlState.VISITED) - (row.state == UrlState.VISITED)
            host.known += (state is UrlState.KNOWN) - (row.state == UrlState.KNOWN)
            self._batch.change_host(host)
        row.state = state
        row.reason = reason
        row.state_at = self._clock.now_ms()
        self._batch.change_url(row)

    # -- robots -----------------------------------------------------------------------------------------------------

    def _read_robots(self, exchange: Exchange, task: Task, visit: Visit, verdict: Verdict) -> None:
        origin_id = self.identifier.identify(f"{task.origin}/")
        if verdict.outcome is Outcome.REDIRECT and task.hop < MAX_HOPS:
            target = self.identifier.identify(visit.redirect_to)
            self.open_host(target)
            self._urgent.append(Task(target, None, task.origin, VisitKind.ROBOTS, 1, task.hop + 1))
            return
        if verdict.outcome is Outcome.RETRY and task.attempt <= self._config.fetch.retries:
            self._urgent.append(Task(task.identity, None, task.origin, VisitKind.ROBOTS, task.attempt + 1, task.hop))
            wait = max(backoff_ms(self._config.fetch.retry_wait, task.attempt), verdict.wait_ms)
            self.frontier.delay(task.identity.host_key, self._clock.monotonic_ms() + wait)
            return
        queue = self.frontier.hosts.get(origin_id.host_key)
        if exchange.error == FetchError.ADDRESS_REFUSED and task.hop == 0:
            self._refused_origins.add(task.origin)
            self.frontier.release(origin_id.host_key)
        elif queue is not None:
            entry = self.robots.received(task.origin, exchange)
            queue.row.robots = [*(old for old in queue.row.robots if old.origin != task.origin), entry]
            self._batch.change_host(queue.row)
            self.frontier.release(origin_id.host_key)

    # -- the host rests ---------------------------------------------------------------------------------------------

    def _rest(self, task: Task, exchange: Exchange, verdict: Verdict, server: str) -> None:
        """Book the fetch on its host and set how long the host is left alone."""
        queue = self.frontier.hosts[task.identity.host_key]
        host = queue.row
        host.last_visit_at = exchange.started_at
        host.bytes += len(exchange.body)
        host.ip = exchange.ip or host.ip
        host.server = server or host.server
        host.fails = host.fails + 1 if verdict.host_failed else 0
        host.latency_ms = (
            exchange.duration_ms if not host.latency_ms else host.latency_ms + _LATENCY_WEIGHT * (exchange.duration_ms - host.latency_ms)
        )
        pause = pause_ms(
            self._pace,
            duration_ms=exchange.duration_ms,
            crawl_delay_ms=self.robots.crawl_delay_ms(task.origin),
            retry_after_ms=verdict.wait_ms,
            failures=host.fails,
        )
        host.delay_ms = pause
        host.not_before = exchange.started_at + exchange.duration_ms + pause
        self._batch.change_host(host)
        self.frontier.finished(task.identity.host_key, self._clock.monotonic_ms(), pause)

    def _give_back(self, task: Task, now: int) -> None:
        """We interrupted it: the URL waits again, nothing is recorded, the host still counts as fetched."""
        if task.row is not None:
            self.gate.in_flight.pop(task.row.id.url_key, None)
            self.frontier.add(task.row)
        self.frontier.finished(task.identity.host_key, now, self._pace.delay_ms)

    # -- rows and commits -------------------------------------------------------------------------------------------

    def _url_admitted(self, row: UrlRow) -> None:
        self.progress.states[UrlState.KNOWN] += 1
        self._batch.change_url(row)
        self._batch.change_host(self.frontier.hosts[row.id.host_key].row)

    def _url_changed(self, row: UrlRow) -> None:
        self._batch.change_url(row)

    def _url_fell(self, identity: UrlId, depth: int) -> None:
        self.fallen[identity.url_key] = (identity, depth)

    def _count(self, visit: Visit) -> None:
        progress = self.progress
        progress.visits += 1
        progress.bytes += visit.content_length
        progress.statuses[visit.http_status] += 1

    def _commit_if_due(self, now: int) -> None:
        if self._committing is not None and self._committing.done():
            self._await_commit()
        batch, settings = self._batch, self._config.crawl
        if batch.empty:
            return
        if (
            batch.exchanges >= settings.commit_pages
            or batch.text_bytes >= settings.commit_text
            or now - self._last_commit >= settings.commit_interval
        ):
            self._commit()

    def _commit(self) -> None:
        """Cut the batch and write it beside the fetching; one commit at a time, in order."""
        self._await_commit()
        batch = self._batch
        refused = self.gate.take_refused()
        for reason, number in refused.items():
            batch.counters[f"refused.{reason}"] += number
            self.progress.refused[reason] += number
        if batch.empty:
            return
        self._batch = Batch(self._claim, self._info)
        self._last_commit = self._clock.monotonic_ms()
        batch.cut()
        self._committing = self._commits.submit(batch.commit)

    def _await_commit(self) -> None:
        if self._committing is None:
            return
        entry = self._committing.result()
        self._committing = None
        self.progress.commits += 1
        if self._committed is not None:
            self._committed(entry)

    def _count_later(self) -> None:
        """Why each URL that waits was left: its last failure, its host, or the end of this call."""
        now, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        self.progress.later.clear()
        for row in self.waiting():
            origin = url_origin(row.id.url)
            reason = row.reason
            if not reason and self.robots.known(origin, now_ms) and not self.robots.reachable(origin):
                reason = "robots_unreachable"
            if not reason and self.frontier.hosts[row.id.host_key].ready_at > now + self._config.crawl.patience:
                reason = "host_rests"
            self.progress.later[reason or "not_reached"] += 1

    def waiting(self) -> Iterator[UrlRow]:
        """The rows that wait, in no order."""
        return self.frontier.rows()

    def _observe(self, now: int) -> None:
        if now - self._last_observed < _OBSERVE_MS:
            return
        self._last_observed = now
        progress = self.progress
        progress.queue = len(self.frontier)
        progress.in_flight = self._fetcher.active
        progress.hosts = len(self.frontier.hosts)
        if self._observer is not None:
            self._observer(progress)
