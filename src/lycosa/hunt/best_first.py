"""Best-first hunting that learns: each link is scored by the chance that its page is relevant, and
each page that is fetched teaches.

A link is described by how much of the question its anchors, their surroundings and its URL speak
of, by the pages that hold it, by how pages of its folder turned out, and by every word of its
anchors and its URL. A logistic regression over all of that begins with weights that make it a
sensible Shark and is corrected after each fetch by what the page turned out to be (one step of
gradient descent; Chakrabarti et al., "Accelerated Focused Crawling through Online Relevance
Feedback", WWW 2002, learn from the words around links too).

After a fetch only those links are scored anew that it may have changed: the best so far, those of
pages that came to the top, and those that the index of anchors gives for the question's words and
the words that were learned.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from lycosa.hunt.anchors import AnchorIndex
from lycosa.hunt.leads import Lead
from lycosa.hunt.queue import HuntList
from lycosa.hunt.relevance import Question, url_words

# The features, and the weights to begin with. Set on webs and questions of bench/hunt.py that are
# not asked for its figures.
_BIAS, _ANCHOR, _CONTEXT, _URL, _PARENT, _PARENTS, _AGREED, _FOLDER, _HOST, _TOP, _FAR = range(11)
_BEGIN = (-3.0, 4.0, 1.0, 1.0, 4.0, 2.0, 1.5, 0.0, 0.0, 0.5, -1.0)

_RATE = 0.02  # of a step of learning for the features
_WORD_RATE = 1.0  # for words, each of which is rare
_DECAYED = 0.98  # of what was learned of a word, at each step that concerns it
# of what a page has from those that led to it, for links of pages that say nothing
_INHERITED = 0.5
# pages of a folder or a host that are assumed, half as good as those seen so far
_PRIOR_PAGES = 2.0
_ANEW, _LEARNED_WORDS = 150, 12
_MIN_LEARNED = 0.2
_MAX_WORDS = 24  # of a link that count

Scored = tuple[Lead, float]


@dataclass(slots=True)
class _Link:
    """A link that is not followed yet, as the pages seen so far describe it."""

    lead: Lead
    language: str
    words: tuple[str, ...]
    anchor: float = 0.0
    context: float = 0.0
    url: float = 0.0
    parent: float = 0.0  # relevance of the best page that holds it
    inherited: float = 0.0
    parents: int = 0
    good_parents: int = 0
    on_top: int = 0  # pages of the first results that hold it
    steps: int = 0  # links since a relevant page


@dataclass(slots=True)
class _Mean:
    """How the pages of a place turned out."""

    sum: float = 0.0
    pages: int = 0

    def value(self, prior: float) -> float:
        return (self.sum + _PRIOR_PAGES * prior) / (self.pages + _PRIOR_PAGES)


@dataclass(slots=True)
class BestSearch:
    """The scorer. `listed` is the hunt's own list, read for its best."""

    question: Question
    listed: HuntList
    anchors: AnchorIndex = field(default_factory=AnchorIndex)
    _links: dict[str, _Link] = field(default_factory=dict)
    # fetched URL -> what its links inherit, steps since a relevant page
    _from: dict[str, tuple[float, int]] = field(default_factory=dict)
    _weights: list[float] = field(default_factory=lambda: list(_BEGIN))
    _words: dict[str, float] = field(default_factory=dict)
    _places: dict[str, _Mean] = field(default_factory=dict)
    _all: _Mean = field(default_factory=_Mean)
    _held: dict[str, list[str]] = field(default_factory=dict)  # relevant page -> its links
    _top: frozenset[str] = frozenset()

    def started(self, leads: Sequence[Lead], relevance: float, language: str) -> list[Scored]:
        """URLs to start from; `relevance`: of the page that they are linked from, 1 if they were
        named.
        """
        return self._take(leads, relevance, True, relevance, 0, language)

    def links(
        self, url: str, relevance: float, relevant: bool, leads: Sequence[Lead], language: str
    ) -> list[Scored]:
        """The links of a page that was fetched and judged."""
        inherited, steps = self._from.get(url, (0.0, 0))
        if relevant:
            self._held[url] = [lead.url for lead in leads]
        return self._take(
            leads,
            relevance,
            relevant,
            max(relevance, _INHERITED * inherited),
            0 if relevant else steps + 1,
            language,
        )

    def fetched(self, url: str, relevance: float) -> list[Scored]:
        """Learn from what a page turned out to be; gives the links that are scored anew."""
        link = self._links.get(url)
        self._remember(url, relevance)
        if link is None:
            return []
        learned = self._learn(link, relevance)
        self._forget(url)
        return [
            (self._links[each].lead, self._score(self._links[each]))
            for each in self._anew(learned, link.language)
        ]

    def top(self, urls: Collection[str]) -> list[Scored]:
        """The question was asked again of all pages found, and these come first now: their links
        are scored anew, and those of pages that came first before.
        """
        before, self._top = self._top, frozenset(urls)
        changed: dict[str, None] = {}
        for step, pages in ((1, self._top - before), (-1, before - self._top)):
            for page in pages:
                for url in self._held.get(page, ()):
                    link = self._links.get(url)
                    if link is not None:
                        link.on_top += step
                        changed[url] = None
        return [(self._links[url].lead, self._score(self._links[url])) for url in changed]

    def dropped(self, url: str) -> None:
        """A URL left the list without being fetched."""
        self._forget(url)

    def _take(
        self,
        leads: Sequence[Lead],
        relevance: float,
        relevant: bool,
        inherited: float,
        steps: int,
        language: str,
    ) -> list[Scored]:
        found = []
        question = self.question
        for lead in leads:
            if lead.url in self._from:
                continue
            link = self._links.get(lead.url)
            if link is None:
                link = self._links[lead.url] = _Link(lead, language, (), steps=steps)
                link.url = question.likeness(url_words(lead.url), language)
            link.anchor = max(link.anchor, question.likeness(lead.anchor, language))
            link.context = max(link.context, question.likeness(lead.context, language))
            link.parent, link.inherited = (
                max(link.parent, relevance),
                max(link.inherited, inherited),
            )
            link.steps = min(link.steps, steps)
            link.parents += 1
            link.good_parents += relevant
            words = self._words_of(lead, language)
            self.anchors.put(lead.url, words)
            link.words = tuple(dict.fromkeys((*link.words, *words)))[:_MAX_WORDS]
            found.append((lead, self._score(link)))
        return found

    def _words_of(self, lead: Lead, language: str) -> list[str]:
        """The terms of an anchor, and those of the URL, which say something else."""
        terms = self.question.terms(lead.anchor, language) if lead.anchor else []
        return [
            *terms[:_MAX_WORDS],
            *(
                f"/{term}"
                for term in self.question.terms(url_words(lead.url), language)[:_MAX_WORDS]
            ),
        ]

    def _features(self, link: _Link) -> list[float]:
        prior = self._all.value(0.1) / 2
        folder = self._places.get(_folder(link.lead.url))
        host = self._places.get(link.lead.host)
        return [
            1.0,
            link.anchor,
            link.context,
            link.url,
            link.parent,
            max(link.inherited - link.parent, 0.0),
            min(link.good_parents, 4) / 4,
            folder.value(prior) if folder is not None else prior,
            host.value(prior) if host is not None else prior,
            float(link.on_top > 0),
            min(link.steps, 5),
        ]

    def _score(self, link: _Link) -> float:
        """The chance that the page is relevant, 0 to 1."""
        value = sum(
            weight * feature
            for weight, feature in zip(self._weights, self._features(link), strict=True)
        )
        return _logistic(value + self._spoken(link.words))

    def _spoken(self, words: Sequence[str]) -> float:
        if not words:
            return 0.0
        known = self._words
        return sum(known.get(word, 0.0) for word in words) / math.sqrt(len(words))

    def _learn(self, link: _Link, relevance: float) -> dict[str, float]:
        """One step towards what the page turned out to be. Gives the words of which something was
        learned.
        """
        features = self._features(link)
        expected = _logistic(
            sum(w * x for w, x in zip(self._weights, features, strict=True))
            + self._spoken(link.words)
        )
        error = relevance - expected
        for place, feature in enumerate(features):
            self._weights[place] += _RATE * error * feature
        for place in range(_ANCHOR, _FAR):  # what speaks for a link never speaks against it
            self._weights[place] = max(self._weights[place], 0.0)
        if link.words:
            step = _WORD_RATE * error / math.sqrt(len(link.words))
            for word in link.words:
                self._words[word] = _DECAYED * self._words.get(word, 0.0) + step
        return {word: self._words[word] for word in link.words}

    def _anew(self, learned: dict[str, float], language: str) -> Iterable[str]:
        """The links whose scores matter most, or may have changed most."""
        sought = dict.fromkeys(self.question.own_terms(language), 1.0)
        sought |= {f"/{term}": 0.5 for term in list(sought)}
        strongest = sorted(((abs(weight), word) for word, weight in learned.items()), reverse=True)[
            :_LEARNED_WORDS
        ]
        changed = self.anchors.search(
            {word: weight for weight, word in strongest if weight > _MIN_LEARNED}, _ANEW
        )
        best = [url for _, url, _ in self.listed.best_of_hosts(_ANEW)]
        return [
            url
            for url in dict.fromkeys((*best, *self.anchors.search(sought, _ANEW), *changed))
            if url in self._links
        ]

    def _remember(self, url: str, relevance: float) -> None:
        link = self._links.get(url)
        inherited, steps = (link.inherited, link.steps) if link is not None else (0.0, 0)
        self._from[url] = (inherited, steps)
        host = url.partition("://")[2].partition("/")[0] if link is None else link.lead.host
        for mean in (
            self._all,
            self._places.setdefault(_folder(url), _Mean()),
            self._places.setdefault(host, _Mean()),
        ):
            mean.sum += relevance
            mean.pages += 1

    def _forget(self, url: str) -> None:
        if self._links.pop(url, None) is not None:
            self.anchors.remove(url)


def _folder(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[0]


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(value, -30.0), 30.0)))
