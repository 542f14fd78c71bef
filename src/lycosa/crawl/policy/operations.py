"""Operations: processing of pages on request, such as searches for texts.

Pages that are linked from the page of an operation inherit it. An operation is a row of `urls` in
addition to the page's own, with an `operation` of `TYPE:ID` and its own key (decision 6): it
survives a kill, is sent to other workers, and is shown by `lycosa explain`. But it fetches nothing.
If the collection has a recent copy of the page, it processes that; otherwise it makes the page due,
and processes the response. So a page is fetched once for all requests, by robots.txt and its host's
clock, and is in the tables and the index like any other.

A type of operation is one registered function: from the ID of a request to its `Work`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from lycosa.core.errors import Exclusion
from lycosa.core.records import Link, Page, UrlId, UrlRow, UrlState, Visit
from lycosa.crawl.admission.discovery import Discovery
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.recovery.stored_pages import StoredPages
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener, PatternMatch

_EXCLUSIONS = frozenset(reason.value for reason in Exclusion)
# rows of a host that are processed together: each table read takes about 0.1 s
_BATCH_ROWS = 200
_RETRY_MS = 60_000  # retry interval for a page that is being fetched
_COMMITTED_SOON_MS = 3_000  # retry interval for a page that is not committed yet
_GATHER_MS = 500  # unchanged pages are looked up in one batch
_NOT_IN_THIS_TURN_MS = 1


class Work(Protocol):
    """The work of a request.

    `since_ms`: copies that were fetched before this time (ms since 1970) are too old.
    """

    since_ms: int

    def takes(self, url: str) -> bool:
        """Return whether the request concerns a URL."""
        ...

    def match(self, text: str) -> Iterable[PatternMatch]:
        """Return the matches in a page's text."""
        ...


OperationType = Callable[[str], Work | None]
"""ID of a request -> its work; None if the request does not exist.

May raise OSError: storage failed; the call is repeated.
"""


_Fresh = dict[tuple[str, int], tuple[Visit, Page | None]]
"""Recently fetched pages for operations, and redirects, by collection and URL key.

Bounded by the text of two commits.
"""


