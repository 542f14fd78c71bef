"""A hunt: pages come in, are judged against the question and ranked among those found; their links
are listed by what they promise.

No network, no disk, no clock: whoever hunts (`lycosa.hunt.session`) fetches what the list says
comes next, and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lycosa.core.records import Link, Page
from lycosa.hunt.best_first import BestSearch
from lycosa.hunt.fish import DEPTH, WIDTH, FishSearch, SharkSearch
from lycosa.hunt.leads import Lead, leads_from, leads_of
from lycosa.hunt.queue import HuntList
from lycosa.hunt.relevance import RELEVANT, Evidence, Question
from lycosa.search.presentation.snippet import Snippet

StrategyName = Literal["best", "fish", "shark"]
STRATEGIES: tuple[StrategyName, ...] = ("best", "fish", "shark")

MAX_FOUND = 10_000
"""Relevant pages that are kept to be ranked."""


TOP = 10
"""Results from which the hunt goes on rather than from others."""

_OFTEN = 300  # found pages up to which the question is asked again after each page


class Scorer(Protocol):
    """What the promise of a link is. Each method gives leads with their new scores; the higher
    comes first.
    """

    def started(
        self, leads: Sequence[Lead], relevance: float, language: str
    ) -> list[tuple[Lead, float]]: ...
    def links(
        self, url: str, relevance: float, relevant: bool, leads: Sequence[Lead], language: str
    ) -> list[tuple[Lead, float]]: ...
    def fetched(self, url: str, relevance: float) -> list[tuple[Lead, float]]: ...
    def top(self, urls: Collection[str]) -> list[tuple[Lead, float]]: ...
    def dropped(self, url: str) -> None: ...


@dataclass(slots=True, frozen=True)
class Found:
    """A relevant page. `score`: how well it answers, 0 to 1, as it was judged when it came;
    `number`: the how many-th page it was. `via`: the page that led to it first, "" for one to start
    from.
    """

    url: str
    title: str
    score: float
    snippet: Snippet
    language: str
    number: int
    via: str


@dataclass(slots=True)
class _Ranked:
    found: Found
    evidence: Evidence


class Hunt:
    """One hunt. Not for several threads. `takes`: whether a URL may be fetched at all (scope);
    asked once for each link.
    """

    def __init__(
        self,
        question: Question,
        strategy: StrategyName = "best",
        *,
        width: int = WIDTH,
        depth: int = DEPTH,
        takes: Callable[[str], bool] = lambda url: True,
        respect_nofollow: bool = True,
    ) -> None:
        self.question = question
        self.listed = HuntList(gave_up=self._given_up)
        self.pages = 0
        self.relevant = 0
        self._takes = takes
        self._heed_nofollow = respect_nofollow
        self._scorer: Scorer
        if strategy == "best":
            self._scorer = BestSearch(question, self.listed)
        else:
            self._scorer = (FishSearch if strategy == "fish" else SharkSearch)(
                question, width=width, depth=depth
            )
        self._seen: set[str] = set()  # fetched, or not to be fetched
        # listed URL -> the page that led to it first, the text of that link
        self._leads: dict[str, tuple[str, str]] = {}
        self._found: list[_Ranked] = []

    def start(self, leads: Iterable[Lead]) -> None:
        """List URLs to start from."""
        self._list(self._scorer.started(self._usable(leads), 1.0, ""), "")

    def recall(self, url: str, page: Page, links: Iterable[Link]) -> None:
        """Take in a page that is here already: it is no result (a search finds it), and its links
        are listed like those of a page that was fetched. `links` instead of the page's own, which
        the tables hold apart.
        """
        self._take_off(url)
        evidence = self.question.evidence(url, page)
        self.question.note(evidence)
        score = self.question.relevance(evidence)
        if not page.may_follow:
            return
        self._list(self._scorer.fetched(url, score), "")
        leads = self._usable(
            leads_from(url, links, page.text, respect_nofollow=self._heed_nofollow)
        )
        self._list(self._scorer.links(url, score, score >= RELEVANT, leads, page.language), url)

    def taken(self, url: str) -> None:
        """A listed URL is being fetched: `page`, `redirected` or `failed` will say what came of
        it.
        """
        self._seen.add(url)
        self.listed.remove(url)

    def page(self, url: str, page: Page) -> Found | None:
        """Take in a page that was fetched, and say what it is if it is relevant."""
        via, anchor = self._leads.get(url, ("", ""))
        self._take_off(url)
        self.pages += 1
        question = self.question
        evidence = question.evidence(url, page, (anchor,) if anchor else ())
        question.note(evidence)
        score = question.relevance(evidence)
        relevant = score >= RELEVANT
        self._list(self._scorer.fetched(url, score), "")
        leads = self._usable(leads_of(url, page, respect_nofollow=self._heed_nofollow))
        self._list(self._scorer.links(url, score, relevant, leads, page.language), url)
        if not relevant or not page.may_index:
            self._ask_again()
            return None
        self.relevant += 1
        found = Found(
            url,
            page.title or page.headline or url,
            score,
            question.snippet(page),
            page.language,
            self.pages,
            via,
        )
        if len(self._found) < MAX_FOUND:
            self._found.append(_Ranked(found, evidence))
        self._ask_again()
        return found

    def redirected(self, url: str, target: str, host: str) -> None:
        """A listed URL led elsewhere: that inherits its place."""
        via, anchor = self._leads.get(url, ("", ""))
        self._take_off(url)
        if target in self._seen or target in self.listed or not self._takes(target):
            return
        self._list(self._scorer.started([Lead(target, host, anchor)], 1.0, ""), via)

    def failed(self, url: str) -> None:
        """A listed URL gave no page, or is not to be fetched."""
        self._take_off(url)
        self._scorer.dropped(url)

    def ranked(self) -> list[tuple[Found, float]]:
        """The relevant pages, best first, with their scores as of now: the words' weights have
        changed since the first ones came.
        """
        weights = self.question.weights
        scored = [
            (each.found, self.question.relevance(each.evidence, weights)) for each in self._found
        ]
        return sorted(scored, key=lambda entry: (-entry[1], entry[0].number))

    def _ask_again(self) -> None:
        """The question again over all that was found: what comes first now is where the hunt goes
        on. Of many pages, not each time.
        """
        if self.pages % (1 + len(self._found) // _OFTEN) == 0:
            first = [found.url for found, _ in self.ranked()[:TOP]]
            self._list(self._scorer.top(first), "")

    def via(self, url: str) -> tuple[str, str]:
        """The page that led to a listed URL, and the text of the link."""
        return self._leads.get(url, ("", ""))

    def _usable(self, leads: Iterable[Lead]) -> list[Lead]:
        return [
            lead
            for lead in leads
            if lead.url not in self._seen and (lead.url in self.listed or self._takes(lead.url))
        ]

    def _list(self, scored: Iterable[tuple[Lead, float]], via: str) -> None:
        for lead, score in scored:
            if lead.url not in self._seen:
                self.listed.put(lead.url, lead.host, score)
                if via or lead.url not in self._leads:
                    self._leads.setdefault(lead.url, (via, lead.anchor))

    def _given_up(self, url: str) -> None:
        self._leads.pop(url, None)
        self._scorer.dropped(url)

    def _take_off(self, url: str) -> None:
        self._seen.add(url)
        self.listed.remove(url)
        self._leads.pop(url, None)
