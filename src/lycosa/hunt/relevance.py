"""A hunt's question: how well a page, a link's text or a URL answers it, judged at once, without an
index.

The question is read as a search would read it (`lycosa.search.query.query`), by the analyzer of
each page's language. Its parts (words, phrases, alternatives) are looked for in the fields of a
page, and what is found becomes `Evidence`: for each part how strongly the page speaks of it, 0 to
1. Evidence is kept, and judged again as pages come in: a word that every page of a site holds says
less and less (the weight is BM25's, with a few assumed pages so that the first one can be judged).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lycosa.core.errors import UsageError
from lycosa.core.records import Page
from lycosa.search.presentation.snippet import Highlighter, Snippet
from lycosa.search.query.query import ParsedQuery, Part, clauses, parse_query
from lycosa.search.query.reading import Asked, QueryWord, read_by
from lycosa.search.query.syntax import (
    AFTER,
    BEFORE,
    IN_ANCHOR,
    IN_TITLE,
    IN_URL,
    LANGUAGE,
    SITE,
    date_ms,
)
from lycosa.search.ranking.statistics import inverse_frequency
from lycosa.text.analyze import Analyzer, Unit, analyzer_for
from lycosa.text.everyday import binding_words
from lycosa.url.scope import hostname

RELEVANT = 0.45
"""A page that answers so well is relevant. Set on the eight questions of bench/hunt.py that are not
asked for its figures.
"""

LOOKED_AT = 60_000  # characters of a text that are analysed
# pages seen before the first one, and how many of them hold a word
_ASSUMED, _ASSUMED_HOLDING = 20, 2
_BINDING_WEIGHT = 0.05  # of words that only hold the question together
# How much a part counts by where it stands; their sum is cut to 1. The text's share saturates as in
# BM25 (k1 = 1.2; b = 0.5, for a long page may hold a chapter on what is asked).
_TITLE, _HEADINGS, _BODY, _REST, _URL, _ANCHOR = 0.55, 0.25, 0.75, 0.15, 0.2, 0.2
_K1, _B = 1.2, 0.5
_USUAL_LENGTH = 500.0  # terms of a page's main text
_MISSED = 0.6  # a page that lacks parts is held down by this share of what they weigh
# what lifts a page that holds all parts in its title, or close together in its text
_ALL_IN_TITLE, _TOGETHER = 1.2, 1.2
_WINDOW = 4  # terms for each part within which they stand together
_URL_NOISE = re.compile(
    r"^[a-z][a-z0-9+.-]*://[^/]*|\.(?:html?|php|aspx?|jsp|cgi)(?=$|[?#])|[^\w]+|_+", re.IGNORECASE
)
_KNOWN_TEXTS = 20_000  # remembered likenesses of short texts


@dataclass(slots=True, frozen=True)
class Evidence:
    """What a page says to the question: for each of its parts how strongly it speaks of it (0 to
    1). `lift`: by how the parts stand together. A page that the question rules out has no
    strengths.
    """

    strengths: tuple[float, ...]
    lift: float = 1.0


@dataclass(slots=True)
class _Text:
    """A field's terms."""

    terms: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def times(self, word: QueryWord) -> int:
        """How often a word of the question stands here."""
        phrase = word.unit.phrase
        if word.prefix:
            return (
                sum(count for term, count in self.counts.items() if term.startswith(word.prefix))
                or self.counts[phrase[0]]
            )
        if len(phrase) == 1:
            return self.counts[phrase[0]]
        if not all(term in self.counts for term in phrase):
            return 0
        terms, length = self.terms, len(phrase)
        return sum(
            terms[at : at + length] == list(phrase)
            for at, term in enumerate(terms)
            if term == phrase[0]
        )


