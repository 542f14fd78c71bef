"""Apply the outcome of an exchange to the URL's row of each collection: state, page, links."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lycosa.archive.warc.metadata import Revisited
from lycosa.core.errors import Exclusion, FetchError, Refusal
from lycosa.core.records import Exchange, Link, LinkKind, UrlRow, UrlState, Visit
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement
from lycosa.crawl.policy.page_budgets import is_held
from lycosa.crawl.processing.page_reader import (
    ParsedExchange,
    ParseFunction,
    parse_requisites,
)
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener, PageMatcher
from lycosa.crawl.state.task import Task
from lycosa.crawl.state.url_store import claim_trust
from lycosa.fetch.guard import is_public
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
from lycosa.http.decode import parse_head
from lycosa.page.documents.sink import FAULTS
from lycosa.page.html.markdown import MarkdownMode
from lycosa.url.file_types import READ_TYPES


class RowProcessor(CrawlListener):
    """Processes the rows of URLs.

    `parse` parses the page of an exchange; `page_matcher` is called with new and changed pages.
    """

    def __init__(
        self,
        crawl: CrawlState,
        discovery: Discovery,
        parse: ParseFunction,
        page_matcher: PageMatcher | None,
    ) -> None:
        self.crawl = crawl
        self.discovery = discovery
        self._parse_page = parse
        self._page_matcher = page_matcher
        self._retries = crawl.config.fetch.retries
        first = max(crawl.config.fetch.retry_later, 1)
        self._failing = RecrawlRules(
            failed_first_ms=first, failed_longest_ms=max(first, 7 * DAY_MS)
        )
        self._clock = crawl.clock
        self._interval_ms = 0  # since the last visit of the row that is being processed
        crawl.listeners.append(self)

    def before_commit(self) -> None:
        """Add the matches of watches to the batch with their pages."""
        if self._page_matcher is not None:
            for visit, match in self._page_matcher.take_matches():
                self.crawl.buffer.batch.add_match(visit, match)

    def process(
        self,
        exchange: Exchange,
        task: Task,
        visit: Visit,
        verdict: Judgement,
        revisit_of: Revisited | None,
    ) -> None:
        """Record the visit for every collection that requested the URL.

        The response is parsed once.
        """
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
                parsed = self._parse(exchange, task.rows)
            self._read_row(row, own, of_row, parsed, exchange, first=number == 0)
            self.crawl.buffer.batch.add_visit(own)
            page = parsed.page if parsed is not None else None
            for listener in self.crawl.listeners:
                listener.row_processed(row, own, page)

    def _parse(self, exchange: Exchange, rows: tuple[UrlRow, ...]) -> ParsedExchange:
        collections = [self.crawl.assignments[row.collection].collection for row in rows]
        stored = any(collection.markdown for collection in collections)
        parse = partial(
            self._parse_page,
            collections=[each.name for each in collections],
            markdown=MarkdownMode.MAIN if stored else None,
        )
        if not any(collection.requisites for collection in collections):
            return parse(exchange)
        types = [
            each for collection in collections for each in collection.media_types or READ_TYPES
        ]
        return parse_requisites(exchange, parse, types, self.crawl.config.fetch.max_decoded)

    def _read_row(
        self,
        row: UrlRow,
        visit: Visit,
        verdict: Judgement,
        parsed: ParsedExchange | None,
        exchange: Exchange,
        *,
        first: bool,
    ) -> None:
        crawl, outcome = self.crawl, verdict.outcome
        if outcome in (FetchOutcome.RETRY, FetchOutcome.LATER):
            self._defer(row, verdict)
            return
        if outcome is FetchOutcome.REDIRECT and self._needs_cookie(row, visit, exchange):
            self._request_again(row, verdict.reason, 0)
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
                self.discovery.read(exchange, row, visit)
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
        assignment = crawl.assignments[row.collection]
        if page.markdown is not None and not assignment.collection.markdown:
            page = replace(page, markdown=None)  # another collection of the URL stores it
        values = crawl.plugins.merged("page_parsed", page=page, visit=visit)
        crawl.buffer.batch.add_page(visit, page, row.redirect_from, values, links=first)
        if (
            visit.changed
            and self._page_matcher is not None
            and self._page_matcher.match_page(visit, page.text)
        ):
            self.before_commit()
        if not was_held:
            crawl.urls.count_page(row)
        host = crawl.hosts.queue(row.id).row
        if first and not visited_before and assignment.collection.traps:
            crawl.traps.observe(host, row.id, page, visit.http_status)
        progress.add_page(page.language, public=is_public(visit.ip))
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
        """Follow the links of a response that is not a page."""
        crawl = self.crawl
        crawl.urls.settle(row, UrlState.VISITED, parsed.error or "media_type")
        if parsed.links:
            if first:
                crawl.buffer.batch.add_links(visit, parsed.links)
            crawl.assignments[row.collection].gate.follow(row, parsed.links, self._clock.now_ms())

    def _learn(self, row: UrlRow, visit: Visit) -> None:
        """Update the estimate of the page's change rate."""
        if self._interval_ms < 0:  # the clock was set back: the interval is unknown
            row.weigh_claims(0.0)
            return
        stats, interval_ms = ChangeStats(*row.history), max(self._interval_ms, 1)
        claimed = row.claim > 0
        # A correct claim caused the visit soon after the change: the time of the visit is evidence
        # for the rate, the change itself is not.
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
            link = Link(visit.redirect_to, "", "", LinkKind.REDIRECT, 0)
            crawl.buffer.batch.add_links(visit, [link])
        gate = crawl.assignments[row.collection].gate
        refused = gate.redirect(row, visit.redirect_to, self._clock.now_ms())
        if refused or row.redirects < crawl.config.fetch.max_redirects:
            return
        # The redirect beyond the limit gets a row, so that it can be explained, and is stopped.
        target = crawl.urls.find(row.collection, crawl.identifier.identify(visit.redirect_to))
        if target is not None:
            crawl.urls.stop_redirects(target)

    def _needs_cookie(self, row: UrlRow, visit: Visit, exchange: Exchange) -> bool:
        """Return whether a redirect to the same URL may end when its cookies are sent back."""
        collection = self.crawl.assignments[row.collection].collection
        return (
            visit.redirect_to == row.id.url
            and not row.fails
            and parse_head(exchange.response_head).get("set-cookie") is not None
            and (collection.cookies or bool(collection.login))
        )

    def _defer(self, row: UrlRow, verdict: Judgement) -> None:
        settings, fails = self.crawl.config.fetch, row.fails + 1
        self.crawl.progress.errors[verdict.reason] += 1
        more = verdict.outcome is FetchOutcome.RETRY and fails <= settings.retries
        wait = (
            backoff_ms(settings.retry_wait, fails)
            if more
            else retry_wait_ms(self._failing, fails - self._retries)
        )
        self._request_again(row, verdict.reason, max(wait, verdict.wait_ms))

    def _request_again(self, row: UrlRow, reason: str, wait_ms: int) -> None:
        now_ms = self._clock.now_ms()
        row.record_failure(reason, now_ms)
        row.defer_until(now_ms + max(wait_ms, 1))
        self.crawl.urls.change(row)
        self.crawl.scheduler.heads.wait_for(row)
