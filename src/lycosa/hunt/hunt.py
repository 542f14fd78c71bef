"""One hunt: scores pages, ranks the relevant ones, and queues their links.

It uses no network, disk or clock. `lycosa.hunt.dispatcher` fetches the URLs of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lycosa.core.records import Link, Page
from lycosa.hunt.links import HuntQueue, Lead, leads_from, leads_of
from lycosa.hunt.relevance import RELEVANT, Evidence, HuntQuery
from lycosa.hunt.strategies import DEPTH, WIDTH, BestFirstSearch, FishSearch, SharkSearch
from lycosa.search.presentation.snippet import Snippet

StrategyName = Literal["best", "fish", "shark"]
STRATEGIES: tuple[StrategyName, ...] = ("best", "fish", "shark")

MAX_RESULTS = 10_000
"""Relevant pages that are ranked."""

TOP = 10
"""Top results, whose links have precedence."""

_RANKED_EACH_PAGE = 300  # results up to which they are ranked again after each page


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

    def recall(self, url: str, page: Page, links: Iterable[Link]) -> None:
        """Queue the links of a page that was stored before. It is not a result."""
        _, score = self._judge(url, page, ())
        if page.may_follow:
            self._follow(
                url,
                page,
                score,
                leads_from(url, links, page.text, respect_nofollow=self._respect_nofollow),
            )

    def page(self, url: str, page: Page) -> RelevantPage | None:
        """Process a fetched page. Return it if it is relevant."""
        via, anchor = self.origin(url)
        self.pages += 1
        evidence, score = self._judge(url, page, (anchor,) if anchor else ())
        leads = leads_of(url, page, respect_nofollow=self._respect_nofollow)
        self._follow(url, page, score, leads)
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
        """Return the relevant pages with their scores of now, best first."""
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

    def _follow(self, url: str, page: Page, score: float, leads: Iterable[Lead]) -> None:
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