class Question:
    """One question. What it has learned of how common its parts are grows with `note`."""

    def __init__(self, text: str) -> None:
        """Raises UsageError if the text asks for no word."""
        self.text = text
        self._parsed = parse_query(text)
        self.parts: tuple[Part, ...] = self._parsed.wanted
        if not self.parts or not any(
            analyzer_for("").terms(clause.text) for clause in clauses(self.parts)
        ):
            raise UsageError(f"a hunt needs words to search for: {text!r} contains none")
        binding = binding_words(
            [clause.text.lower().strip("?!.,;:") for clause in clauses(self.parts)]
        )
        self._binding = [
            all(
                each.text.lower().strip("?!.,;:") in binding and not each.phrase
                for each in clauses((part,))
            )
            for part in self.parts
        ]
        self._readings: dict[str, _ReadIn] = {}
        self._pages = 0
        self._holding = [0] * len(self.parts)
        self._short: dict[tuple[str, str], tuple[float, ...]] = {}
        self.weights = self._weigh()
        """How much each part counts now: the rarer on the pages seen, the more."""

    def evidence(self, url: str, page: Page, anchors: Sequence[str] = ()) -> Evidence:
        """Look for the parts in a page. `anchors`: texts of links that led to it. Analyses the
        page's text: a millisecond for 15 KB.
        """
        if self._ruled_out(url, page):
            return Evidence(())
        reading = self._reading(page.language)
        analyzer = reading.analyzer
        texts = {
            IN_TITLE: _text(analyzer, f"{page.title}\n{page.headline}"),
            "headings": _text(analyzer, "\n".join(page.headings[:200])),
            "body": _text(analyzer, page.main_text[:LOOKED_AT]),
            IN_URL: _text(analyzer, url_words(url)),
            IN_ANCHOR: _text(analyzer, "\n".join(anchors)),
        }
        sought = [word for parts in (*reading.parts, reading.unwanted) for word in _words(parts)]
        if len(page.text) > len(page.main_text) and not all(
            texts["body"].times(word) for word in sought
        ):
            # it counts only for words that the main text lacks
            texts["rest"] = _text(analyzer, page.text[:LOOKED_AT])
        if any(_strength(asked, texts) > 0 for asked in reading.unwanted):
            return Evidence(())
        strengths = tuple(_all(asked, texts) for asked in reading.parts)
        return Evidence(strengths, self._lift(reading, strengths, texts))

    def note(self, evidence: Evidence) -> None:
        """A page was seen: its words are that much more common."""
        self._pages += 1
        for place, strength in enumerate(evidence.strengths):
            self._holding[place] += strength > 0
        self.weights = self._weigh()

    def relevance(self, evidence: Evidence, weights: Sequence[float] | None = None) -> float:
        """How well a page answers, 0 to 1, by what is known now of how common the words are."""
        if not evidence.strengths:
            return 0.0
        weights = self.weights if weights is None else weights
        total = sum(weights)
        spoken = (
            sum(
                weight * strength
                for weight, strength in zip(weights, evidence.strengths, strict=True)
            )
            / total
        )
        missed = (
            sum(
                weight
                for weight, strength in zip(weights, evidence.strengths, strict=True)
                if strength <= 0
            )
            / total
        )
        return min(spoken * (1 - _MISSED * missed) * evidence.lift, 1.0)

    def likeness(self, text: str, language: str) -> float:
        """How much of the question a short text (an anchor, a URL's words) speaks of, 0 to 1. Hot
        path: remembered.
        """
        if not text:
            return 0.0
        key = (language, text)
        present = self._short.get(key)
        if present is None:
            if len(self._short) >= _KNOWN_TEXTS:
                self._short.clear()
            reading = self._reading(language)
            texts = dict.fromkeys(
                (IN_TITLE, IN_URL, IN_ANCHOR, "body"), _text(reading.analyzer, text)
            )
            present = self._short[key] = tuple(
                float(_all(asked, texts) > 0) for asked in reading.parts
            )
        weights = self.weights
        return sum(weight * there for weight, there in zip(weights, present, strict=True)) / sum(
            weights
        )

    def terms(self, text: str, language: str) -> list[str]:
        """A short text's terms, as its language has them."""
        return self._reading(language).analyzer.terms(text)

    def own_terms(self, language: str) -> frozenset[str]:
        """The terms of the question's own words, those left out that only hold it together."""
        reading = self._reading(language)
        return frozenset(
            term
            for asked, binding in zip(reading.parts, self._binding, strict=True)
            if not binding
            for word in _words(asked)
            for term in word.unit.phrase
        )

    def snippet(self, page: Page) -> Snippet:
        """The piece of a page that shows why it was found."""
        return self._reading(page.language).highlighter.snippet(
            [page.main_text, page.text], page.description
        )

    def _weigh(self) -> list[float]:
        return [
            inverse_frequency(self._pages + _ASSUMED, holding + _ASSUMED_HOLDING)
            * (_BINDING_WEIGHT if binding else 1.0)
            for holding, binding in zip(self._holding, self._binding, strict=True)
        ]

    def _reading(self, language: str) -> _ReadIn:
        reading = self._readings.get(language)
        if reading is None:
            reading = self._readings[language] = _ReadIn(
                self._parsed, analyzer_for(language), self._binding
            )
        return reading

    def _ruled_out(self, url: str, page: Page) -> bool:
        """Whether a restriction of the question leaves the page out. What only an index can tell
        (`link:`, `collection:`) does not.
        """
        for restriction in self._parsed.restrictions:
            holds = True
            if restriction.name == LANGUAGE:
                holds = page.language == restriction.value
            elif restriction.name == SITE:
                host, _, path = restriction.value.partition("/")
                own = hostname(url)
                holds = (own == host or own.endswith(f".{host}")) and url.partition("://")[
                    2
                ].partition("/")[2].startswith(path)
            elif restriction.name in (BEFORE, AFTER) and page.published_at is not None:
                holds = (page.published_at < date_ms(restriction.value)) == (
                    restriction.name == BEFORE
                )
            if holds != restriction.wanted:
                return True
        return False

    def _lift(
        self, reading: _ReadIn, strengths: tuple[float, ...], texts: dict[str, _Text]
    ) -> float:
        """What the parts count on top when they stand together."""
        wanted = [place for place, binding in enumerate(self._binding) if not binding]
        if len(wanted) < 2 or not all(strengths[place] > 0 for place in wanted):
            return 1.0
        if all(_all(reading.parts[place], {IN_TITLE: texts[IN_TITLE]}) > 0 for place in wanted):
            return _ALL_IN_TITLE
        starts = [
            {word.unit.phrase[0] for asked in reading.parts[place] for word in _of(asked)}
            for place in wanted
        ]
        return _TOGETHER if _within(texts["body"].terms, starts, _WINDOW * len(wanted)) else 1.0


