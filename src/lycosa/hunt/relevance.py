"""The relevance of pages, anchors and URLs for the query of a hunt, computed without an index.

The query is parsed like that of a search (`lycosa.search.query.query`), with the analyzer of each
page's language. The `Evidence` of a page is the strength of each part of the query (words, phrases,
alternatives) in its fields. It is stored, and weighted again when the statistics change: a word
that all pages of a site contain loses weight (BM25, with a few assumed pages for the first one).
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
from lycosa.search.query.query import Clause, ParsedQuery, Part, clauses, parse_query
from lycosa.search.query.reading import QueryPart, QueryWord, read_by
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
from lycosa.text.stop_words import query_function_words
from lycosa.url.scope import hostname

RELEVANT = 0.45
"""Minimum relevance of a result, tuned on eight questions that bench/hunt.py does not report."""

MAX_ANALYZED = 60_000  # characters of a text
# pages assumed before the first one, and how many of them contain a part
_ASSUMED, _ASSUMED_CONTAINING = 20, 2
_FUNCTION_WEIGHT = 0.05  # factor for function words
# Strength of a part by field; the sum is at most 1. The body saturates as in BM25 (k1 = 1.2;
# b = 0.5, because a long page may contain a relevant chapter).
_TITLE, _HEADINGS, _BODY, _REST, _URL, _ANCHOR = 0.55, 0.25, 0.75, 0.15, 0.2, 0.2
_K1, _B = 1.2, 0.5
_MEAN_LENGTH = 500.0  # terms of a main text
_MISSING_PENALTY = 0.6  # share of the weight of missing parts
_ALL_IN_TITLE, _TOGETHER = 1.2, 1.2  # factors for all parts in the title, or in one window
_WINDOW = 4  # terms of the window per part
_URL_NOISE = re.compile(
    r"^[a-z][a-z0-9+.-]*://[^/]*|\.(?:html?|php|aspx?|jsp|cgi)(?=$|[?#])|[^\w]+|_+", re.IGNORECASE
)
_MAX_CACHED = 20_000  # short texts


@dataclass(slots=True, frozen=True)
class Evidence:
    """The strength (0 to 1) of each part of the query in a page; none for an excluded page.

    `boost`: factor for parts that occur together.
    """

    strengths: tuple[float, ...]
    boost: float = 1.0


@dataclass(slots=True)
class _Text:
    """The terms of a field."""

    terms: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def times(self, word: QueryWord) -> int:
        """Return how often a word of the query occurs."""
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


class HuntQuery:
    """A query, with statistics about its parts that grow with `add_statistics`."""

    def __init__(self, text: str) -> None:
        """Parse a query. Raises UsageError if it contains no words."""
        self.text = text
        self._parsed = parse_query(text)
        self.parts: tuple[Part, ...] = self._parsed.required
        if not self.parts or not any(
            analyzer_for("").terms(clause.text) for clause in clauses(self.parts)
        ):
            raise UsageError(f"a hunt needs words to search for: {text!r} contains none")

        def bare(clause: Clause) -> str:
            return clause.text.lower().strip("?!.,;:")

        function_words = query_function_words([bare(clause) for clause in clauses(self.parts)])
        self._is_function = [
            all(bare(each) in function_words and not each.phrase for each in clauses((part,)))
            for part in self.parts
        ]
        self._readings: dict[str, _Reading] = {}
        self._pages = 0
        self._containing = [0] * len(self.parts)
        self._cache: dict[tuple[str, str], tuple[float, ...]] = {}
        self.weights = self._weigh()
        """The weight of each part: the rarer on the pages so far, the higher."""

    def evidence(self, url: str, page: Page, anchors: Sequence[str] = ()) -> Evidence:
        """Find the parts in a page. `anchors`: texts of links to it.

        Analyzes the text of the page, which takes 1 ms for 15 KB.
        """
        if self._excludes(url, page):
            return Evidence(())
        reading = self._reading(page.language)
        analyzer = reading.analyzer
        texts = {
            IN_TITLE: _text(analyzer, f"{page.title}\n{page.headline}"),
            "headings": _text(analyzer, "\n".join(page.headings[:200])),
            "body": _text(analyzer, page.main_text[:MAX_ANALYZED]),
            IN_URL: _text(analyzer, url_words(url)),
            IN_ANCHOR: _text(analyzer, "\n".join(anchors)),
        }
        words = [word for parts in (*reading.parts, reading.unwanted) for word in _words(parts)]
        if len(page.text) > len(page.main_text) and not all(
            texts["body"].times(word) for word in words
        ):
            # only for words that the main text lacks
            texts["rest"] = _text(analyzer, page.text[:MAX_ANALYZED])
        if any(_strength(part, texts) > 0 for part in reading.unwanted):
            return Evidence(())
        strengths = tuple(_all(part, texts) for part in reading.parts)
        return Evidence(strengths, self._boost(reading, strengths, texts))

    def add_statistics(self, evidence: Evidence) -> None:
        """Count a page."""
        self._pages += 1
        for place, strength in enumerate(evidence.strengths):
            self._containing[place] += strength > 0
        self.weights = self._weigh()

    def relevance(self, evidence: Evidence) -> float:
        """Return the relevance of a page, 0 to 1, with the current weights."""
        if not evidence.strengths:
            return 0.0
        pairs = list(zip(self.weights, evidence.strengths, strict=True))
        total = sum(self.weights)
        matching = sum(weight * strength for weight, strength in pairs) / total
        missing = sum(weight for weight, strength in pairs if strength <= 0) / total
        return min(matching * (1 - _MISSING_PENALTY * missing) * evidence.boost, 1.0)

    def similarity(self, text: str, language: str) -> float:
        """Return the share of the query in a short text, 0 to 1. Results are cached."""
        if not text:
            return 0.0
        key = (language, text)
        present = self._cache.get(key)
        if present is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            reading = self._reading(language)
            texts = dict.fromkeys(
                (IN_TITLE, IN_URL, IN_ANCHOR, "body"), _text(reading.analyzer, text)
            )
            present = self._cache[key] = tuple(
                float(_all(part, texts) > 0) for part in reading.parts
            )
        weights = self.weights
        return sum(weight * there for weight, there in zip(weights, present, strict=True)) / sum(
            weights
        )

    def terms(self, text: str, language: str) -> list[str]:
        """Return the terms of a text."""
        return self._reading(language).analyzer.terms(text)

    def keywords(self, language: str) -> frozenset[str]:
        """Return the terms of the query without those of function words."""
        reading = self._reading(language)
        return frozenset(
            term
            for part, function in zip(reading.parts, self._is_function, strict=True)
            if not function
            for word in _words(part)
            for term in word.unit.phrase
        )

    def snippet(self, page: Page) -> Snippet:
        """Return the passage of a page that shows its relevance."""
        return self._reading(page.language).highlighter.snippet(
            [page.main_text, page.text], page.description
        )

    def _weigh(self) -> list[float]:
        return [
            inverse_frequency(self._pages + _ASSUMED, containing + _ASSUMED_CONTAINING)
            * (_FUNCTION_WEIGHT if function else 1.0)
            for containing, function in zip(self._containing, self._is_function, strict=True)
        ]

    def _reading(self, language: str) -> _Reading:
        reading = self._readings.get(language)
        if reading is None:
            reading = self._readings[language] = _Reading(
                self._parsed, analyzer_for(language), self._is_function
            )
        return reading

    def _excludes(self, url: str, page: Page) -> bool:
        """Return whether a restriction of the query excludes the page.

        Restrictions that need an index (`link:`, `collection:`) are ignored.
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
            if holds != restriction.include:
                return True
        return False

    def _boost(
        self, reading: _Reading, strengths: tuple[float, ...], texts: dict[str, _Text]
    ) -> float:
        """Return the factor for parts that occur together."""
        required = [place for place, function in enumerate(self._is_function) if not function]
        if len(required) < 2 or not all(strengths[place] > 0 for place in required):
            return 1.0
        if all(_all(reading.parts[place], {IN_TITLE: texts[IN_TITLE]}) > 0 for place in required):
            return _ALL_IN_TITLE
        starts = [
            {word.unit.phrase[0] for part in reading.parts[place] for word in _of(part)}
            for place in required
        ]
        return _TOGETHER if _within(texts["body"].terms, starts, _WINDOW * len(required)) else 1.0


