"""What an exchange makes of the ledger. Archive first, then act.

`absorb` appends the exchange to the open WARC before it changes anything, so whatever the rows say can be made again from the
archive. Live exchanges and replayed ones take the same way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from lycosa.archive.writer import RevisitTarget, payload_digest
from lycosa.core.errors import Exclusion, FetchError, Refusal
from lycosa.core.records import Exchange, HostRow, Page, UrlRow, UrlState, Visit, VisitKind
from lycosa.crawl.budgets import is_held
from lycosa.crawl.discovery import KINDS, Discovery
from lycosa.crawl.documents import Documents, document_limits
from lycosa.crawl.ledger import Ledger, Task
from lycosa.crawl.links import redirect_link
from lycosa.crawl.operation import Operations
from lycosa.crawl.outcome import Outcome, Verdict, judge
from lycosa.crawl.requisites import understand_requisites
from lycosa.crawl.resting import HostRest
from lycosa.crawl.robots import MAX_HOPS
from lycosa.crawl.understand import Reader, Understand, Understood
from lycosa.crawl.visits import build_visit
from lycosa.crawl.watching import Watching
from lycosa.fetch.decode import Headers, parse_head
from lycosa.fetch.guard import is_public
from lycosa.fetch.robots import product_token
from lycosa.frontier.change_rate import DAY_MS, ChangeStats, observe_claim, observe_dated, rate
from lycosa.frontier.change_rate import observe as observe_change
from lycosa.frontier.politeness import backoff_ms
from lycosa.frontier.recrawl import RecrawlRules, retry_wait_ms
from lycosa.page.documents.sink import FAULTS
from lycosa.url.indexable import READ_TYPES
from lycosa.url.normalise import LinkResolver
from lycosa.url.schemes import OTHERS

_public = lru_cache(4_096)(is_public)


@dataclass(slots=True, frozen=True)
class Replayed:
    """An exchange that an earlier run archived: its visit as it was written, and the capture that it was a revisit of."""

    visit: Visit
    revisit_of: RevisitTarget | None = None


_UNREAD_A_HOST = 4
"""Documents of one host that may wait to be read while it is asked for more."""


@dataclass(slots=True, frozen=True)
class _Aside:
    """A document that is archived and is being read. `booked`: its fetch is booked on its host."""

    record_id: str
    booked: bool


Heard = Callable[[UrlRow, Visit, Page | None], None]
"""Told of each row whose exchange was absorbed, of what came of it (`Visit.redirect_to`, the row's state), and of its page if it is one."""


class Absorber:
    """Acts on exchanges, one after the other. `understand` may be replaced by a reader in a child process."""

    def __init__(self, ledger: Ledger) -> None:
        fetch = ledger.config.fetch
        self.ledger = ledger
        self.documents = Documents(document_limits(ledger.config))
        self.understand: Understand = Reader(fetch.max_decoded, product_token(fetch.user_agent), self.documents)
        self.discovery = Discovery(ledger)
        self.watching: Watching | None = None
        self.operations: Operations | None = None
        self.heard: Heard | None = None
        ledger.before_cut = self.note_matches
        self._rest = HostRest(ledger)
        self._retries = fetch.retries
        first = max(fetch.retry_later, 1)
        self._failing = RecrawlRules(failed_first_ms=first, failed_longest_ms=max(first, 7 * DAY_MS))
        self._clock = ledger.clock
        self._interval_ms = 0  # since the last visit of the row that is being read
        self._aside: dict[int, _Aside] = {}  # by the exchange's id
        self._unread: Counter[int] = Counter()  # documents that are being read, by host

    def absorb(self, exchange: Exchange, task: Task, replayed: Replayed | None = None) -> None:
        """Archive an exchange, then act on it. A replayed one keeps its record id."""
        ledger = self.ledger
        headers = parse_head(exchange.response_head)
        verdict = judge(exchange, headers, now_ms=self._clock.now_ms(), last_attempt=any(row.fails >= self._retries for row in task.rows))
        first = task.rows[0] if task.rows else None
        name = first.collection if first else task.collection or self._collection_of(task)
        visit = build_visit(exchange, headers, task.identity, name, first, task.attempt)
        if first is None:
            visit.referrer, visit.depth = task.origin, task.hop  # what replay needs to know of a robots.txt
        if replayed is not None:
            visit.record_id = replayed.visit.record_id
        aside = self._aside.pop(id(exchange), None)
        if aside is not None:
            visit.record_id = aside.record_id
            ledger.host(task.identity)  # it may have been sent back since
        if verdict.outcome is Outcome.REDIRECT:
            visit.redirect_to = self._redirect_target(task, verdict)
            if not visit.redirect_to:
                verdict = Verdict(Outcome.LATER, FetchError.BAD_REDIRECT)
        if not visit.error and verdict.reason == FetchError.BAD_REDIRECT:
            visit.error = FetchError.BAD_REDIRECT
        revisit_of = replayed.revisit_of if replayed is not None else _revisit(exchange, verdict, task.rows)
        ledger.batch.archive(exchange, visit, revisit_of)
        self._count(visit)
        if task.kind is VisitKind.ROBOTS:
            self._read_robots(exchange, task, visit, verdict)
            ledger.batch.add_visit(visit)
        elif first is None:
            ledger.batch.add_visit(visit)  # nothing follows from it but what whoever asked makes of it
        else:
            ledger.in_flight.pop(task.key, None)
            self._read_rows(exchange, headers, task, visit, verdict, revisit_of)
        self._host_row(task).bytes += len(exchange.body)
        if aside is None or not aside.booked:
            self._rest.book(task, exchange, verdict, visit.server)
        if aside is not None:
            self._no_longer_aside(aside, task)

    def set_aside(self, exchange: Exchange, task: Task, *, to_render: bool = False) -> Callable[[], bytes] | None:
        """Archive a document that will be read beside the crawl, and book the fetch on its host; it is absorbed when it is read. Gives
        a way to its body. None, and nothing is done: there is nothing to read in it, so it is to be absorbed now. A page `to_render` may
        say something else though its bytes are the same, and what it loads needs its host.
        """
        ledger = self.ledger
        headers = parse_head(exchange.response_head)
        verdict = judge(exchange, headers, now_ms=self._clock.now_ms(), last_attempt=any(row.fails >= self._retries for row in task.rows))
        if verdict.outcome is not Outcome.PAGE or not task.rows:
            return None
        known = _revisit(exchange, verdict, task.rows)
        if not to_render and known is not None and all(row.record_id and row.digest == known.digest for row in task.rows):
            return None
        visit = build_visit(exchange, headers, task.identity, task.rows[0].collection, task.rows[0], task.attempt)
        ledger.unread.archive(exchange, visit)
        key = task.identity.host_key
        booked = to_render or self._unread[key] < _UNREAD_A_HOST
        self._aside[id(exchange)] = _Aside(visit.record_id, booked)
        self._unread[key] += 1
        for row in task.rows:
            ledger.assignments[row.collection].unread += 1
        if booked:
            self._rest.book(task, exchange, verdict, visit.server)
        return partial(ledger.unread.body, visit.record_id)

    def note_matches(self) -> None:
        """What watches found in the pages that were shown to them: into the batch that holds these."""
        if self.watching is not None:
            for visit, match in self.watching.found():
                self.ledger.batch.add_match(visit, match)

    def _no_longer_aside(self, aside: _Aside, task: Task) -> None:
        ledger, key = self.ledger, task.identity.host_key
        ledger.unread.moved(aside.record_id, ledger.cuts + 1)
        self._unread[key] -= 1
        if not self._unread[key]:
            del self._unread[key]
        for row in task.rows:
            ledger.assignments[row.collection].unread -= 1

    def _host_row(self, task: Task) -> HostRow:
        """The row of the host that was asked, to be changed."""
        row = self.ledger.host(task.identity).row
        self.ledger.batch.change_host(row)
        return row

    def replay(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Absorb an exchange that an earlier worker had archived."""
        if task.kind is VisitKind.ROBOTS:
            self.ledger.urgent = deque(waiting for waiting in self.ledger.urgent if waiting.origin != task.origin)
        self.ledger.frontier.start(task.identity.host_key, self._clock.monotonic_ms())
        self.absorb(exchange, task, replayed)
        if any(waiting.origin == task.origin for waiting in self.ledger.urgent):
            self.ledger.frontier.hold(self.ledger.identifier.identify(f"{task.origin}/").host_key)  # a further attempt, or hop

    def record(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Archive an exchange that is older than what the tables hold of its URL: it was made, and nothing follows from it."""
        row = task.rows[0]
        visit = build_visit(exchange, parse_head(exchange.response_head), task.identity, row.collection, row, task.attempt)
        visit.record_id, visit.redirect_to, visit.changed = replayed.visit.record_id, replayed.visit.redirect_to, False
        self.ledger.batch.archive(exchange, visit, replayed.revisit_of)
        self._count(visit)
        self.ledger.batch.add_visit(visit)

    def overhear(self, exchange: Exchange, visit: Visit) -> None:
        """Take in what an exchange of another worker's partitions says of URLs in ours; all else of it is that worker's to do."""
        ledger = self.ledger
        assignment = ledger.assignments[visit.collection]
        gate, now_ms = assignment.gate, self._clock.now_ms()
        operation = visit.kind if visit.kind in KINDS else ""
        row = UrlRow(ledger.identifier.identify(exchange.url), visit.collection, visit.depth, operation, referrer=visit.referrer)
        if visit.kind == VisitKind.ROBOTS or (not operation and gate.refuses(row) is not None):
            return
        headers = parse_head(exchange.response_head)
        verdict = judge(exchange, headers, now_ms=now_ms, last_attempt=True)
        before, gate.refused = gate.refused, Counter()  # its owner counts them
        if verdict.outcome is Outcome.REDIRECT and not operation and visit.redirect_to and gate.here(visit.redirect_to):
            gate.redirect(row, visit.redirect_to, now_ms)
        elif verdict.outcome is Outcome.PAGE and not operation:
            page = self.understand(exchange, headers).page
            if page is not None and page.may_follow:
                gate.follow(row, [link for link in page.links if gate.here(link.target)], now_ms)
        gate.refused = before

    # -- pages --------------------------------------------------------------------------------------------------------

    def _read_rows(
        self, exchange: Exchange, headers: Headers, task: Task, visit: Visit, verdict: Verdict, revisit_of: RevisitTarget | None
    ) -> None:
        """Give every collection that wanted the URL its visit; the answer is understood once."""
        understood: Understood | None = None
        for number, row in enumerate(task.rows):
            own = visit if number == 0 else replace(visit, collection=row.collection, depth=row.depth, referrer=row.referrer)
            outcome = verdict.outcome
            if outcome is Outcome.PAGE and revisit_of is not None and row.digest == visit.digest and row.record_id:
                outcome = Outcome.UNCHANGED  # the same bytes as at this collection's last visit
            if outcome is Outcome.PAGE and understood is None and not row.operation:
                understood = self._understand(exchange, headers, task.rows)
            self._read_row(row, own, verdict, outcome, understood, exchange, headers, first=number == 0)
            self.ledger.batch.add_visit(own)
            if self.heard is not None:
                self.heard(row, own, understood.page if understood is not None else None)
            if self.operations is not None:
                self.operations.heard(row, own, understood.page if understood is not None else None)

    def _understand(self, exchange: Exchange, headers: Headers, rows: tuple[UrlRow, ...]) -> Understood:
        collections = [self.ledger.assignments[row.collection].collection for row in rows]
        if not any(collection.requisites for collection in collections):
            return self.understand(exchange, headers)
        types = [each for collection in collections for each in collection.media_types or READ_TYPES]
        return understand_requisites(exchange, headers, self.understand, types, self.ledger.config.fetch.max_decoded)

    def _read_row(
        self,
        row: UrlRow,
        visit: Visit,
        verdict: Verdict,
        outcome: Outcome,
        understood: Understood | None,
        exchange: Exchange,
        headers: Headers,
        *,
        first: bool,
    ) -> None:
        ledger = self.ledger
        if outcome in (Outcome.RETRY, Outcome.LATER):
            self._try_later(row, verdict)
            return
        visited_before = row.visited_at > 0
        self._interval_ms = visit.fetched_at - row.visited_at
        row.checks += visited_before
        row.visited_at = visit.fetched_at
        row.fails = 0 if outcome is not Outcome.GONE else row.fails + 1 if row.state == UrlState.GONE else 1
        row.not_before = 0
        if outcome is Outcome.GONE:
            ledger.settle(row, UrlState.GONE, verdict.reason)
        elif outcome is Outcome.EXCLUDED:
            ledger.settle(row, UrlState.EXCLUDED, verdict.reason)
        elif outcome is Outcome.REDIRECT:
            if visited_before:
                visit.changed = False  # where it leads to is no text
                self._learn(row, visit)
            self._redirect(row, visit, first=first)
        elif row.operation:
            if outcome is Outcome.PAGE:
                row.etag, row.last_modified, row.digest = visit.etag, visit.last_modified, visit.digest
                row.captured_at, row.record_id = visit.fetched_at, visit.record_id
                self.discovery.read(exchange, headers, row, visit)
            else:
                visit.changed = False
            self.discovery.settle(row, changed=visit.changed)
        elif outcome is Outcome.UNCHANGED:
            visit.changed = False
            self._learn(row, visit)
            ledger.settle(row, UrlState.VISITED)
        else:
            assert understood is not None
            self._take_page(row, visit, understood, visited_before=visited_before, first=first)
        ledger.reserve.wait_for(row)

    def _take_page(self, row: UrlRow, visit: Visit, understood: Understood, *, visited_before: bool, first: bool) -> None:
        ledger = self.ledger
        progress = ledger.progress
        row.etag, row.last_modified, row.digest = visit.etag, visit.last_modified, visit.digest
        row.captured_at, row.record_id = visit.fetched_at, visit.record_id
        if understood.truncated and not visit.truncated:
            visit.truncated = "decoded"
        if understood.error:
            visit.error = understood.error
            progress.errors[understood.error] += 1
        if understood.error == FetchError.PARSE_CRASHED:
            ledger.settle(row, UrlState.EXCLUDED, Exclusion.PARSE_CRASHED)
            return
        page = understood.page
        text_digest = page.text_digest if page is not None else 0
        visit.changed = not visited_before or row.text_digest != text_digest
        row.changes += visited_before and visit.changed
        if visited_before:
            self._learn(row, visit)
        was_held = is_held(row)
        row.text_digest = text_digest
        if page is None:
            ledger.settle(row, UrlState.VISITED, understood.error or "media_type")
            if understood.links:
                visit.links_count = len(understood.links)
                if first:
                    ledger.batch.add_links(visit, understood.links)
                ledger.assignments[row.collection].gate.follow(row, understood.links, self._clock.now_ms())
            return
        visit.links_count = len(page.links)
        for fault in FAULTS.intersection(page.faults):
            progress.errors[fault] += 1
        ledger.settle(row, UrlState.VISITED)
        ledger.batch.add_page(visit, page, row.redirect_from, links=first)
        if visit.changed and self.watching is not None and self.watching.look(visit, page.text):
            self.note_matches()
        if not was_held:
            ledger.count_page(row)
        assignment = ledger.assignments[row.collection]
        host = ledger.host(row.id).row
        if first and not visited_before and assignment.collection.traps:
            ledger.traps.observe(host, row.id, page, visit.http_status)
        progress.pages += 1
        progress.public_pages += _public(visit.ip)
        progress.languages[page.language] += 1
        for reason, number in page.refused.items():
            assignment.gate.refused[reason] += number
        if page.may_follow:
            assignment.gate.follow(row, page.links, self._clock.now_ms())
            self.discovery.from_page(row, page.links)
        else:
            assignment.gate.refused[Refusal.NOFOLLOW] += len(page.links)

    def _learn(self, row: UrlRow, visit: Visit) -> None:
        """The visit says one bit about how often the page changes."""
        if self._interval_ms < 0:  # the date was set back since the last visit: how long ago that was is not known
            row.claim = 0.0
            return
        stats, interval_ms = ChangeStats(*row.history), max(self._interval_ms, 1)
        claimed = row.claim > 0
        # A claim that proved right brought the visit soon after the change: that there was one tells nothing, when it was does.
        stats = observe_dated(stats, interval_ms) if claimed and visit.changed else observe_change(stats, interval_ms, visit.changed)
        if claimed or row.silence > 0:
            host = self.ledger.host(row.id).row
            trust = observe_claim(self.ledger.trust(host), claimed, visit.changed)
            host.claims_right, host.claims_wrong, host.claims_missed = trust
        row.history = tuple(stats)
        prior = self.ledger.assignments[row.collection].prior
        row.change_rate = rate(stats, prior)
        row.claim = 0.0

    def _redirect(self, row: UrlRow, visit: Visit, *, first: bool) -> None:
        ledger = self.ledger
        ledger.settle(row, UrlState.VISITED, "redirect")
        if row.operation:
            self.discovery.redirect(row, visit.redirect_to)
            return
        if first:
            ledger.batch.add_redirect(visit, redirect_link(visit.redirect_to))
        gate = ledger.assignments[row.collection].gate
        refused = gate.redirect(row, visit.redirect_to, self._clock.now_ms())
        if refused or row.redirects < ledger.config.fetch.max_redirects:
            return
        # The hop after the last one that is allowed: known, so that it can be explained, and stopped.
        target = ledger.find(row.collection, ledger.identifier.identify(visit.redirect_to))
        if target is not None:
            ledger.stop_redirects(target)

    def _redirect_target(self, task: Task, verdict: Verdict) -> str:
        target = LinkResolver(task.identity.url).resolve(verdict.location)
        if isinstance(target, Refusal) or (task.kind is VisitKind.ROBOTS and target.startswith(OTHERS)):  # rules of the web are on the web
            return ""
        return target

    def _try_later(self, row: UrlRow, verdict: Verdict) -> None:
        settings = self.ledger.config.fetch
        now_ms = self._clock.now_ms()
        row.fails += 1
        row.reason = verdict.reason
        self.ledger.progress.errors[verdict.reason] += 1
        more = verdict.outcome is Outcome.RETRY and row.fails <= settings.retries
        wait = backoff_ms(settings.retry_wait, row.fails) if more else retry_wait_ms(self._failing, row.fails - self._retries)
        wait = max(wait, verdict.wait_ms)
        row.not_before = now_ms + max(wait, 1)
        row.state_at = now_ms
        self.ledger.change(row)
        self.ledger.reserve.wait_for(row)

    # -- robots -------------------------------------------------------------------------------------------------------

    def _collection_of(self, task: Task) -> str:
        """Whose visit a robots.txt is: the first collection that has URLs of the host."""
        queue = self.ledger.frontier.hosts.get(task.identity.host_key)
        names = list(queue.heads) if queue is not None else []
        return names[0] if names else next(iter(self.ledger.assignments))

    def _read_robots(self, exchange: Exchange, task: Task, visit: Visit, verdict: Verdict) -> None:
        ledger = self.ledger
        origin_id = ledger.identifier.identify(f"{task.origin}/")
        if verdict.outcome is Outcome.REDIRECT and task.hop < MAX_HOPS:
            target = ledger.identifier.identify(visit.redirect_to)
            ledger.host(target)
            ledger.urgent.append(Task(target, (), task.origin, VisitKind.ROBOTS, 1, task.hop + 1))
            return
        if verdict.outcome is Outcome.RETRY and task.attempt <= self._retries:
            ledger.urgent.append(Task(task.identity, (), task.origin, VisitKind.ROBOTS, task.attempt + 1, task.hop))
            wait = max(backoff_ms(ledger.config.fetch.retry_wait, task.attempt), verdict.wait_ms)
            now = self._clock.monotonic_ms()
            ledger.frontier.delay(task.identity.host_key, now, now + wait)
            return
        queue = ledger.frontier.hosts.get(origin_id.host_key)
        if exchange.error == FetchError.ADDRESS_REFUSED and task.hop == 0:
            ledger.refused_origins.add(task.origin)
            ledger.frontier.release(origin_id.host_key)
        elif queue is not None:
            entry = ledger.robots.received(task.origin, exchange)
            queue.row.robots = [*(old for old in queue.row.robots if old.origin != task.origin), entry]
            if origin_id.host_key != task.identity.host_key:  # the fetch is booked on the host that answered
                self._rest.heed(queue, ledger.robots.crawl_delay_ms(task.origin))
            ledger.batch.change_host(queue.row)
            ledger.frontier.release(origin_id.host_key)
            self.discovery.from_robots(task.origin, ledger.robots.sitemaps(task.origin))

    def _count(self, visit: Visit) -> None:
        progress = self.ledger.progress
        progress.visits += 1
        progress.bytes += visit.content_length
        progress.statuses[visit.http_status] += 1


def _revisit(exchange: Exchange, verdict: Verdict, rows: tuple[UrlRow, ...]) -> RevisitTarget | None:
    """The earlier capture of this URL whose payload the answer is, by status 304 or by its digest; None: it is another."""
    for row in rows:
        if not row.record_id or exchange.rendered:
            continue
        if exchange.status == 304 or (
            verdict.outcome is Outcome.PAGE and not exchange.error and not exchange.truncated and payload_digest(exchange) == row.digest
        ):
            return RevisitTarget(row.id.url, row.captured_at, row.record_id, row.digest)
    return None


def conditions(rows: tuple[UrlRow, ...]) -> tuple[tuple[str, str], ...]:
    """The header fields that ask for a page only if it changed (RFC 9110 section 13.1): ETag, else Last-Modified.

    Only where every collection that wants the page holds what the server would leave out.
    """
    if not rows or not all(row.record_id for row in rows):
        return ()
    row = rows[0]
    if any(other.etag != row.etag or other.last_modified != row.last_modified for other in rows):
        return ()
    if row.etag:
        return (("If-None-Match", row.etag),)
    return (("If-Modified-Since", row.last_modified),) if row.last_modified else ()
