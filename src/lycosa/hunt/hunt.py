"""A hunt: scores of pages, the queue of their links, and the URLs that a crawl session fetches.

`Hunt` scores pages, ranks the relevant ones, and queues their links, without network, disk and
clock. `HuntDispatcher` connects it with a session: the best URL of each host is in the frontier,
which enforces politeness. It is removed when the queue has a better one. Other URLs are not
fetched: the links of the pages are recorded as in a crawl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from lycosa.core.errors import UrlError
from lycosa.core.records import Page, UrlId, UrlRow, UrlState, Visit
from lycosa.crawl.admission.remote_links import Provenance
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.frontier.scheduler.reach import Unvisited
from lycosa.hunt.links import HuntQueue, Lead, leads_of
from lycosa.hunt.relevance import RELEVANT, Evidence, HuntQuery
from lycosa.hunt.strategies import DEPTH, WIDTH, BestFirstSearch, FishSearch, SharkSearch
from lycosa.search.presentation.snippet import Snippet
from lycosa.url.scope import hostname

StrategyName = Literal["best", "fish", "shark"]
STRATEGIES: tuple[StrategyName, ...] = ("best", "fish", "shark")

MAX_RESULTS = 10_000
"""Relevant pages that are ranked."""

TOP = 10
"""Top results, whose links have precedence."""

_RANKED_EACH_PAGE = 300  # results up to which they are ranked again after each page

MIN_HOSTS = 64
"""Hosts with a URL in the frontier, or four per agent if that is more."""

_MAX_TRIES = 64  # URLs of a host that are tried at once for one that can be fetched
# stored pages that are read together, and number of such reads before fetching continues
_RECALLED_AT_ONCE, _MAX_RECALLS = 32, 4


@dataclass(slots=True, frozen=True)
class RelevantPage:
    """A result. `score`: relevance when it was fetched, 0 to 1; `number`: its ordinal among the
    fetched pages; `via`: the first page that linked to it, "" for a start page.
    """

    url: str
    title: str
    score: float
    snippet: Snippet
    language: str
    number: int
    via: str


class Hunt:
    """One hunt. `admits`: whether a URL may be fetched (scope). Not thread-safe."""

    def __init__(
        self,
        query: HuntQuery,
        strategy: StrategyName = "best",
        *,
        width: int = WIDTH,
        depth: int = DEPTH,
        admits: Callable[[str], bool] = lambda url: True,
        respect_nofollow: bool = True,
    ) -> None:
        self.query = query
        self.queue = HuntQueue(on_drop=self._drop)
        self.pages = 0
        self.relevant = 0
        self._admits, self._respect_nofollow = admits, respect_nofollow
        self._strategy: BestFirstSearch | FishSearch
        if strategy == "best":
            self._strategy = BestFirstSearch(query, self.queue)
        else:
            search = FishSearch if strategy == "fish" else SharkSearch
            self._strategy = search(query, width=width, depth=depth)
        self._done: set[str] = set()  # fetched, or not to be fetched
        # queued URL -> the first page that linked to it, and the anchor
        self._origins: dict[str, tuple[str, str]] = {}
        self._results: list[tuple[RelevantPage, Evidence]] = []

    def start(self, leads: Iterable[Lead]) -> None:
        """Queue start URLs."""
        self._enqueue(self._strategy.start(self._usable(leads), 1.0, ""), "")

    def add_stored_page(self, url: str, page: Page) -> None:
        """Queue the links of a page that was stored before. It is not a result."""
        _, score = self._judge(url, page, ())
        if page.may_follow:
            self._follow(url, page, score)

    def page(self, url: str, page: Page) -> RelevantPage | None:
        """Process a fetched page. Return it if it is relevant."""
        via, anchor = self.origin(url)
        self.pages += 1
        evidence, score = self._judge(url, page, (anchor,) if anchor else ())
        self._follow(url, page, score)
        result = None
        if score >= RELEVANT and page.may_index:
            self.relevant += 1
            title, snippet = page.title or page.headline or url, self.query.snippet(page)
            result = RelevantPage(url, title, score, snippet, page.language, self.pages, via)
            if len(self._results) < MAX_RESULTS:
                self._results.append((result, evidence))
        if self.pages % (1 + len(self._results) // _RANKED_EACH_PAGE) == 0:
            top = [each.url for each, _ in self.ranked()[:TOP]]
            self._enqueue(self._strategy.top(top), "")
        return result

    def redirected(self, url: str, target: str, host: str) -> None:
        """Replace a queued URL by the target of its redirect."""
        via, anchor = self.origin(url)
        self._remove(url)
        leads = [] if target in self.queue else self._usable([Lead(target, host, anchor)])
        self._enqueue(self._strategy.start(leads, 1.0, ""), via)

    def failed(self, url: str) -> None:
        """Give up a URL."""
        self._remove(url)
        self._strategy.drop(url)

    def fetching(self, url: str) -> None:
        """Remove a URL from the queue while it is fetched."""
        self._done.add(url)
        self.queue.remove(url)

    def ranked(self) -> list[tuple[RelevantPage, float]]:
        """Return the relevant pages with their current scores, best first."""
        scored = [(each, self.query.relevance(evidence)) for each, evidence in self._results]
        return sorted(scored, key=lambda entry: (-entry[1], entry[0].number))

    def origin(self, url: str) -> tuple[str, str]:
        """Return the first page that linked to a queued URL, and the anchor."""
        return self._origins.get(url, ("", ""))

    def _remove(self, url: str) -> None:
        self.fetching(url)
        self._origins.pop(url, None)

    def _judge(self, url: str, page: Page, anchors: Sequence[str]) -> tuple[Evidence, float]:
        self._remove(url)
        evidence = self.query.evidence(url, page, anchors)
        self.query.add_statistics(evidence)
        return evidence, self.query.relevance(evidence)

    def _follow(self, url: str, page: Page, score: float) -> None:
        leads = leads_of(url, page, respect_nofollow=self._respect_nofollow)
        self._enqueue(self._strategy.fetched(url, score), "")
        scored = self._strategy.links(
            url, score, score >= RELEVANT, self._usable(leads), page.language
        )
        self._enqueue(scored, url)

    def _usable(self, leads: Iterable[Lead]) -> list[Lead]:
        return [
            lead
            for lead in leads
            if lead.url not in self._done and (lead.url in self.queue or self._admits(lead.url))
        ]

    def _enqueue(self, scored: Iterable[tuple[Lead, float]], via: str) -> None:
        for lead, score in scored:
            if lead.url not in self._done:
                self.queue.put(lead.url, lead.host, score)
                self._origins.setdefault(lead.url, (via, lead.anchor))

    def _drop(self, url: str) -> None:
        self._origins.pop(url, None)
        self._strategy.drop(url)


class QueuedUrls(Unvisited):
    """The URLs that the hunt has put into the frontier: all that the session may fetch."""

    def __init__(self) -> None:
        self.by_key: dict[int, tuple[str, str]] = {}  # URL key -> URL in the hunt's queue, host

    def admits(self, row: UrlRow) -> bool:
        return not row.operation and row.id.url_key in self.by_key and super().admits(row)

    def condition(self) -> pl.Expr:
        return (
            super().condition()
            & (pl.col("operation") == "")
            & pl.col("url_key").is_in(pl.Series(list(self.by_key), dtype=pl.UInt64).implode())
        )


class HuntDispatcher(CrawlListener):
    """Puts the URLs of a hunt into the frontier of a session. `on_result` gets relevant pages.

    `read` returns pages that were fetched before. `elsewhere`: there are other collections,
    whose pages count as fetched.
    """

    def __init__(
        self,
        hunt: Hunt,
        crawl: CrawlState,
        assignment: Assignment,
        on_result: Callable[[RelevantPage], None],
        read: Callable[[Sequence[str]], list[tuple[str, Page]]],
        *,
        agents: int,
        elsewhere: bool,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._hunt, self._crawl, self._assignment = hunt, crawl, assignment
        self._on_result, self._read, self._elsewhere = on_result, read, elsewhere
        self._recalls: list[str] = []  # fetched before; their links are not queued yet
        self._max_hosts = max(MIN_HOSTS, 4 * agents)
        queued = QueuedUrls()
        self._queued = queued.by_key
        self._waiting: dict[str, tuple[str, UrlRow]] = {}  # host -> queued URL, its row
        crawl.scheduler.agenda.restrict_to(queued)

    def begin(self) -> None:
        """Start, after the session has loaded its state: no URL of that state is due."""
        self._crawl.scheduler.parked.clear_due()
        self._crawl.listeners.append(self)
        self.dispatch()

    def may_become_due(self) -> bool:
        """Dispatch again: URLs may have been refused without an exchange."""
        return self.dispatch() > 0 or bool(self._recalls)

    def row_processed(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """Process the outcome of an exchange."""
        key = row.id.url_key
        if row.collection != self._assignment.name or row.operation or key not in self._queued:
            return
        url, host = self._queued.pop(key)
        if self._waiting.get(host, ("",))[0] == url:
            del self._waiting[host]
        if page is not None and row.state == UrlState.VISITED:
            result = self._hunt.page(url, page)
            if result is not None:
                self._on_result(result)
        elif visit.redirect_to and row.state == UrlState.VISITED:
            try:
                self._hunt.redirected(url, visit.redirect_to, hostname(visit.redirect_to))
            except UrlError:
                self._fail(url, "bad_redirect")
        else:
            # the crawl may retry it later; a hunt does not wait
            self._crawl.frontier.active.remove(row.collection, row.id.host_key, row.key)
            status = f"http_{visit.http_status}" if visit.http_status != 200 else row.reason
            self._fail(url, visit.error or status or "no_page")
        self.dispatch()

    def dispatch(self) -> int:
        """Put the best URL of each host into the frontier. Return the number of new ones."""
        self._check_waiting()
        number = self._dispatch()
        for _ in range(_MAX_RECALLS):
            if not self._recalls:
                break
            urls, self._recalls = self._recalls, []
            for url, page in self._read(urls):
                self._hunt.add_stored_page(url, page)
            number += self._dispatch()
        return number

    def _dispatch(self) -> int:
        number = 0
        for _, best_url, host in self._hunt.queue.best_of_hosts(self._max_hosts):
            if host in self._waiting:
                url, row = self._waiting[host]
                if url == best_url:
                    continue
                self._release(host, row)
                self._crawl.frontier.active.remove(row.collection, row.id.host_key, row.key)
            best: tuple[float, str] | None = (0.0, best_url)
            for _ in range(_MAX_TRIES):
                if best is None or self._hand_out(best[1], host):
                    break
                best = self._hunt.queue.best(host)
                if len(self._recalls) >= _RECALLED_AT_ONCE:
                    best = None
            else:
                best = None
            number += best is not None
        return number

    def _check_waiting(self) -> None:
        """Find URLs that are being fetched, or were refused (robots.txt, a budget, a trap)."""
        now_ms = self._crawl.clock.now_ms()
        for host, (url, row) in list(self._waiting.items()):
            if row.key in self._crawl.in_flight:
                del self._waiting[host]
                self._hunt.fetching(url)
            elif row.state != UrlState.KNOWN or row.not_before > now_ms:
                self._release(host, row)
                self._fail(url, row.reason or row.state)

    def _hand_out(self, url: str, host: str) -> bool:
        """Put a queued URL into the frontier. Return false if it cannot be fetched, or was."""
        crawl = self._crawl
        try:
            identity = self._assignment.gate.identify(url)
        except UrlError as error:
            self._fail(url, error.reason)
            return False
        key = identity.url_key
        if key in self._queued:
            self._fail(url, "")
            return False
        self._queued[key] = (url, host)
        visited = self._visited_elsewhere(identity)
        row = self._row(url, identity) if not visited else None
        visited = visited or (row is not None and row.visited_at > 0)
        due = row is not None and row.state == UrlState.KNOWN
        if row is None or visited or not due or row.not_before > crawl.clock.now_ms():
            del self._queued[key]
            self._fail(url, "")
            if visited:
                self._recalls.append(identity.url)
            return False
        row.priority = self._hunt.queue.score(url)
        crawl.urls.change(row)
        crawl.hosts.queue(row.id)
        crawl.frontier.add(row)
        self._waiting[host] = (url, row)
        return True

    def _row(self, url: str, identity: UrlId) -> UrlRow | None:
        """Return the row of a URL, which is admitted if it is new; None if it is refused."""
        crawl, assignment = self._crawl, self._assignment
        row = crawl.urls.find(assignment.name, identity)
        if row is not None:
            return row
        if assignment.knows(identity):
            stored = crawl.scheduler.heads.stored([identity])
            own = (assignment.name, "")
            return next((each for each in stored if (each.collection, each.operation) == own), None)
        via, anchor = self._hunt.origin(url)
        depth = 0
        if via:
            source = assignment.gate.identify(via)
            depth = (assignment.seen.depth(source) or 0) + 1 if assignment.knows(source) else 1
        assignment.gate.admit(url, depth, crawl.clock.now_ms(), Provenance(via, anchor=anchor))
        return crawl.urls.find(assignment.name, identity)

    def _visited_elsewhere(self, identity: UrlId) -> bool:
        """Return whether another collection has visited the URL."""
        return self._elsewhere and any(
            each.visited_at > 0 and not each.operation
            for each in self._crawl.scheduler.heads.stored([identity])
        )

    def _release(self, host: str, row: UrlRow) -> None:
        del self._waiting[host]
        self._queued.pop(row.id.url_key, None)

    def _fail(self, url: str, reason: str) -> None:
        """Give up a URL; without a reason it is not counted (it was fetched before)."""
        if reason:
            self.failures[reason] += 1
        self._hunt.failed(url)
