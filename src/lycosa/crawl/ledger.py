"""The ledger: what a worker knows of its collection, and what every exchange makes of it.

Archive first, then act: `absorb` appends the exchange to the open WARC before it changes anything, so whatever the rows say
can be made again from the archive. Live exchanges and replayed ones take the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from lycosa.core.clock import Clock
from lycosa.core.config import Collection, Config
from lycosa.core.errors import Exclusion, FetchError, Refusal
from lycosa.core.records import Exchange, UrlId, UrlRow, UrlState, Visit, VisitKind
from lycosa.crawl.batch import Batch
from lycosa.crawl.links import LinkGate, redirect_link
from lycosa.crawl.outcome import Outcome, Verdict, judge
from lycosa.crawl.progress import Progress
from lycosa.crawl.robots import MAX_HOPS, RobotsKeeper
from lycosa.crawl.understand import Reader, Understand
from lycosa.crawl.visits import build_visit
from lycosa.fetch.decode import Headers, parse_head
from lycosa.fetch.guard import is_public
from lycosa.fetch.robots import product_token
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.known import KnownUrls
from lycosa.frontier.politeness import Pace, backoff_ms, pause_ms
from lycosa.store.claim import Claim
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.normalise import LinkResolver
from lycosa.url.scope import url_origin

_LATENCY_WEIGHT = 0.2

_public = lru_cache(4_096)(is_public)


@dataclass(slots=True)
class Task:
    """One fetch on its way. `row` is None for a robots.txt; `origin` is whose robots.txt it is about."""

    identity: UrlId
    row: UrlRow | None
    origin: str
    kind: VisitKind
    attempt: int = 1
    hop: int = 0


class Ledger:
    """One collection's frontier, robots, rows and counters. Not for several threads at once.

    `urgent` holds robots files that have to be fetched before the pages of their host; `fallen` the visited URLs that turned
    out to lie at less depth; `batch` is what the next commit will hold.
    """

    def __init__(
        self,
        claim: Claim,
        config: Config,
        collection: Collection,
        seeds: Iterable[str],
        *,
        domains: Domains,
        partitions: int,
        clock: Clock,
        info: dict[str, str],
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
        self.batch = Batch(claim, info)
        self.urgent: deque[Task] = deque()
        self.fallen: dict[int, tuple[UrlId, int]] = {}
        self.refused_origins: set[str] = set()  # the guard does not let us dial them
        self.understand: Understand = Reader(config.fetch.max_decoded, product_token(config.fetch.user_agent))
        self._claim = claim
        self._config = config
        self._clock = clock
        self._info = info
        self._pace = Pace.of(collection, config.fetch.retry_wait)

    def next_batch(self) -> Batch:
        """Close the books of the current batch, rows as they are now, and begin another. Returns the one that was cut."""
        batch = self.batch
        for reason, number in self.gate.take_refused().items():
            batch.counters[f"refused.{reason}"] += number
            self.progress.refused[reason] += number
        if not batch.empty:
            self.batch = Batch(self._claim, self._info)
            batch.cut()
        return batch

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
        self.batch.archive(exchange, visit)
        self._count(visit)
        if task.kind is VisitKind.ROBOTS:
            self._read_robots(exchange, task, visit, verdict)
        elif row is not None:
            self.gate.in_flight.pop(row.id.url_key, None)
            self._read_page(exchange, headers, row, visit, verdict)
        self.batch.add_visit(visit)
        self._rest(task, exchange, verdict, visit.server)

    def replayed(self, exchange: Exchange, task: Task, visit: Visit) -> None:
        """Absorb an exchange that an earlier worker had archived; the record keeps its id."""
        if task.kind is VisitKind.ROBOTS:
            self.urgent = deque(waiting for waiting in self.urgent if waiting.origin != task.origin)
        self.frontier.start(task.identity.host_key)
        self.absorb(exchange, task, visit)

    def used(self, orphan: str) -> None:
        """The next commit names an orphaned WARC whose exchanges have all been absorbed."""
        self.batch.orphans_used.append(orphan)

    def open_host(self, identity: UrlId) -> None:
        """Make sure that a host stands in the frontier."""
        if self.frontier.host(identity.host_key) is None:
            self.frontier.open_host(self.gate.new_host(identity, self._clock.now_ms()))

    def change(self, row: UrlRow) -> None:
        """The next commit holds this row."""
        self.batch.change_url(row)

    def reopen(self, row: UrlRow) -> None:
        """An excluded URL is admitted again."""
        self.open_host(row.id)
        self.settle(row, UrlState.KNOWN)

    def exclude(self, row: UrlRow, reason: Exclusion) -> None:
        """A known URL is stopped."""
        self.open_host(row.id)
        self.settle(row, UrlState.EXCLUDED, reason)

    def settle(self, row: UrlRow, state: UrlState, reason: str = "") -> None:
        """A URL changes its state; it no longer waits."""
        if row.state != state:
            self.progress.states[row.state] -= 1
            self.progress.states[state] += 1
            host = self.frontier.hosts[row.id.host_key].row
            host.visited += (state is UrlState.VISITED) - (row.state == UrlState.VISITED)
            host.known += (state is UrlState.KNOWN) - (row.state == UrlState.KNOWN)
            self.batch.change_host(host)
        row.state = state
        row.reason = reason
        row.state_at = self._clock.now_ms()
        self.batch.change_url(row)

    def give_back(self, task: Task, now: int) -> None:
        """We interrupted it: the URL waits again, nothing is recorded, the host still counts as fetched."""
        if task.row is not None:
            self.gate.in_flight.pop(task.row.id.url_key, None)
            self.frontier.add(task.row)
        self.frontier.finished(task.identity.host_key, now, self._pace.delay_ms)

    def robots_known(self, origin: str, host_key: int, now_ms: int) -> bool:
        if self.robots.known(origin, now_ms):
            return True
        for entry in self.frontier.hosts[host_key].row.robots:
            if entry.origin == origin and entry.expires_at > now_ms:
                self.robots.load(entry)
                return True
        return False

    def robots_task(self, origin: str) -> Task:
        return Task(self.identifier.identify(f"{origin}/robots.txt"), None, origin, VisitKind.ROBOTS)

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
            self.settle(row, UrlState.GONE, verdict.reason)
        elif verdict.outcome is Outcome.EXCLUDED:
            self.settle(row, UrlState.EXCLUDED, verdict.reason)
        elif verdict.outcome is Outcome.REDIRECT:
            self._redirect(row, visit, now_ms)
        elif verdict.outcome is Outcome.UNCHANGED:
            visit.changed = False
            self.settle(row, UrlState.VISITED)
        else:
            self._understand_page(exchange, headers, row, visit, now_ms)

    def _understand_page(self, exchange: Exchange, headers: Headers, row: UrlRow, visit: Visit, now_ms: int) -> None:
        understood = self.understand(exchange, headers)
        row.changes += row.digest not in ("", visit.digest)
        row.etag, row.last_modified, row.digest = visit.etag, visit.last_modified, visit.digest
        if understood.truncated and not visit.truncated:
            visit.truncated = "decoded"
        if understood.error:
            visit.error = understood.error
            self.progress.errors[understood.error] += 1
        if understood.error == FetchError.PARSE_CRASHED:
            self.settle(row, UrlState.EXCLUDED, Exclusion.PARSE_CRASHED)
            return
        page = understood.page
        if page is None:
            self.settle(row, UrlState.VISITED, understood.error or "media_type")
            return
        visit.links_count = len(page.links)
        self.settle(row, UrlState.VISITED)
        self.batch.add_page(visit, page, row.redirect_from)
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
        self.batch.add_redirect(visit, redirect_link(visit.redirect_to))
        if row.redirects >= self._config.fetch.max_redirects:
            self.settle(row, UrlState.VISITED, "redirect")
            self._exclude_target(row, visit.redirect_to, now_ms)
            return
        self.settle(row, UrlState.VISITED, "redirect")
        self.gate.redirect(row, visit.redirect_to, now_ms)

    def _redirect_target(self, task: Task, verdict: Verdict) -> str:
        target = LinkResolver(task.identity.url).resolve(verdict.location)
        return "" if isinstance(target, Refusal) else target

    def _exclude_target(self, row: UrlRow, target: str, now_ms: int) -> None:
        """The hop after the last one that is allowed: known, so that it can be explained, and stopped."""
        if self.gate.redirect(row, target, now_ms) is None:
            waiting = self.frontier.remove(self.identifier.identify(target).url_key)
            if waiting is not None and waiting.redirects > self._config.fetch.max_redirects:
                self.settle(waiting, UrlState.EXCLUDED, Exclusion.REDIRECT_LIMIT)
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

    def _read_robots(self, exchange: Exchange, task: Task, visit: Visit, verdict: Verdict) -> None:
        origin_id = self.identifier.identify(f"{task.origin}/")
        if verdict.outcome is Outcome.REDIRECT and task.hop < MAX_HOPS:
            target = self.identifier.identify(visit.redirect_to)
            self.open_host(target)
            self.urgent.append(Task(target, None, task.origin, VisitKind.ROBOTS, 1, task.hop + 1))
            return
        if verdict.outcome is Outcome.RETRY and task.attempt <= self._config.fetch.retries:
            self.urgent.append(Task(task.identity, None, task.origin, VisitKind.ROBOTS, task.attempt + 1, task.hop))
            wait = max(backoff_ms(self._config.fetch.retry_wait, task.attempt), verdict.wait_ms)
            self.frontier.delay(task.identity.host_key, self._clock.monotonic_ms() + wait)
            return
        queue = self.frontier.hosts.get(origin_id.host_key)
        if exchange.error == FetchError.ADDRESS_REFUSED and task.hop == 0:
            self.refused_origins.add(task.origin)
            self.frontier.release(origin_id.host_key)
        elif queue is not None:
            entry = self.robots.received(task.origin, exchange)
            queue.row.robots = [*(old for old in queue.row.robots if old.origin != task.origin), entry]
            self.batch.change_host(queue.row)
            self.frontier.release(origin_id.host_key)

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
        self.batch.change_host(host)
        self.frontier.finished(task.identity.host_key, self._clock.monotonic_ms(), pause)

    def _url_admitted(self, row: UrlRow) -> None:
        self.progress.states[UrlState.KNOWN] += 1
        self.batch.change_url(row)
        self.batch.change_host(self.frontier.hosts[row.id.host_key].row)

    def _url_changed(self, row: UrlRow) -> None:
        self.batch.change_url(row)

    def _url_fell(self, identity: UrlId, depth: int) -> None:
        self.fallen[identity.url_key] = (identity, depth)

    def _count(self, visit: Visit) -> None:
        progress = self.progress
        progress.visits += 1
        progress.bytes += visit.content_length
        progress.statuses[visit.http_status] += 1

    def count_later(self) -> None:
        """Why each URL that waits was left: its last failure, its host, or the end of this call."""
        now, now_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        self.progress.later.clear()
        for row in self.frontier.rows():
            origin = url_origin(row.id.url)
            reason = row.reason
            if not reason and self.robots.known(origin, now_ms) and not self.robots.reachable(origin):
                reason = "robots_unreachable"
            if not reason and self.frontier.hosts[row.id.host_key].ready_at > now + self._config.crawl.patience:
                reason = "host_rests"
            self.progress.later[reason or "not_reached"] += 1
