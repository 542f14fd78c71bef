"""Between a hunt's list and the crawl: hands the best URL of each host to the frontier, which asks
when politeness allows, and tells the hunt what came of it.

Of each host one URL waits in the frontier at a time, and is taken back when the list has a better
one, so the order is the list's, whatever is learned meanwhile. What a hunt does not hand over is
not fetched: the links of its pages are known like a crawl's, and rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import polars as pl

from lycosa.core.errors import UrlError
from lycosa.core.records import Link, Page, UrlId, UrlRow, UrlState, Visit
from lycosa.crawl.admission.remote_links import Way
from lycosa.crawl.state.assignment import Assignment
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.events import CrawlListener
from lycosa.frontier.scheduler.reach import Unvisited
from lycosa.hunt.hunt import Found, Hunt
from lycosa.url.scope import hostname

HOSTS_A_LOOK = 64
"""Hosts that have a URL in the frontier at once, at least; four for each agent if that is more."""

_TRIES = 64  # URLs of a host that are looked at in one go for one that can be fetched
# visited pages that are read together; and how often before fetching goes on
_RECALLED_AT_ONCE, _RECALLS = 32, 4

Recall = Callable[[Sequence[str]], Iterable[tuple[str, Page, Sequence[Link]]]]
"""Of these URLs, those that were visited: with their pages and links."""


class Handed(Unvisited):
    """The URLs that a hunt has handed over: all that its call may fetch."""

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


class HuntDealer(CrawlListener):
    """Deals a hunt's URLs out to one session's frontier. `found` is told of relevant pages as they
    come.

    `recall` gives pages that were visited before, with their links: a hunt goes through them
    without fetching them again. `elsewhere`: whether the workspace has other collections, whose
    pages count as visited too.
    """

    def __init__(
        self,
        hunt: Hunt,
        crawl: CrawlState,
        assignment: Assignment,
        found: Callable[[Found], None],
        recall: Recall,
        *,
        agents: int,
        elsewhere: bool,
    ) -> None:
        self.failed: Counter[str] = Counter()
        self._hunt = hunt
        self._crawl = crawl
        self._assignment = assignment
        self._found = found
        self._recall = recall
        self._elsewhere = elsewhere
        # visited before, as the tables name them; their links are not listed yet
        self._recalled: list[str] = []
        self._hosts = max(HOSTS_A_LOOK, 4 * agents)
        self._only = Handed()
        # host -> what was handed over for it: the URL as listed, its row
        self._waiting: dict[str, tuple[str, UrlRow]] = {}
        # URL key of a row -> the URL as it was listed, and its host
        self._names: dict[int, tuple[str, str]] = {}
        crawl.scheduler.agenda.only = self._only

    def begin(self) -> None:
        """After the session took up what is stored: nothing of it is due but what is dealt."""
        crawl = self._crawl
        crawl.scheduler.parked.clear_due()
        crawl.events.add(self)
        self.deal()

    def may_become_due(self) -> bool:
        """What was handed over may be refused without an exchange. When nothing else goes on, that
        is the end unless others follow.
        """
        return self.deal() > 0 or bool(self._recalled)

    def row_processed(self, row: UrlRow, visit: Visit, page: Page | None) -> None:
        """An exchange of ours was processed."""
        key = row.id.url_key
        if row.collection != self._assignment.name or row.operation or key not in self._names:
            return
        url, host = self._names.pop(key)
        self._only.keys.discard(key)
        waiting = self._waiting.get(host)
        if waiting is not None and waiting[0] == url:
            del self._waiting[host]
        if page is not None and row.state == UrlState.VISITED:
            found = self._hunt.page(url, page)
            if found is not None:
                self._found(found)
        elif visit.redirect_to and row.state == UrlState.VISITED:
            self._redirected(url, visit.redirect_to)
        else:
            # It may be asked for again later, as the crawl's rules have it; a hunt does not wait
            # for that.
            self._crawl.frontier.active.remove(row.collection, row.id.host_key, row.key)
            self._fail(
                url,
                visit.error
                or (f"http_{visit.http_status}" if visit.http_status != 200 else row.reason)
                or "no_page",
            )
        self.deal()

    def deal(self) -> int:
        """Hand over what the list has for each host, the best hosts first; take back what was
        handed over and is not the best now. Returns how many were handed over.
        """
        self._look_after()
        handed = self._deal()
        for _ in range(_RECALLS):
            if not self._recalled:
                break
            urls, self._recalled = self._recalled, []
            for url, page, links in self._recall(urls):
                self._hunt.recall(url, page, links)
            handed += self._deal()
        return handed

    def _deal(self) -> int:
        handed = 0
        for _, url, host in self._hunt.listed.best_of_hosts(self._hosts):
            waiting = self._waiting.get(host)
            if waiting is not None:
                if waiting[0] == url:
                    continue
                self._take_back(host, *waiting)
            best: tuple[float, str] | None = (0.0, url)
            tried = 0
            while best is not None and not self._hand(best[1], host):
                tried += 1
                best = (
                    self._hunt.listed.best(host)
                    if tried < _TRIES and len(self._recalled) < _RECALLED_AT_ONCE
                    else None
                )
            handed += best is not None
        return handed

    def _look_after(self) -> None:
        """What was handed over may be on its way, or may have been refused meanwhile (robots.txt, a
        budget, a trap): then another one is its host's next.
        """
        now_ms = self._crawl.clock.now_ms()
        for host, (url, row) in list(self._waiting.items()):
            if row.key in self._crawl.in_flight:
                del self._waiting[host]
                self._hunt.taken(url)
            elif row.state != UrlState.KNOWN or row.not_before > now_ms:
                del self._waiting[host]
                self._drop(url, row, row.reason or row.state)

    def _hand(self, url: str, host: str) -> bool:
        """Put a listed URL into the frontier. False: it cannot be fetched, or was before; it is off
        the list.
        """
        crawl, gate = self._crawl, self._assignment.gate
        try:
            identity = gate.identify(url)
        except UrlError as error:
            self._fail(url, error.reason)
            return False
        key = identity.url_key
        if key in self._names:
            self._fail(url, "")
            return False
        self._only.keys.add(key)
        visited = self._visited_elsewhere(identity)
        row = self._row(url, identity) if not visited else None
        visited = visited or (row is not None and row.visited_at > 0)
        if (
            row is None
            or visited
            or row.state != UrlState.KNOWN
            or row.not_before > crawl.clock.now_ms()
        ):
            self._only.keys.discard(key)
            self._fail(url, "")
            if visited:
                self._recalled.append(identity.url)
            return False
        row.priority = self._hunt.listed.score(url) or 0.0
        crawl.urls.change(row)
        crawl.hosts.queue(row.id)
        crawl.frontier.add(row)
        self._names[key] = (url, host)
        self._waiting[host] = (url, row)
        return True

    def _row(self, url: str, identity: UrlId) -> UrlRow | None:
        """The row of a URL, admitted if it is not known. None: it is refused, which the gate
        counts.
        """
        crawl, assignment = self._crawl, self._assignment
        row = crawl.urls.find(assignment.name, identity)
        if row is not None:
            return row
        if assignment.knows(identity):
            return next(
                (
                    each
                    for each in crawl.scheduler.heads.stored([identity])
                    if (each.collection, each.operation) == (assignment.name, "")
                ),
                None,
            )
        via, anchor = self._hunt.via(url)
        depth = 0
        if via:
            source = assignment.gate.identify(via)
            depth = (assignment.seen.depth(source) or 0) + 1 if assignment.knows(source) else 1
        assignment.gate.admit(url, depth, crawl.clock.now_ms(), Way(via, anchor=anchor))
        return crawl.urls.find(assignment.name, identity)

    def _visited_elsewhere(self, identity: UrlId) -> bool:
        """Whether another collection has visited it."""
        return self._elsewhere and any(
            each.visited_at > 0 and not each.operation
            for each in self._crawl.scheduler.heads.stored([identity])
        )

    def _redirected(self, url: str, target: str) -> None:
        try:
            host = hostname(target)
        except UrlError:
            self._fail(url, "bad_redirect")
            return
        self._hunt.redirected(url, target, host)

    def _take_back(self, host: str, url: str, row: UrlRow) -> None:
        del self._waiting[host]
        del self._names[row.id.url_key]
        self._only.keys.discard(row.id.url_key)
        self._crawl.frontier.active.remove(row.collection, row.id.host_key, row.key)

    def _drop(self, url: str, row: UrlRow, reason: str) -> None:
        self._names.pop(row.id.url_key, None)
        self._only.keys.discard(row.id.url_key)
        self._fail(url, reason)

    def _fail(self, url: str, reason: str) -> None:
        """The URL is off the list. Counted with a reason where it is news: not one that was fetched
        before.
        """
        if reason:
            self.failed[reason] += 1
        self._hunt.failed(url)
