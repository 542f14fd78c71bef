"""Connects a hunt with a crawl session: start pages, stored pages, and the URLs to fetch.

The best URL of each host is in the frontier, which enforces politeness. It is taken back when the
queue has a better one. Other URLs are not fetched: the links of the pages are recorded as in a
crawl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from lycosa.core.errors import UrlError
from lycosa.core.records import Link, Page, UrlId, UrlRow, UrlState, Visit
from lycosa.crawl.admission.remote_links import Way
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.frontier.scheduler.reach import Unvisited
from lycosa.graph.generation import PAGES, newest
from lycosa.hunt.hunt import Hunt, RelevantPage
from lycosa.index.shards.shards import newest_numbers
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier
from lycosa.url.scope import hostname

MAX_START_PAGES = 30
MIN_HOSTS = 64
"""Hosts with a URL in the frontier, or four per agent if that is more."""

_MAX_TRIES = 64  # URLs of a host that are tried at once for one that can be fetched
# stored pages that are read together, and how often before fetching goes on
_RECALLED_AT_ONCE, _MAX_RECALLS = 32, 4
_PAGE_COLUMNS = (
    "url",
    "title",
    "headline",
    "headings",
    "main_text",
    "text",
    "language",
    "published_at",
    "may_follow",
)


class HandedOut(Unvisited):
    """The URLs that the hunt has put into the frontier: all that the session may fetch."""

    def __init__(self) -> None:
        self.keys: set[int] = set()

    def admits(self, row: UrlRow) -> bool:
        return not row.operation and row.id.url_key in self.keys and super().admits(row)

    def condition(self) -> pl.Expr:
        return (
            super().condition()
            & (pl.col("operation") == "")
            & pl.col("url_key").is_in(pl.Series(list(self.keys), dtype=pl.UInt64).implode())
        )


@dataclass(slots=True, frozen=True)
class VisitedPages:
    """The visited pages of a workspace, from its index and tables."""

    workspace: Workspace
    tables: LiveTables

    def matching(self, text: str) -> list[str]:
        """Return the URLs of the best pages of the index for a query."""
        if not newest_numbers(self.workspace.storage):
            return []
        request = SearchRequest(text, count=MAX_START_PAGES, per_host=0)
        return [hit.url for hit in Searcher(self.workspace.root).search(request).hits]

    def well_linked(self) -> list[str]:
        """Return the pages with the highest rank; without ranks those nearest to a seed."""
        ranks = newest(self.workspace)
        if ranks is not None:
            pages = self.tables.scan("pages").select("partition", "host_key", "url_key", "url")
            best = pl.scan_parquet(ranks[1] / PAGES).select("url_key", "prior")
            joined = pages.join(best.top_k(MAX_START_PAGES, by="prior"), on="url_key").unique("url")
            urls = joined.sort("prior", "url", descending=[True, False]).collect()["url"].to_list()
            if urls:
                return list(urls)
        nearest = self.tables.scan("urls").filter(
            (pl.col("state") == "visited") & (pl.col("operation") == "") & (pl.col("reason") == "")
        )
        best = nearest.select("url", "depth").bottom_k(MAX_START_PAGES, by="depth")
        return best.collect()["url"].unique(maintain_order=True).to_list()

    def read(self, urls: Sequence[str]) -> list[tuple[str, Page, list[Link]]]:
        """Return visited URLs with the page and links of the last parse; omit all others."""
        identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        ids = [identifier.identify(url) for url in dict.fromkeys(urls)]

        def among(name: str, values: Iterable[int], kind: pl.DataType) -> pl.Expr:
            return pl.col(name).is_in(pl.Series(sorted(set(values)), dtype=kind).implode())

        # skips the row groups that cannot contain these keys
        here = (
            among("partition", (each.partition for each in ids), pl.UInt16())
            & among("host_key", (each.host_key for each in ids), pl.UInt64())
            & among("url_key", (each.url_key for each in ids), pl.UInt64())
        )
        pages, links = self._pages(here), self._links(here)
        return [
            (url, pages.get(url) or Page(), links.get(url, []))
            for url in dict.fromkeys(urls)
            if url in pages or url in links
        ]

    def _pages(self, here: pl.Expr) -> dict[str, Page]:
        rows = self.tables.all_rows("pages").filter(here).select("url_key", *_PAGE_COLUMNS, ENTRY)
        newest_rows = (
            rows.collect()
            .sort(ENTRY, maintain_order=True)
            .unique("url_key", keep="last")
            .select(*_PAGE_COLUMNS)
            .with_columns(pl.col("published_at").dt.epoch("ms"))
        )
        return {row.pop("url"): Page(**row) for row in newest_rows.iter_rows(named=True)}

    def _links(self, here: pl.Expr) -> dict[str, list[Link]]:
        columns = ("source", "target", "anchor", "rel", "kind", "position")
        rows = self.tables.all_rows("links").filter(here).select(*columns, "found_at", ENTRY)
        newest_rows = rows.collect()
        for column in (ENTRY, "found_at"):
            newest_rows = newest_rows.filter(pl.col(column) == pl.col(column).max().over("source"))
        links: dict[str, list[Link]] = {}
        for source, *link in newest_rows.sort("position").select(columns).iter_rows():
            links.setdefault(source, []).append(Link(*link))
        return links


def start_from_index(hunt: Hunt, stored: VisitedPages) -> tuple[int, int]:
    """Queue the links of matching pages of the index; without any, of well-linked pages.

    Return the number of both.
    """
    matching = stored.matching(hunt.query.text)
    urls = matching or stored.well_linked()
    for url, page, links in stored.read(urls):
        hunt.recall(url, page, links)
    return len(matching), 0 if matching else len(urls)


class HuntDispatcher(CrawlListener):
    """Puts the URLs of a hunt into the frontier of a session. `on_result` gets relevant pages.

    Pages that were fetched before are read with `stored`. `elsewhere`: there are other collections,
    whose pages count as fetched.
    """

    def __init__(
        self,
        hunt: Hunt,
        crawl: CrawlState,
        assignment: Assignment,
        on_result: Callable[[RelevantPage], None],
        stored: VisitedPages,
        *,
        agents: int,
        elsewhere: bool,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._hunt, self._crawl, self._assignment = hunt, crawl, assignment
        self._on_result, self._stored, self._elsewhere = on_result, stored, elsewhere
        self._recalls: list[str] = []  # fetched before; their links are not queued yet
        self._max_hosts = max(MIN_HOSTS, 4 * agents)
        self._handed_out = HandedOut()
        self._waiting: dict[str, tuple[str, UrlRow]] = {}  # host -> queued URL, its row
        self._queued: dict[int, tuple[str, str]] = {}  # URL key -> queued URL, host
        crawl.scheduler.agenda.restrict_to(self._handed_out)

    def begin(self) -> None:
        """Start, after the session has loaded its state: nothing of that is due."""
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
        self._handed_out.keys.discard(key)
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
            for url, page, links in self._stored.read(urls):
                self._hunt.recall(url, page, links)
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
        self._handed_out.keys.add(key)
        visited = self._visited_elsewhere(identity)
        row = self._row(url, identity) if not visited else None
        visited = visited or (row is not None and row.visited_at > 0)
        due = row is not None and row.state == UrlState.KNOWN
        if row is None or visited or not due or row.not_before > crawl.clock.now_ms():
            self._handed_out.keys.discard(key)
            self._fail(url, "")
            if visited:
                self._recalls.append(identity.url)
            return False
        row.priority = self._hunt.queue.score(url)
        crawl.urls.change(row)
        crawl.hosts.queue(row.id)
        crawl.frontier.add(row)
        self._queued[key] = (url, host)
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
        assignment.gate.admit(url, depth, crawl.clock.now_ms(), Way(via, anchor=anchor))
        return crawl.urls.find(assignment.name, identity)

    def _visited_elsewhere(self, identity: UrlId) -> bool:
        """Whether another collection has visited the URL."""
        return self._elsewhere and any(
            each.visited_at > 0 and not each.operation
            for each in self._crawl.scheduler.heads.stored([identity])
        )

    def _release(self, host: str, row: UrlRow) -> None:
        del self._waiting[host]
        self._queued.pop(row.id.url_key, None)
        self._handed_out.keys.discard(row.id.url_key)

    def _fail(self, url: str, reason: str) -> None:
        """Give up a URL; without a reason it is not counted (it was fetched before)."""
        if reason:
            self.failures[reason] += 1
        self._hunt.failed(url)
