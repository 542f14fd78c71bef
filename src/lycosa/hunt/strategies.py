"""Strategies that score the links of a hunt: Fish search, Shark search, and best-first.

Fish search: P. De Bra, R. Post, "Information Retrieval in the World-Wide Web", Computer Networks
and ISDN Systems 27, 1994. Shark search: M. Hersovici et al., "The Shark-Search Algorithm", WWW7,
1998. The best-first search is a logistic regression on the features of a link. It starts with
weights that resemble Shark search and is corrected after each fetch by one step of gradient
descent, as in Chakrabarti et al., "Accelerated Focused Crawling", WWW 2002.

All strategies have the same methods. They return links with their new scores, highest first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lycosa.hunt.links import HuntQueue, Lead
from lycosa.hunt.relevance import HuntQuery, url_words

WIDTH, DEPTH = 10, 3
"""Fish and Shark: mean number of links per page, and steps without a relevant page."""

_RELEVANT_WIDTH = 1.5  # alpha: factor of the width for a relevant page
_DECAY = 0.5  # delta: share of a score that a page passes on
_ANCHOR_SHARE = 0.8  # beta: share of the anchor; the rest is the context
_INHERITED_SHARE = 0.5  # gamma: share of the inherited score

# Fish search has three zones: links of relevant pages (last in, first out), of other pages, and
# links beyond the width (both first in, first out).
_FRONT, _MIDDLE, _END = 2.0, 1.0, 0.0
_PAGE_STEP, _LINK_STEP = 1e-6, 1e-10

# The features of best-first and their initial weights, tuned on webs and questions that
# bench/hunt.py does not report.
_BIAS, _ANCHOR, _CONTEXT, _URL, _PARENT, _PARENTS, _AGREED, _FOLDER, _HOST, _TOP, _FAR = range(11)
_INITIAL = (-3.0, 4.0, 1.0, 1.0, 4.0, 2.0, 1.5, 0.0, 0.0, 0.5, -1.0)

_RATE, _WORD_RATE = 0.02, 1.0  # learning rates of features, and of words, which are rare
_WORD_DECAY = 0.98  # of a word's weight, at each update
_PASSED_ON = 0.5  # share of an inherited relevance that an irrelevant page passes on
_PRIOR_PAGES = 2.0  # assumed pages of a folder or host, half as relevant as the mean
_MAX_RESCORED, _MAX_LEARNED = 150, 12
_MIN_LEARNED = 0.2
_MAX_WORDS = 24  # per link
_MAX_LOOKED_UP = 2_000  # links of one term: more frequent terms are not informative

Scored = tuple[Lead, float]


@dataclass(slots=True)
class _Fish:
    """A URL, and the depth and relevance that its own links inherit."""

    depth: int
    inherited: float
    score: float

    def raise_priority(self, depth: int, inherited: float, score: float) -> None:
        self.depth = max(self.depth, depth)
        self.inherited = max(self.inherited, inherited)
        self.score = max(self.score, score)


class FishSearch:
    """Fish search: the position of a link is its score."""

    def __init__(self, query: HuntQuery, *, width: int = WIDTH, depth: int = DEPTH) -> None:
        self._query = query
        self._width, self._depth = width, depth
        self._fish: dict[str, _Fish] = {}
        self._serial = 0

    def start(self, leads: Sequence[Lead], relevance: float, language: str) -> list[Scored]:
        """Score start URLs. `relevance`: of the page that links to them, 1 without one."""
        self._serial += 1
        scored = []
        for place, lead in enumerate(leads):
            score = self._start_score(place, relevance)
            self._fish[lead.url] = _Fish(self._depth, relevance, score)
            scored.append((lead, score))
        return scored

    def links(
        self, url: str, relevance: float, relevant: bool, leads: Sequence[Lead], language: str
    ) -> list[Scored]:
        """Score the links of a page that was fetched and judged."""
        parent = self._fish.get(url) or _Fish(self._depth, 0.0, 0.0)
        if not relevant and parent.depth <= 0:
            return []
        self._serial += 1
        depth = self._depth if relevant else parent.depth - 1
        inherited = _DECAY * relevance if relevance > 0 else _DECAY * parent.inherited
        scored = []
        # links to other sites first
        for place, lead in enumerate(sorted(leads, key=lambda lead: not lead.foreign)):
            score = self._score(place, lead, relevant, inherited, language)
            fish = self._fish.setdefault(lead.url, _Fish(depth, inherited, score))
            fish.raise_priority(depth, inherited, score)
            scored.append((lead, fish.score))
        return scored

    def fetched(self, url: str, relevance: float) -> list[Scored]:
        """Return the links with scores that a fetch has changed: none."""
        return []

    def top(self, urls: Collection[str]) -> list[Scored]:
        """Return the links with scores that new top results have changed: none."""
        return []

    def drop(self, url: str) -> None:
        """Forget a URL that left the queue without a fetch."""
        self._fish.pop(url, None)

    def _start_score(self, place: int, relevance: float) -> float:
        return _FRONT + relevance * _PAGE_STEP - place * _LINK_STEP

    def _score(
        self, place: int, lead: Lead, relevant: bool, inherited: float, language: str
    ) -> float:
        page, link = self._serial * _PAGE_STEP, place * _LINK_STEP
        if place >= self._width * (_RELEVANT_WIDTH if relevant else 1.0):
            return _END - page - link
        return _FRONT + page - link if relevant else _MIDDLE - page - link


class SharkSearch(FishSearch):
    """Shark search: each link has its own score, from its anchor, context and parent."""

    def _start_score(self, place: int, relevance: float) -> float:
        return relevance

    def _score(
        self, place: int, lead: Lead, relevant: bool, inherited: float, language: str
    ) -> float:
        anchor = self._query.similarity(lead.anchor, language)
        context = 1.0 if anchor > 0 else self._query.similarity(lead.context, language)
        near = _ANCHOR_SHARE * anchor + (1 - _ANCHOR_SHARE) * context
        return _INHERITED_SHARE * inherited + (1 - _INHERITED_SHARE) * near


class AnchorIndex:
    """Full-text index in memory of the links that are not followed yet. Not thread-safe."""

    def __init__(self) -> None:
        self._terms: dict[str, frozenset[str]] = {}
        self._urls: dict[str, dict[str, None]] = {}  # by term, in the order of their addition

    def __len__(self) -> int:
        return len(self._terms)

    def put(self, url: str, terms: Iterable[str]) -> None:
        """Add terms of a link to a URL."""
        before = self._terms.get(url, frozenset())
        self._terms[url] = before.union(terms)
        for term in self._terms[url] - before:
            self._urls.setdefault(term, {})[url] = None

    def remove(self, url: str) -> None:
        for term in self._terms.pop(url, ()):
            del self._urls[term][url]
            if not self._urls[term]:
                del self._urls[term]

    def search(self, weights: Mapping[str, float], count: int) -> list[str]:
        """Return the best links for terms, by their weight and rarity."""
        scores: dict[str, float] = {}
        for term, weight in weights.items():
            urls = self._urls.get(term)
            if urls and weight > 0:
                value = weight * math.log(1 + len(self._terms) / len(urls))
                for _, url in zip(range(_MAX_LOOKED_UP), urls, strict=False):
                    scores[url] = scores.get(url, 0.0) + value
        return heapq.nlargest(count, scores, key=scores.__getitem__)


@dataclass(slots=True)
class _Link:
    """A link that is not followed yet, as described by the pages so far."""

    lead: Lead
    language: str
    url_score: float
    words: tuple[str, ...] = ()
    anchor: float = 0.0
    context: float = 0.0
    parent: float = 0.0  # relevance of the best page that contains it
    inherited: float = 0.0
    good_parents: int = 0
    top_parents: int = 0  # pages of the top results that contain it
    steps: int = 5  # links since a relevant page

    def add(self, page: _Parent, anchor: float, context: float, words: Iterable[str]) -> None:
        self.anchor, self.context = max(self.anchor, anchor), max(self.context, context)
        self.parent = max(self.parent, page.relevance)
        self.inherited = max(self.inherited, page.inherited)
        self.steps = min(self.steps, page.steps)
        self.good_parents += page.relevant
        self.words = tuple(dict.fromkeys((*self.words, *words)))[:_MAX_WORDS]

    def add_top(self, number: int) -> None:
        self.top_parents += number


@dataclass(slots=True, frozen=True)
class _Parent:
    """A page that contains links. `inherited`: the relevance that it passes on to them; `steps`: as
    in `_Link`.
    """

    relevance: float
    relevant: bool
    inherited: float
    steps: int
    language: str


@dataclass(slots=True)
class _Mean:
    """Mean relevance of pages."""

    sum: float = 0.0
    pages: int = 0

    def add(self, relevance: float) -> None:
        self.sum += relevance
        self.pages += 1

    def value(self, prior: float) -> float:
        return (self.sum + _PRIOR_PAGES * prior) / (self.pages + _PRIOR_PAGES)


@dataclass(slots=True)
class BestFirstSearch:
    """Best-first search: the score is the estimated probability that the page is relevant.

    After a fetch, only the links with the highest or the most changed scores are scored again.
    """

    query: HuntQuery
    queue: HuntQueue
    anchors: AnchorIndex = field(default_factory=AnchorIndex)
    _links: dict[str, _Link] = field(default_factory=dict)
    # fetched URL -> score that its links inherit, steps since a relevant page
    _fetched: dict[str, tuple[float, int]] = field(default_factory=dict)
    _weights: list[float] = field(default_factory=lambda: list(_INITIAL))
    _words: dict[str, float] = field(default_factory=dict)
    _places: dict[str, _Mean] = field(default_factory=dict)  # by folder and by host
    _all: _Mean = field(default_factory=_Mean)
    _targets: dict[str, list[str]] = field(default_factory=dict)  # relevant page -> its links
    _top: frozenset[str] = frozenset()

    def start(self, leads: Sequence[Lead], relevance: float, language: str) -> list[Scored]:
        """Score start URLs, as `FishSearch.start`."""
        return self._add(leads, _Parent(relevance, True, relevance, 0, language))

    def links(
        self, url: str, relevance: float, relevant: bool, leads: Sequence[Lead], language: str
    ) -> list[Scored]:
        """Score the links of a page that was fetched and judged."""
        inherited, steps = self._fetched.get(url, (0.0, 0))
        if relevant:
            self._targets[url] = [lead.url for lead in leads]
        inherited = max(relevance, _PASSED_ON * inherited)
        steps = 0 if relevant else steps + 1
        return self._add(leads, _Parent(relevance, relevant, inherited, steps, language))

    def fetched(self, url: str, relevance: float) -> list[Scored]:
        """Learn from the relevance of a fetched page; return links that are scored again."""
        link = self._links.get(url)
        self._fetched[url] = (link.inherited, link.steps) if link is not None else (0.0, 0)
        host = link.lead.host if link is not None else url.partition("://")[2].partition("/")[0]
        self._all.add(relevance)
        for place in (_folder(url), host):
            self._places.setdefault(place, _Mean()).add(relevance)
        if link is None:
            return []
        learned = self._learn(link, relevance)
        self.drop(url)
        return self._scored(self._changed(learned, link.language))

    def top(self, urls: Collection[str]) -> list[Scored]:
        """Score the links again of pages that became or were top results."""
        before, self._top = self._top, frozenset(urls)
        changed: dict[str, None] = {}
        for number, pages in ((1, self._top - before), (-1, before - self._top)):
            for url in (url for page in pages for url in self._targets.get(page, ())):
                if url in self._links:
                    self._links[url].add_top(number)
                    changed[url] = None
        return self._scored(changed)

    def drop(self, url: str) -> None:
        """Forget a URL that was fetched, or left the queue."""
        if self._links.pop(url, None) is not None:
            self.anchors.remove(url)

    def _add(self, leads: Sequence[Lead], page: _Parent) -> list[Scored]:
        scored, query, language = [], self.query, page.language
        for lead in leads:
            if lead.url in self._fetched:
                continue
            words = url_words(lead.url)
            link = self._links.get(lead.url)
            if link is None:
                link = self._links[lead.url] = _Link(
                    lead, language, query.similarity(words, language)
                )
            # terms of the URL are distinct from those of the anchor
            anchor_terms = query.terms(lead.anchor, language) if lead.anchor else []
            url_terms = [f"/{term}" for term in query.terms(words, language)[:_MAX_WORDS]]
            terms = [*anchor_terms[:_MAX_WORDS], *url_terms]
            self.anchors.put(lead.url, terms)
            link.add(
                page,
                query.similarity(lead.anchor, language),
                query.similarity(lead.context, language),
                terms,
            )
            scored.append((lead, self._score(link)))
        return scored

    def _features(self, link: _Link) -> list[float]:
        prior = self._all.value(0.1) / 2
        folder = self._places.get(_folder(link.lead.url))
        host = self._places.get(link.lead.host)
        return [
            1.0,
            link.anchor,
            link.context,
            link.url_score,
            link.parent,
            max(link.inherited - link.parent, 0.0),
            min(link.good_parents, 4) / 4,
            folder.value(prior) if folder is not None else prior,
            host.value(prior) if host is not None else prior,
            float(link.top_parents > 0),
            min(link.steps, 5),
        ]

    def _score(self, link: _Link) -> float:
        value = sum(w * x for w, x in zip(self._weights, self._features(link), strict=True))
        if link.words:
            words = sum(self._words.get(word, 0.0) for word in link.words)
            value += words / math.sqrt(len(link.words))
        return 1.0 / (1.0 + math.exp(-min(max(value, -30.0), 30.0)))

    def _scored(self, urls: Iterable[str]) -> list[Scored]:
        return [(self._links[url].lead, self._score(self._links[url])) for url in urls]

    def _learn(self, link: _Link, relevance: float) -> dict[str, float]:
        """Make one step of gradient descent; return the words with changed weights."""
        error = relevance - self._score(link)
        for place, feature in enumerate(self._features(link)):
            weight = self._weights[place] + _RATE * error * feature
            # evidence for a link never counts against it
            self._weights[place] = weight if place in (_BIAS, _FAR) else max(weight, 0.0)
        for word in link.words:
            step = _WORD_RATE * error / math.sqrt(len(link.words))
            self._words[word] = _WORD_DECAY * self._words.get(word, 0.0) + step
        return {word: self._words[word] for word in link.words}

    def _changed(self, learned: Mapping[str, float], language: str) -> list[str]:
        """Return the best links, those with keywords, and those with learned words."""
        keywords = dict.fromkeys(self.query.keywords(language), 1.0)
        keywords |= {f"/{term}": 0.5 for term in list(keywords)}
        strongest = heapq.nlargest(_MAX_LEARNED, learned.items(), key=lambda item: abs(item[1]))
        positive = {word: weight for word, weight in strongest if weight > _MIN_LEARNED}
        best = [url for _, url, _ in self.queue.best_of_hosts(_MAX_RESCORED)]
        urls = dict.fromkeys(
            (
                *best,
                *self.anchors.search(keywords, _MAX_RESCORED),
                *self.anchors.search(positive, _MAX_RESCORED),
            )
        )
        return [url for url in urls if url in self._links]


def _folder(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[0]