class _ReadIn:
    """The question as one analyzer reads it: for each part what a page must hold."""

    def __init__(self, parsed: ParsedQuery, analyzer: Analyzer, binding: Sequence[bool]) -> None:
        self.analyzer = analyzer
        self.parts = [read_by(ParsedQuery((part,)), analyzer).parts for part in parsed.wanted]
        self.unwanted = read_by(parsed, analyzer).unwanted
        units: list[Unit] = [
            word.unit
            for asked, only in zip(self.parts, binding, strict=True)
            if not only
            for word in _words(asked)
        ]
        self.highlighter = Highlighter(
            analyzer,
            units,
            [word.prefix for asked in self.parts for word in _words(asked) if word.prefix],
        )


def url_words(url: str) -> str:
    """The words of a URL's path and query."""
    return " ".join(_URL_NOISE.sub(" ", url[:500]).split())


def _text(analyzer: Analyzer, text: str) -> _Text:
    terms = analyzer.terms(text) if text.strip() else []
    return _Text(terms, Counter(terms))


def _of(asked: Asked) -> Iterator[QueryWord]:
    if isinstance(asked, QueryWord):
        yield asked
    else:
        for part in asked.parts:
            yield from _of(part)


def _words(parts: Sequence[Asked]) -> Iterator[QueryWord]:
    for asked in parts:
        yield from _of(asked)


def _all(parts: Sequence[Asked], texts: dict[str, _Text]) -> float:
    """What is asked for in several words (a long word of a script without spaces) counts as far as
    they are there.
    """
    return sum(_strength(asked, texts) for asked in parts) / len(parts) if parts else 0.0


def _strength(asked: Asked, texts: dict[str, _Text]) -> float:
    if isinstance(asked, QueryWord):
        return _word_strength(asked, texts)
    strengths = [_strength(part, texts) for part in asked.parts]
    return sum(strengths) / len(strengths) if asked.every else max(strengths)


def _word_strength(word: QueryWord, texts: dict[str, _Text]) -> float:
    def stands(name: str) -> int:
        found = texts.get(name)
        return found.times(word) if found is not None and word.within in ("", name) else 0

    strength = (
        _TITLE * (stands(IN_TITLE) > 0)
        + _URL * (stands(IN_URL) > 0)
        + _ANCHOR * (stands(IN_ANCHOR) > 0)
    )
    headings = stands("headings")
    strength += _HEADINGS * headings / (headings + 0.5)
    times = stands("body")
    if times:
        length = len(texts["body"].terms)
        strength += _BODY * times / (times + _K1 * (1 - _B + _B * length / _USUAL_LENGTH))
    elif stands("rest"):
        strength += _REST
    if word.within in texts:
        strength = float(strength > 0)
    return min(strength, 1.0)


def _within(terms: Sequence[str], wanted: Sequence[set[str]], window: int) -> bool:
    """Whether a term of each set stands within so many terms of the text."""
    last = [-math.inf] * len(wanted)
    by_term: dict[str, list[int]] = {}
    for place, some in enumerate(wanted):
        for term in some:
            by_term.setdefault(term, []).append(place)
    for at, term in enumerate(terms):
        places = by_term.get(term)
        if places is not None:
            for place in places:
                last[place] = at
            if at - min(last) < window:
                return True
    return False
