"""What an exchange makes of the crawl. Archive first, then act.

`process` appends the exchange to the open WARC before it changes anything, so whatever the rows say
can be made again from the archive. Live exchanges and replayed ones take the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from lycosa.archive.warc.writer import RevisitTarget
from lycosa.core.errors import Exclusion, FetchError, Refusal
from lycosa.core.records import Exchange, HostRow, UrlRow, UrlState, Visit, VisitKind
from lycosa.crawl.admission.discovery import KINDS, Discovery
from lycosa.crawl.admission.link_gate import redirect_link
from lycosa.crawl.documents.queue import DocumentQueue, document_limits
from lycosa.crawl.documents.sandbox import ChildReader
from lycosa.crawl.policy.host_delay import HostRest
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement, judge, revisit_target
from lycosa.crawl.policy.page_budgets import is_held
from lycosa.crawl.processing.page_reader import (
    ParsedExchange,
    ParseFunction,
    Reader,
    understand_requisites,
)
from lycosa.crawl.processing.prerequisites import RobotsProcessor
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener, PageMatcher
from lycosa.crawl.state.task import Task, build_visit
from lycosa.crawl.state.url_store import claim_trust
from lycosa.fetch.guard import is_public
from lycosa.fetch.robots_txt import product_token
from lycosa.frontier.politeness.delay import backoff_ms
from lycosa.frontier.recrawl.change_rate import (
    DAY_MS,
    ChangeStats,
    observe_claim,
    observe_dated,
    rate,
)
from lycosa.frontier.recrawl.change_rate import observe as observe_change
from lycosa.frontier.recrawl.due import RecrawlRules, retry_wait_ms
from lycosa.http.decode import Headers, parse_head
from lycosa.page.documents.sink import FAULTS
from lycosa.url.indexable import READ_TYPES
from lycosa.url.normalise import LinkResolver
from lycosa.url.schemes import OTHERS

_public = lru_cache(4_096)(is_public)


@dataclass(slots=True, frozen=True)
class Replayed:
    """An exchange that an earlier run archived: its visit as it was written, and the capture that
    it was a revisit of.
    """

    visit: Visit
    revisit_of: RevisitTarget | None = None


_UNKNOWN_NAME_MS = 3_600_000  # until a host whose name does not exist is tried again
_UNREAD_A_HOST = 4
"""Documents of one host that may wait to be read while it is asked for more."""


@dataclass(slots=True, frozen=True)
class _Aside:
    """A document that is archived and is being read. `booked`: its fetch is booked on its host."""

    record_id: str
    booked: bool


class ResponseProcessor(CrawlListener):
    """Acts on exchanges, one after the other.

    `page_matcher` is shown new and changed pages. `wrap_reader` makes what parses pages from the
    usual reader.
    """

    def __init__(
        self,
        crawl: CrawlState,
        discovery: Discovery,
        *,
        page_matcher: PageMatcher | None = None,
        wrap_reader: Callable[[Reader], ParseFunction] | None = None,
    ) -> None:
        fetch = crawl.config.fetch
        self.crawl = crawl
        self.documents = DocumentQueue(document_limits(crawl.config))
        reader = Reader(fetch.max_decoded, product_token(fetch.user_agent), self.documents)
        self._read: ParseFunction = reader if wrap_reader is None else wrap_reader(reader)
        self.discovery = discovery
        self._page_matcher = page_matcher
        crawl.events.add(self)
        self._rest = HostRest(crawl)
        self._robots = RobotsProcessor(crawl, discovery, self._rest)
        self._retries = fetch.retries
        first = max(fetch.retry_later, 1)
        self._failing = RecrawlRules(
            failed_first_ms=first, failed_longest_ms=max(first, 7 * DAY_MS)
        )
        self._clock = crawl.clock
        self._interval_ms = 0  # since the last visit of the row that is being read
        self._aside: dict[int, _Aside] = {}  # by the exchange's id
        self._unparsed: Counter[int] = Counter()  # documents that are being read, by host

    def process(self, exchange: Exchange, task: Task, replayed: Replayed | None = None) -> None:
        """Archive an exchange, then act on it. A replayed one keeps its record id."""
        crawl = self.crawl
        headers = parse_head(exchange.response_head)
        verdict = judge(
            exchange,
            headers,
            now_ms=self._clock.now_ms(),
            last_attempt=any(row.fails >= self._retries for row in task.rows),
        )
        first = task.rows[0] if task.rows else None
        name = first.collection if first else task.collection or self._collection_of(task)
        aside = self._aside.pop(id(exchange), None)
        if aside is not None:
            crawl.hosts.queue(task.identity)  # the host may have been parked since
        archived = aside or (replayed.visit if replayed is not None else None)
        record_id = archived.record_id if archived is not None else ""
        visit = build_visit(exchange, headers, task, name, record_id)
        if verdict.outcome is FetchOutcome.REDIRECT:
            visit.record_redirect(self._redirect_target(task, verdict))
            if not visit.redirect_to:
                verdict = Judgement(FetchOutcome.LATER, FetchError.BAD_REDIRECT)
        if not visit.error and verdict.reason == FetchError.BAD_REDIRECT:
            visit.record_fault(FetchError.BAD_REDIRECT)
        revisit_of = (
            replayed.revisit_of
            if replayed is not None
            else revisit_target(exchange, verdict, task.rows)
        )
        crawl.buffer.batch.archive(exchange, visit, revisit_of)
        crawl.plugins.call("response_archived", exchange=exchange, visit=visit)
        crawl.progress.add_visit(visit)
        if task.kind is VisitKind.ROBOTS:
            self._robots.process(exchange, task, visit, verdict)
            crawl.buffer.batch.add_visit(visit)
        elif first is None:
            # nothing follows from it but what whoever asked makes of it
            crawl.buffer.batch.add_visit(visit)
        else:
            crawl.in_flight.pop(task.key, None)
            self._read_rows(exchange, headers, task, visit, verdict, revisit_of)
        self._host_row(task).add_bytes(len(exchange.body))
        if aside is None or not aside.booked:
            self._rest.book(task, exchange, verdict, visit.server)
        if verdict.reason == FetchError.NAME_UNKNOWN:
            self._rest.rest(crawl.frontier.hosts[task.identity.host_key], _UNKNOWN_NAME_MS)
        if replayed is None and (
            task.kind is VisitKind.ROBOTS
            or any(row.depth == 0 and not row.operation for row in task.rows)
        ):
            self._note_failure(exchange, task, verdict)
        if aside is not None:
            self._no_longer_aside(aside, task)

    def set_aside(
        self, exchange: Exchange, task: Task, *, to_render: bool = False
    ) -> Callable[[], bytes] | None:
        """Archive a document that will be read beside the crawl, and book the fetch on its host; it
        is absorbed when it is read. Gives a way to its body. None, and nothing is done: there is
        nothing to read in it, so it is to be absorbed now. A page `to_render` may say something
        else though its bytes are the same, and what it loads needs its host.
        """
        crawl = self.crawl
        headers = parse_head(exchange.response_head)
        verdict = judge(
            exchange,
            headers,
            now_ms=self._clock.now_ms(),
            last_attempt=any(row.fails >= self._retries for row in task.rows),
        )
        if verdict.outcome is not FetchOutcome.PAGE or not task.rows:
            return None
        revisit = revisit_target(exchange, verdict, task.rows)
        if (
            not to_render
            and revisit is not None
            and all(row.record_id and row.digest == revisit.digest for row in task.rows)
        ):
            return None
        visit = build_visit(exchange, headers, task, task.rows[0].collection)
        crawl.buffer.unparsed.archive(exchange, visit)
        key = task.identity.host_key
        booked = to_render or self._unparsed[key] < _UNREAD_A_HOST
        self._aside[id(exchange)] = _Aside(visit.record_id, booked)
        self._unparsed[key] += 1
        for row in task.rows:
            crawl.assignments[row.collection].unparsed += 1
        if booked:
            self._rest.book(task, exchange, verdict, visit.server)
        return partial(crawl.buffer.unparsed.body, visit.record_id)

    def parse(self, exchange: Exchange, headers: Headers) -> ParsedExchange:
        """Parse the page of an exchange."""
        return self._read(exchange, headers)

    @contextmanager
    def parsing_in_a_child(self) -> Iterator[None]:
        """Parse in a child process for a while, as pages may kill the parser."""
        reader = self._read
        assert isinstance(reader, Reader)
        with ChildReader(reader) as child:
            self._read = child
            yield
        self._read = reader

    def before_commit(self) -> None:
        """What watches found in the pages that were shown to them: into the batch that holds
        these.
        """
        if self._page_matcher is not None:
            for visit, match in self._page_matcher.take_matches():
                self.crawl.buffer.batch.add_match(visit, match)

    def _note_failure(self, exchange: Exchange, task: Task, verdict: Judgement) -> None:
        """Tell whoever waits for the crawl at once why a seed, or all of its host, cannot be
        fetched.
        """
        if exchange.error:
            self.crawl.progress.fail(
                exchange.url,
                f"{exchange.error}: {exchange.error_text}"
                if exchange.error_text
                else exchange.error,
            )
            # others are counted with their rows
            self.crawl.progress.errors[exchange.error] += task.kind is VisitKind.ROBOTS
        elif verdict.host_failed or (
            verdict.outcome in (FetchOutcome.LATER, FetchOutcome.RETRY, FetchOutcome.GONE)
            and task.kind is not VisitKind.ROBOTS
        ):
            self.crawl.progress.fail(exchange.url, verdict.reason)

    def _no_longer_aside(self, aside: _Aside, task: Task) -> None:
        crawl, key = self.crawl, task.identity.host_key
        crawl.buffer.unparsed.moved(aside.record_id, crawl.buffer.cuts + 1)
        self._unparsed[key] -= 1
        if not self._unparsed[key]:
            del self._unparsed[key]
        for row in task.rows:
            crawl.assignments[row.collection].unparsed -= 1

    def _host_row(self, task: Task) -> HostRow:
        """The row of the host that was asked, to be changed."""
        row = self.crawl.hosts.queue(task.identity).row
        self.crawl.buffer.batch.change_host(row)
        return row

    def replay(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Absorb an exchange that an earlier worker had archived."""
        if task.kind is VisitKind.ROBOTS:
            self.crawl.drop_prerequisites(task.origin)
        self.crawl.frontier.start(task.identity.host_key, self._clock.monotonic_ms())
        self.process(exchange, task, replayed)
        if any(waiting.origin == task.origin for waiting in self.crawl.prerequisites):
            # a further attempt, or hop
            self.crawl.frontier.hold(self.crawl.identifier.identify(f"{task.origin}/").host_key)

    def record(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Archive an exchange that is older than what the tables hold of its URL: it was made, and
        nothing follows from it.
        """
        headers, collection = parse_head(exchange.response_head), task.rows[0].collection
        visit = build_visit(exchange, headers, task, collection, replayed.visit.record_id)
        visit.record_redirect(replayed.visit.redirect_to)
        visit.record_content(0, changed=False)
        self.crawl.buffer.batch.archive(exchange, visit, replayed.revisit_of)
        self.crawl.progress.add_visit(visit)
        self.crawl.buffer.batch.add_visit(visit)

    def overhear(self, exchange: Exchange, visit: Visit) -> None:
        """Take in what an exchange of another worker's partitions says of URLs in ours; all else of
        it is that worker's to do.
        """
        crawl = self.crawl
        assignment = crawl.assignments[visit.collection]
        gate, now_ms = assignment.gate, self._clock.now_ms()
        operation = visit.kind if visit.kind in KINDS else ""
        row = UrlRow(
            crawl.identifier.identify(exchange.url),
            visit.collection,
            visit.depth,
            operation,
            referrer=visit.referrer,
        )
        if visit.kind == VisitKind.ROBOTS or (not operation and gate.refuses(row) is not None):
            return
        headers = parse_head(exchange.response_head)
        verdict = judge(exchange, headers, now_ms=now_ms, last_attempt=True)
        with gate.uncounted():  # the other worker counts refused links
            if (
                verdict.outcome is FetchOutcome.REDIRECT
                and not operation
                and visit.redirect_to
                and gate.here(visit.redirect_to)
            ):
                gate.redirect(row, visit.redirect_to, now_ms)
            elif verdict.outcome is FetchOutcome.PAGE and not operation:
                page = self.parse(exchange, headers).page
                if page is not None and page.may_follow:
                    here = [link for link in page.links if gate.here(link.target)]
                    gate.follow(row, here, now_ms)

    # -- pages
    # ------------------------------------------------------------

    def _read_rows(
        self,
        exchange: Exchange,
        headers: Headers,
        task: Task,
        visit: Visit,
        verdict: Judgement,
        revisit_of: RevisitTarget | None,
    ) -> None:
        """Give every collection that wanted the URL its visit; the answer is understood once."""
        parsed: ParsedExchange | None = None
        for number, row in enumerate(task.rows):
            own = (
                visit
                if number == 0
                else replace(
                    visit, collection=row.collection, depth=row.depth, referrer=row.referrer
                )
            )
            of_row = verdict
            if (
                verdict.outcome is FetchOutcome.PAGE
                and revisit_of is not None
                and row.digest == visit.digest
                and row.record_id
            ):
                # the same bytes as at this collection's last visit
                of_row = replace(verdict, outcome=FetchOutcome.UNCHANGED)
            if of_row.outcome is FetchOutcome.PAGE and parsed is None and not row.operation:
                parsed = self._parse(exchange, headers, task.rows)
            self._read_row(row, own, of_row, parsed, exchange, headers, first=number == 0)
            self.crawl.buffer.batch.add_visit(own)
            self.crawl.events.row_processed(row, own, parsed.page if parsed is not None else None)

    def _parse(
        self, exchange: Exchange, headers: Headers, rows: tuple[UrlRow, ...]
    ) -> ParsedExchange:
        collections = [self.crawl.assignments[row.collection].collection for row in rows]
        if not any(collection.requisites for collection in collections):
            return self.parse(exchange, headers)
        types = [
            each for collection in collections for each in collection.media_types or READ_TYPES
        ]
        return understand_requisites(
            exchange, headers, self.parse, types, self.crawl.config.fetch.max_decoded
        )

    def _read_row(
        self,
        row: UrlRow,
        visit: Visit,
        verdict: Judgement,
        parsed: ParsedExchange | None,
        exchange: Exchange,
        headers: Headers,
        *,
        first: bool,
    ) -> None:
        crawl, outcome = self.crawl, verdict.outcome
        if outcome in (FetchOutcome.RETRY, FetchOutcome.LATER):
            self._defer(row, verdict)
            return
        visited_before = row.visited_at > 0
        self._interval_ms = visit.fetched_at - row.visited_at
        row.record_visit(visit.fetched_at, gone=outcome is FetchOutcome.GONE)
        if outcome is FetchOutcome.GONE:
            crawl.urls.settle(row, UrlState.GONE, verdict.reason)
        elif outcome is FetchOutcome.EXCLUDED:
            crawl.urls.settle(row, UrlState.EXCLUDED, verdict.reason)
        elif outcome is FetchOutcome.REDIRECT:
            if visited_before:
                visit.record_content(0, changed=False)  # a redirect has no text
                self._learn(row, visit)
            self._redirect(row, visit, first=first)
        elif row.operation:
            if outcome is FetchOutcome.PAGE:
                row.record_capture(visit)
                self.discovery.read(exchange, headers, row, visit)
            else:
                visit.record_content(0, changed=False)
            self.discovery.settle(row, changed=visit.changed)
        elif outcome is FetchOutcome.UNCHANGED:
            visit.record_content(0, changed=False)
            self._learn(row, visit)
            crawl.urls.settle(row, UrlState.VISITED)
        else:
            assert parsed is not None
            self._take_page(row, visit, parsed, visited_before=visited_before, first=first)
        crawl.scheduler.heads.wait_for(row)

    def _take_page(
        self,
        row: UrlRow,
        visit: Visit,
        parsed: ParsedExchange,
        *,
        visited_before: bool,
        first: bool,
    ) -> None:
        crawl = self.crawl
        progress = crawl.progress
        row.record_capture(visit)
        visit.record_fault(parsed.error, truncated=parsed.truncated)
        if parsed.error:
            progress.errors[parsed.error] += 1
        if parsed.error == FetchError.PARSE_CRASHED:
            crawl.urls.settle(row, UrlState.EXCLUDED, Exclusion.PARSE_CRASHED)
            return
        page = parsed.page
        was_held = is_held(row)
        text_digest = page.text_digest if page is not None else 0
        links_count = len(page.links if page is not None else parsed.links)
        changed = row.record_text(text_digest, first=not visited_before)
        visit.record_content(links_count, changed=changed)
        if visited_before:
            self._learn(row, visit)
        if page is None:
            self._process_links(row, visit, parsed, first=first)
            return
        for fault in FAULTS.intersection(page.faults):
            progress.errors[fault] += 1
        crawl.urls.settle(row, UrlState.VISITED)
        values = crawl.plugins.merged("page_parsed", page=page, visit=visit)
        crawl.buffer.batch.add_page(visit, page, row.redirect_from, values, links=first)
        if (
            visit.changed
            and self._page_matcher is not None
            and self._page_matcher.look(visit, page.text)
        ):
            self.before_commit()
        if not was_held:
            crawl.urls.count_page(row)
        assignment = crawl.assignments[row.collection]
        host = crawl.hosts.queue(row.id).row
        if first and not visited_before and assignment.collection.traps:
            crawl.traps.observe(host, row.id, page, visit.http_status)
        progress.add_page(page.language, public=_public(visit.ip))
        for reason, number in page.refused.items():
            assignment.gate.refuse(reason, number)
        if page.may_follow:
            assignment.gate.follow(row, page.links, self._clock.now_ms())
            self.discovery.from_page(row, page.links)
        else:
            assignment.gate.refuse(Refusal.NOFOLLOW, len(page.links))

    def _process_links(
        self, row: UrlRow, visit: Visit, parsed: ParsedExchange, *, first: bool
    ) -> None:
        """Follow the links of a response that is no page."""
        crawl = self.crawl
        crawl.urls.settle(row, UrlState.VISITED, parsed.error or "media_type")
        if parsed.links:
            if first:
                crawl.buffer.batch.add_links(visit, parsed.links)
            crawl.assignments[row.collection].gate.follow(row, parsed.links, self._clock.now_ms())

    def _learn(self, row: UrlRow, visit: Visit) -> None:
        """The visit says one bit about how often the page changes."""
        if self._interval_ms < 0:  # the clock was set back: the interval is unknown
            row.weigh_claims(0.0)
            return
        stats, interval_ms = ChangeStats(*row.history), max(self._interval_ms, 1)
        claimed = row.claim > 0
        # A claim that proved right brought the visit soon after the change: that there was one
        # tells nothing, when it was does.
        stats = (
            observe_dated(stats, interval_ms)
            if claimed and visit.changed
            else observe_change(stats, interval_ms, visit.changed)
        )
        if claimed or row.silence > 0:
            host = self.crawl.hosts.queue(row.id).row
            host.record_claims(*observe_claim(claim_trust(host), claimed, visit.changed))
        prior = self.crawl.assignments[row.collection].prior
        row.learn_changes(tuple(stats), rate(stats, prior))

    def _redirect(self, row: UrlRow, visit: Visit, *, first: bool) -> None:
        crawl = self.crawl
        crawl.urls.settle(row, UrlState.VISITED, "redirect")
        if row.operation:
            self.discovery.redirect(row, visit.redirect_to)
            return
        if first:
            crawl.buffer.batch.add_redirect(visit, redirect_link(visit.redirect_to))
        gate = crawl.assignments[row.collection].gate
        refused = gate.redirect(row, visit.redirect_to, self._clock.now_ms())
        if refused or row.redirects < crawl.config.fetch.max_redirects:
            return
        # The hop after the last one that is allowed: known, so that it can be explained, and
        # stopped.
        target = crawl.urls.find(row.collection, crawl.identifier.identify(visit.redirect_to))
        if target is not None:
            crawl.urls.stop_redirects(target)

    def _redirect_target(self, task: Task, verdict: Judgement) -> str:
        target = LinkResolver(task.identity.url).resolve(verdict.location)
        # rules of the web are on the web
        if isinstance(target, Refusal) or (
            task.kind is VisitKind.ROBOTS and target.startswith(OTHERS)
        ):
            return ""
        return target

    def _defer(self, row: UrlRow, verdict: Judgement) -> None:
        settings = self.crawl.config.fetch
        now_ms = self._clock.now_ms()
        row.record_failure(verdict.reason, now_ms)
        self.crawl.progress.errors[verdict.reason] += 1
        more = verdict.outcome is FetchOutcome.RETRY and row.fails <= settings.retries
        wait = (
            backoff_ms(settings.retry_wait, row.fails)
            if more
            else retry_wait_ms(self._failing, row.fails - self._retries)
        )
        wait = max(wait, verdict.wait_ms)
        row.defer_until(now_ms + max(wait, 1))
        self.crawl.urls.change(row)
        self.crawl.scheduler.heads.wait_for(row)

    def _collection_of(self, task: Task) -> str:
        """Whose visit a robots.txt is: the first collection that has URLs of the host."""
        queue = self.crawl.frontier.hosts.get(task.identity.host_key)
        names = list(queue.heads) if queue is not None else []
        return names[0] if names else next(iter(self.crawl.assignments))