class _Reading:
    """The query as parsed by one analyzer."""

    def __init__(
        self, parsed: ParsedQuery, analyzer: Analyzer, function_words: Sequence[bool]
    ) -> None:
        self.analyzer = analyzer
        self.parts = [read_by(ParsedQuery((part,)), analyzer).parts for part in parsed.required]
        self.unwanted = read_by(parsed, analyzer).excluded
        units: list[Unit] = [
            word.unit
            for part, function in zip(self.parts, function_words, strict=True)
            if not function
            for word in _words(part)
        ]
        self.highlighter = Highlighter(
            analyzer,
            units,
            [word.prefix for part in self.parts for word in _words(part) if word.prefix],
        )


def url_words(url: str) -> str:
    """Return the words of the path and query of a URL."""
    return " ".join(_URL_NOISE.sub(" ", url[:500]).split())


def _text(analyzer: Analyzer, text: str) -> _Text:
    terms = analyzer.terms(text) if text.strip() else []
    return _Text(terms, Counter(terms))


def _of(part: QueryPart) -> Iterator[QueryWord]:
    if isinstance(part, QueryWord):
        yield part
    else:
        for each in part.parts:
            yield from _of(each)


def _words(parts: Sequence[QueryPart]) -> Iterator[QueryWord]:
    for part in parts:
        yield from _of(part)


def _all(parts: Sequence[QueryPart], texts: dict[str, _Text]) -> float:
    """Return the mean strength of the words of a part (several in scripts without spaces)."""
    return sum(_strength(part, texts) for part in parts) / len(parts) if parts else 0.0


def _strength(part: QueryPart, texts: dict[str, _Text]) -> float:
    if isinstance(part, QueryWord):
        return _word_strength(part, texts)
    strengths = [_strength(each, texts) for each in part.parts]
    return sum(strengths) / len(strengths) if part.every else max(strengths)


def _word_strength(word: QueryWord, texts: dict[str, _Text]) -> float:
    def occurrences(name: str) -> int:
        field = texts.get(name)
        return field.times(word) if field is not None and word.within in ("", name) else 0

    strength = (
        _TITLE * (occurrences(IN_TITLE) > 0)
        + _URL * (occurrences(IN_URL) > 0)
        + _ANCHOR * (occurrences(IN_ANCHOR) > 0)
    )
    headings = occurrences("headings")
    strength += _HEADINGS * headings / (headings + 0.5)
    times = occurrences("body")
    if times:
        length = len(texts["body"].terms)
        strength += _BODY * times / (times + _K1 * (1 - _B + _B * length / _MEAN_LENGTH))
    elif occurrences("rest"):
        strength += _REST
    if word.within in texts:
        strength = float(strength > 0)
    return min(strength, 1.0)


def _within(terms: Sequence[str], required: Sequence[set[str]], window: int) -> bool:
    """Return whether a window of this many terms contains a term of each set."""
    last = [-math.inf] * len(required)
    by_term: dict[str, list[int]] = {}
    for place, some in enumerate(required):
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