class Operations(CrawlListener):
    """Processes the rows of operations of one worker. `types` by name."""

    def __init__(
        self,
        crawl: CrawlState,
        discovery: Discovery,
        stored: StoredPages,
        types: Mapping[str, OperationType],
    ) -> None:
        crawl.listeners.append(self)
        self._crawl = crawl
        self._discovery = discovery
        self._stored = stored
        self._types = types
        self._works: dict[str, Work] = {}
        # otherwise a crawl would end too early
        self._longest_wait_ms = max(crawl.config.crawl.patience // 2, _GATHER_MS // 2)
        self._fresh: _Fresh = {}
        self._cut: _Fresh = {}
        self._cuts = 0
        # (collection, URL) -> operation -> row
        self._waiting: dict[tuple[str, int], dict[str, UrlRow]] = defaultdict(dict)

    def admit(self, collection: str, identity: UrlId, operation: str) -> bool:
        """Start an operation at a URL. Return whether it is new."""
        # fetched pages are cached for it from now on; after an OSError, once its row is due
        with suppress(OSError):
            self._work(operation)
        return self._discovery.admit(collection, identity, operation, "", 0)

    def serve(self, rows: tuple[UrlRow, ...]) -> None:
        """Process the rows of one URL from the frontier, and others of its host.

        The host is released, because nothing is fetched.
        """
        crawl, host_key = self._crawl, rows[0].id.host_key
        crawl.frontier.undo(host_key)
        now = crawl.clock.monotonic_ms()
        # so that operations do not take all of the worker's time
        crawl.frontier.delay(host_key, now, now + _NOT_IN_THIS_TURN_MS)
        for row in rows:
            self._serve(row.collection, row.operation, [row, *self._take_siblings(row)])

    def row_processed(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """Continue operations that wait for this page. `row`: after the visit."""
        if row.operation:
            return
        read = page is not None or (row.state == UrlState.VISITED and visit.redirect_to)
        if read and any(work.takes(row.id.url) for work in self._works.values()):
            self._remember(row, visit, page)
        for operation, waiting in self._waiting.pop((row.collection, row.id.url_key), {}).items():
            work = self._work(operation)
            self._crawl.frontier.active.remove(waiting.collection, waiting.id.host_key, waiting.key)
            if work is None:
                self._end(waiting, UrlState.EXCLUDED, Exclusion.OPERATION)
            elif read:
                self._continue(waiting, work, visit, page)
            elif row.state in (UrlState.GONE, UrlState.EXCLUDED):
                self._end(waiting, UrlState(row.state), row.reason)
            else:  # unchanged, or tried again later
                self._wait(waiting, max(row.not_before - self._crawl.clock.now_ms(), _GATHER_MS))

    # -- one host's rows
    # ------------------------------------------------------------

    def _take_siblings(self, row: UrlRow) -> list[UrlRow]:
        """Remove and return the frontier's due rows of this operation and host."""
        frontier = self._crawl.frontier
        head = frontier.hosts[row.id.host_key].heads.get(row.collection)
        others = (
            [each for each in head.rows() if each.operation == row.operation and each is not row]
            if head
            else []
        )
        now_ms = self._crawl.clock.now_ms()
        chosen = [each for each in others if each.not_before <= now_ms][: _BATCH_ROWS - 1]
        for each in chosen:
            frontier.active.remove(each.collection, each.id.host_key, each.key)
        return chosen

    def _serve(self, collection: str, operation: str, rows: list[UrlRow]) -> None:
        try:
            work = self._work(operation)
        except OSError:
            for row in rows:
                self._wait(row, _RETRY_MS)
            return
        if work is None:
            for row in rows:
                self._end(row, UrlState.EXCLUDED, Exclusion.OPERATION)
            return
        own = self._rows_of_pages(collection, rows)
        at_hand = [row for row in rows if self._has_recent_copy(row, own.get(row.id.url_key), work)]
        copies = self._stored.copies(collection, [row.id for row in at_hand])
        for row in at_hand:
            copy, page = copies.get(row.id.url_key), own[row.id.url_key]
            is_newest = (
                copy is not None
                and copy.visit is not None
                and copy.visit.record_id == page.record_id
            )
            if not is_newest and self._is_pending(page):
                self._wait(row, _COMMITTED_SOON_MS)
            elif copy is None:  # the fetched resource was not a page
                self._end_visited(row, page.visited_at, page.reason)
            elif copy.visit is None:
                self._inherit(row, work, [link.target for link in copy.links], redirects=1)
                self._end_visited(row, page.visited_at, "redirect")
            else:
                self._act(row, work, copy.visit, copy.text, copy.links)

    def _has_recent_copy(self, row: UrlRow, page: UrlRow | None, work: Work) -> bool:
        """Return whether a recent copy is stored.

        If not, the row is ended, or waits for a fetch.
        """
        crawl = self._crawl
        now_ms = crawl.clock.now_ms()
        if page is None:
            gate = crawl.assignments[row.collection].gate
            refused = gate.admit(row.id.url, row.depth, now_ms, Provenance(row.referrer))
            if refused:
                self._end(
                    row, UrlState.EXCLUDED, refused if refused in _EXCLUSIONS else Exclusion.SCOPE
                )
            else:
                self._wait(row, _RETRY_MS)
        elif page.state == UrlState.EXCLUDED:
            self._end(row, UrlState.EXCLUDED, page.reason)
        elif page.state != UrlState.KNOWN and page.visited_at >= work.since_ms:
            if page.state == UrlState.GONE:
                self._end(row, UrlState.GONE, page.reason)
            elif (fresh := self._remembered(page)) is not None:
                self._continue(row, work, *fresh)
            else:
                return True
        else:
            if page.state != UrlState.KNOWN:
                crawl.urls.make_due(page)
            # deferred for days by a budget or as a trap: no crawl waits for that
            postponed_ms = page.not_before - now_ms
            far = postponed_ms > 2 * self._longest_wait_ms
            self._wait(row, postponed_ms if far else _RETRY_MS, postponed=far)
        return False

    def _rows_of_pages(self, collection: str, rows: Iterable[UrlRow]) -> dict[int, UrlRow]:
        """Return the rows of the pages by URL key."""
        pages = self._crawl.urls.find_all(collection, [row.id for row in rows])
        return {page.id.url_key: page for page in pages}

    def _remember(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """Cache a page or redirect until the tables contain it, for other rows."""
        if self._cuts != self._crawl.buffer.cuts:
            self._cuts, self._cut, self._fresh = self._crawl.buffer.cuts, self._fresh, {}
        self._fresh[row.collection, row.id.url_key] = (visit, page)

    def _remembered(self, row: UrlRow) -> tuple[Visit, Page | None] | None:
        key = (row.collection, row.id.url_key)
        cached = self._fresh.get(key) or self._cut.get(key)
        return cached if cached is not None and cached[0].fetched_at == row.visited_at else None

    def _is_pending(self, page: UrlRow) -> bool:
        """Return whether the page's row is not committed yet."""
        return self._crawl.buffer.pending_url(page.id, page.collection, "") is not None

    # -- consequences
    # ------------------------------------------------------------

    def _work(self, operation: str) -> Work | None:
        work = self._works.get(operation)
        if work is None:
            kind, _, id = operation.partition(":")
            made = self._types.get(kind)
            work = made(id) if made is not None else None
            if work is not None:
                self._works[operation] = work
        return work

    def _continue(self, row: UrlRow, work: Work, visit: Visit, page: Page | None) -> None:
        """Process a fetched page, or a redirect (without a page)."""
        if page is not None:
            self._act(row, work, visit, page.text, page.links if page.may_follow else ())
        else:
            self._inherit(row, work, (visit.redirect_to,), redirects=1)
            self._end_visited(row, visit.fetched_at, "redirect")

    def _act(self, row: UrlRow, work: Work, visit: Visit, text: str, links: Iterable[Link]) -> None:
        """Record the matches of a page, and pass the operation on."""
        for match in work.match(text):
            self._crawl.buffer.batch.add_match(visit, match)
        gate = self._crawl.assignments[row.collection].gate
        self._inherit(row, work, gate.followed(links))
        self._end_visited(row, visit.fetched_at)

    def _inherit(
        self, row: UrlRow, work: Work, targets: Iterable[str], *, redirects: int = 0
    ) -> None:
        assignment = self._crawl.assignments[row.collection]
        gate, now_ms = assignment.gate, self._crawl.clock.now_ms()
        depth = row.depth + (not redirects)
        hops = row.redirects + redirects if redirects else 0
        if hops > self._crawl.config.fetch.max_redirects or (
            gate.depth_limit is not None and depth > gate.depth_limit
        ):
            return
        for target in dict.fromkeys(targets):
            url = gate.rewrite(target)
            if not url or not work.takes(url) or not gate.takes(url):
                continue
            identity = self._crawl.identifier.identify(url)
            is_page = not gate.holds(identity) or assignment.knows(identity)
            if is_page or not gate.admit(url, depth, now_ms, Provenance(row.id.url)):
                self._discovery.admit(
                    row.collection, identity, row.operation, row.id.url, depth, hops
                )

    def _wait(self, row: UrlRow, wait_ms: int, *, postponed: bool = False) -> None:
        """Process a row again after `wait_ms`, or when its page is processed.

        A crawl does not end before, unless the row is `postponed`.
        """
        self._waiting[row.collection, row.id.url_key][row.operation] = row
        wait_ms = wait_ms if postponed else min(wait_ms, self._longest_wait_ms)
        row.defer_until(self._crawl.clock.now_ms() + wait_ms)
        self._crawl.urls.change(row)
        self._crawl.scheduler.heads.wait_for(row)

    def _end_visited(self, row: UrlRow, visited_at: int, reason: str = "") -> None:
        row.record_visit(visited_at)
        self._end(row, UrlState.VISITED, reason)

    def _end(self, row: UrlRow, state: UrlState, reason: str = "") -> None:
        row.defer_until(0)
        waiting = self._waiting.get((row.collection, row.id.url_key))
        if waiting is not None and waiting.pop(row.operation, None) is not None and not waiting:
            del self._waiting[row.collection, row.id.url_key]
        self._crawl.urls.settle(row, state, reason)
        self._crawl.scheduler.heads.wait_for(row)
