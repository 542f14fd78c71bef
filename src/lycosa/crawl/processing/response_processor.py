"""Process exchanges: archive first, then act.

`process` appends the exchange to the open WARC before it changes any state, so all rows can be
restored from the archive. Live and replayed exchanges are processed by the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from lycosa.archive.warc.metadata import Revisited
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import FetchError, Refusal
from lycosa.core.host_row import HostRow
from lycosa.core.records import Exchange, UrlRow, Visit, VisitKind
from lycosa.crawl.admission.discovery import KINDS, Discovery
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.policy.host_delay import HostPauses
from lycosa.crawl.policy.outcome import FetchOutcome, Judgement, judge, revisit_target
from lycosa.crawl.processing.page_reader import (
    ItemExtractor,
    ParsedExchange,
    ParseFunction,
    Reader,
)
from lycosa.crawl.processing.prerequisites import RobotsProcessor
from lycosa.crawl.processing.row_processor import RowProcessor
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import PageMatcher
from lycosa.crawl.state.task import Task, build_visit
from lycosa.fetch.robots_txt import product_token, robots_verdict
from lycosa.page.html.markdown import MarkdownMode
from lycosa.url.normalise import LinkResolver
from lycosa.url.schemes import OTHERS


@dataclass(slots=True, frozen=True)
class Replayed:
    """Data of an exchange that an earlier run archived.

    `visit`: as it was archived; `revisit_of`: the capture to which a revisit refers.
    """

    visit: Visit
    revisit_of: Revisited | None = None


_UNKNOWN_NAME_MS = 3_600_000  # retry interval of a host with a name that does not exist
_MAX_UNPARSED_PER_HOST = 4
"""Maximum waiting documents of a host that do not delay its next fetch."""


@dataclass(slots=True, frozen=True)
class _UnparsedDocument:
    """An archived document that is being parsed. `booked`: host was released."""

    record_id: str
    booked: bool


class ResponseProcessor:
    """Processes exchanges one after the other.

    `page_matcher` is called with new and changed pages. `mark` is called with the URL of a page
    before it is parsed, and with "" after it; documents have time limits of their own. `extractor`
    extracts the items of pages.
    """

    def __init__(
        self,
        crawl: CrawlState,
        discovery: Discovery,
        *,
        page_matcher: PageMatcher | None = None,
        mark: Callable[[str], None] = lambda _: None,
        extractor: ItemExtractor | None = None,
    ) -> None:
        fetch = crawl.config.fetch
        self.crawl = crawl
        jobs = (each.collection for each in crawl.assignments.values())
        self._mark = mark
        self.documents = DocumentPool(
            document_limits(crawl.config),
            markdown=MarkdownMode.MAIN if any(each.markdown for each in jobs) else None,
            before_read=partial(mark, ""),
        )
        self._reader = Reader(
            fetch.max_decoded, product_token(fetch.user_agent), self.documents, extractor
        )
        self._read: ParseFunction = self._reader
        self.discovery = discovery
        self._rows = RowProcessor(crawl, discovery, self.parse, page_matcher)
        self._rest = HostPauses(crawl)
        self._robots = RobotsProcessor(crawl, discovery, self._rest)
        self._retries = fetch.retries
        self._clock = crawl.clock
        self._unparsed_documents: dict[int, _UnparsedDocument] = {}  # by `id` of the exchange
        self._unparsed: Counter[int] = Counter()  # documents that are being parsed, by host

    def process(self, exchange: Exchange, task: Task, replayed: Replayed | None = None) -> None:
        """Archive an exchange, then apply it. A replayed one keeps its record ID."""
        crawl = self.crawl
        verdict = self._judge(exchange, task)
        first = task.rows[0] if task.rows else None
        name = first.collection if first else task.collection or self._collection_of(task)
        unparsed = self._unparsed_documents.pop(id(exchange), None)
        if unparsed is not None:
            crawl.hosts.queue(task.identity)  # the host may have been parked since
        archived = unparsed or (replayed.visit if replayed is not None else None)
        record_id = archived.record_id if archived is not None else ""
        visit = build_visit(exchange, task, name, record_id)
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
            # a login or requisite: its requester processes it
            crawl.buffer.batch.add_visit(visit)
        else:
            crawl.in_flight.pop(task.key, None)
            self._rows.process(exchange, task, visit, verdict, revisit_of)
        self._host_row(task).add_bytes(len(exchange.body))
        if unparsed is None or not unparsed.booked:
            self._rest.book(task, exchange, verdict, visit.server)
        if verdict.reason == FetchError.NAME_UNKNOWN:
            self._rest.rest(crawl.frontier.hosts[task.identity.host_key], _UNKNOWN_NAME_MS)
        if replayed is None and (
            task.kind is VisitKind.ROBOTS
            or any(row.depth == 0 and not row.operation for row in task.rows)
        ):
            self._note_failure(exchange, task, verdict, visit.redirect_to)
        if unparsed is not None:
            self._finish_unparsed(unparsed, task)

    def archive_unparsed(
        self, exchange: Exchange, task: Task, *, to_render: bool = False
    ) -> Callable[[], bytes] | None:
        """Archive a document that is parsed later, and release its host.

        Returns a function that returns its body; process the exchange when it is parsed. Returns
        None and does nothing if nothing is to be parsed: process the exchange now. A page
        `to_render` is always archived, because its rendered content may change while its bytes do
        not; and its host is always released, because its resources are requested from it. Other
        documents do not release their host while too many of its documents wait.
        """
        crawl = self.crawl
        verdict = self._judge(exchange, task)
        if verdict.outcome is not FetchOutcome.PAGE or not task.rows:
            return None
        revisit = revisit_target(exchange, verdict, task.rows)
        if (
            not to_render
            and revisit is not None
            and all(row.record_id and row.digest == revisit.digest for row in task.rows)
        ):
            return None
        visit = build_visit(exchange, task, task.rows[0].collection)
        crawl.buffer.unparsed.archive(exchange, visit)
        key = task.identity.host_key
        booked = to_render or self._unparsed[key] < _MAX_UNPARSED_PER_HOST
        self._unparsed_documents[id(exchange)] = _UnparsedDocument(visit.record_id, booked)
        self._unparsed[key] += 1
        for row in task.rows:
            crawl.assignments[row.collection].unparsed += 1
        if booked:
            self._rest.book(task, exchange, verdict, visit.server)
        return partial(crawl.buffer.unparsed.body, visit.record_id)

    def _judge(self, exchange: Exchange, task: Task) -> Judgement:
        verdict = judge(
            exchange,
            now_ms=self._clock.now_ms(),
            last_attempt=any(row.fails >= self._retries for row in task.rows),
        )
        if verdict.outcome is FetchOutcome.UNCHANGED and not all(r.record_id for r in task.rows):
            return Judgement(FetchOutcome.RETRY, verdict.reason)  # the request had no condition
        return verdict

    def parse(
        self,
        exchange: Exchange,
        collections: Sequence[str] = (),
        *,
        markdown: MarkdownMode | None = None,
    ) -> ParsedExchange:
        """Parse the page of an exchange, with the items of these collections."""
        self._mark(exchange.url)
        parsed = self._read(exchange, collections, markdown=markdown)
        self._mark("")
        return parsed

    @contextmanager
    def parsing_in_a_child(self) -> Iterator[None]:
        """Parse pages in a child process, because they may kill the parser."""
        from lycosa.crawl.documents.sandbox import ChildReader

        read = self._read
        with closing(ChildReader(self._reader)) as child:
            self._read = child
            yield
        self._read = read

    def _note_failure(
        self, exchange: Exchange, task: Task, verdict: Judgement, redirect_to: str
    ) -> None:
        """Report why a seed, or all of its host, cannot be fetched."""
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
            robots_verdict(exchange.status) == "deny_all"
            if task.kind is VisitKind.ROBOTS
            else verdict.outcome in (FetchOutcome.LATER, FetchOutcome.RETRY, FetchOutcome.GONE)
        ):
            self.crawl.progress.fail(exchange.url, verdict.reason)
        elif verdict.outcome is FetchOutcome.REDIRECT and task.rows:
            gates = (self.crawl.assignments[row.collection].gate for row in task.rows)
            if not any(gate.takes(redirect_to) for gate in gates):
                self.crawl.progress.fail(
                    exchange.url,
                    f"it redirects to {redirect_to}, which is not in the scope: crawl that URL, or "
                    "choose another scope",
                )

    def _finish_unparsed(self, unparsed: _UnparsedDocument, task: Task) -> None:
        crawl, key = self.crawl, task.identity.host_key
        crawl.buffer.unparsed.moved(unparsed.record_id, crawl.buffer.cuts + 1)
        self._unparsed[key] -= 1
        if not self._unparsed[key]:
            del self._unparsed[key]
        for row in task.rows:
            crawl.assignments[row.collection].unparsed -= 1

    def _host_row(self, task: Task) -> HostRow:
        """Return the row of the requested host, for changes."""
        row = self.crawl.hosts.queue(task.identity).row
        self.crawl.buffer.batch.change_host(row)
        return row

    def replay(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Process an exchange that an earlier worker had archived."""
        if task.kind is VisitKind.ROBOTS:
            self.crawl.drop_prerequisites(task.origin)
        self.crawl.frontier.start(task.identity.host_key, self._clock.monotonic_ms())
        self.process(exchange, task, replayed)
        if any(waiting.origin == task.origin for waiting in self.crawl.prerequisites):
            # another attempt, or the next redirect
            self.crawl.frontier.hold(self.crawl.identifier.identify(f"{task.origin}/").host_key)

    def record(self, exchange: Exchange, task: Task, replayed: Replayed) -> None:
        """Archive an exchange that is older than the tables' row of its URL.

        Nothing else follows from it.
        """
        collection = task.rows[0].collection
        visit = build_visit(exchange, task, collection, replayed.visit.record_id)
        visit.record_redirect(replayed.visit.redirect_to)
        visit.record_content(0, changed=False)
        self.crawl.buffer.batch.archive(exchange, visit, replayed.revisit_of)
        self.crawl.progress.add_visit(visit)
        self.crawl.buffer.batch.add_visit(visit)

    def process_links_only(self, exchange: Exchange, visit: Visit) -> None:
        """Apply the links of an exchange in a remote partition.

        Only links into held partitions are applied; the other worker does everything else.
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
        verdict = judge(exchange, now_ms=now_ms, last_attempt=True)
        with gate.uncounted():  # the other worker counts refused links
            if (
                verdict.outcome is FetchOutcome.REDIRECT
                and not operation
                and visit.redirect_to
                and gate.holds_target(visit.redirect_to)
            ):
                gate.redirect(row, visit.redirect_to, now_ms)
            elif verdict.outcome is FetchOutcome.PAGE and not operation:
                page = self.parse(exchange).page
                if page is not None and page.may_follow:
                    here = [link for link in page.links if gate.holds_target(link.target)]
                    gate.follow(row, here, now_ms)

    def _redirect_target(self, task: Task, verdict: Judgement) -> str:
        target = LinkResolver(task.identity.url).resolve(verdict.location)
        # a robots.txt for http cannot be at an ftp or gopher URL
        if isinstance(target, Refusal) or (
            task.kind is VisitKind.ROBOTS and target.startswith(OTHERS)
        ):
            return ""
        return target

    def _collection_of(self, task: Task) -> str:
        """Return the collection of a robots.txt: the first with URLs of the host."""
        queue = self.crawl.frontier.hosts.get(task.identity.host_key)
        names = list(queue.heads) if queue is not None else []
        return names[0] if names else next(iter(self.crawl.assignments))
