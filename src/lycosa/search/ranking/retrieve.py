"""Build tantivy queries from the readings of a query: terms, fields and weights. The formula is in
docs/explanation/ranking.md.

A query without a language has one reading per analyzer; a page has the score of the best one
(disjunction max). Keywords must occur in some field: title, headings, body, the rest of the page,
anchor texts or the URL.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import tantivy
from tantivy import Occur, Query

from lycosa.index.schema import (
    ANCHOR_ROLE,
    BODY_ROLE,
    FULL_ROLE,
    HEADINGS_ROLE,
    ID,
    LANGUAGE,
    TITLE_ROLE,
    URL_WORDS,
    text_field,
    url_words,
)
from lycosa.index.suggest.normalise import folded
from lycosa.search.engine.search_query import ANY, REQUIRE_ALL, SENTENCE, SearchQuery
from lycosa.search.query.filters import Filters, filter_clauses
from lycosa.search.query.reading import QueryPart, QueryWord, Reading
from lycosa.search.query.syntax import IN_ANCHOR, IN_TITLE, IN_URL
from lycosa.search.ranking.expression import (
    AtLeast,
    DisMax,
    Expression,
    Leaf,
    Prefix,
    WithOptional,
    every,
    pruned,
    to_query,
    without,
)
from lycosa.search.ranking.feedback import Expansion
from lycosa.search.ranking.sentence import (
    MAX_PARTS_WITH_REQUIRED,
    SentenceTerms,
    sentence_expression,
    sentence_terms,
)
from lycosa.search.ranking.statistics import (
    WRITTEN,
    Statistics,
    Term,
    correction,
    inverse_frequency,
)
from lycosa.text.analyze import Unit

WEIGHTS = {TITLE_ROLE: 3.0, HEADINGS_ROLE: 1.0, BODY_ROLE: 1.0, FULL_ROLE: 0.1, ANCHOR_ROLE: 1.0}
"""Field weights for keywords, chosen on known-item search (bench/search.py); halving or doubling
them changes little.
"""
URL_WEIGHT = 0.5
WORD_WEIGHT = 0.5
"""Weight of a complete Chinese or Japanese word, in addition to its characters."""
PREFIX_SCORE = 2.0
"""Score of a prefix: BM25's score of a word in every tenth page."""
NEAR_WEIGHT, NEAR_SLOP = 0.6, 2
"""Weight of all words close together in the body, and the positions that they may be apart."""
TITLE_WEIGHT = 6.0
"""Weight of a title that contains all words."""
READING_TIE = 0.1
"""Share of the score of further readings that is added to the best one."""
LANGUAGE_PRIOR_POWER = 0.6
"""Exponent of a language's share of the pages, as its probability before the words of the query are
known.
"""
LANGUAGE_SMOOTHING = 5.0
"""Pages with the average share of each word that are added to every language."""
STEM_EVIDENCE = 0.1
"""Weight of a page with a word's stem as evidence of the language; 1: the word as written."""
MIN_LANGUAGE_WEIGHT = 0.01
SENTENCE_WEIGHTS = {BODY_ROLE: 1.0, FULL_ROLE: 0.1, ANCHOR_ROLE: 0.2}

_FIELDS_WITHIN: Mapping[str, Mapping[str, float]] = {
    IN_TITLE: {TITLE_ROLE: WEIGHTS[TITLE_ROLE]},
    IN_ANCHOR: {ANCHOR_ROLE: WEIGHTS[ANCHOR_ROLE]},
    IN_URL: {},
}


class QueryBuilder:
    """Builds queries for one index.

    `here` has the statistics of this index, `everywhere` those of all searched indexes; scores are
    about those of one index with all documents. With one index, both are the same object.
    """

    def __init__(self, schema: tantivy.Schema, here: Statistics, everywhere: Statistics) -> None:
        self._schema = schema
        self._here = here
        self._everywhere = everywhere
        self._count = everywhere.holding

    def build(self, query: SearchQuery, readings: Sequence[Reading], stage: float) -> Query:
        """Build the query of a stage: pages with all words, some of them, or similar to a page."""
        expression = self.expression(query, readings, stage)
        exclusions: list[Query] = []
        if query.like is not None:
            if expression is None:
                return Query.empty_query()
            exclusions.append(Query.term_query(self._schema, ID, query.like.page, "basic"))
        elif stage >= ANY and (all_words := self.required(readings)) is not None:
            exclusions += [self._query(part, made=True) for part in all_words.parts]
        return without(self.narrowed(readings, query.filters, expression), exclusions)

    def expression(
        self, query: SearchQuery, readings: Sequence[Reading], stage: float
    ) -> Expression | None:
        """Return the expression of a stage of a query; None: the query has no word."""
        if query.like is not None:
            like, words = query.like.expression(), self.required(readings)
            return like if like is None or words is None else every((words, like))
        if stage == SENTENCE:
            return self.sentence(readings, query.expansion)
        return self.required(readings, None if stage == REQUIRE_ALL else stage)

    def filtered(
        self, expression: Expression | None, filters: Filters, *, made: bool = False
    ) -> Query:
        """Build a query of pages that match an expression, if there is one, and the filters.

        `made`: the expression is by `required`, so it has no leaf without pages.
        """
        matches = Query.all_query() if expression is None else self._query(expression, made=made)
        clauses = filter_clauses(self._schema, filters)
        return Query.boolean_query([(Occur.Must, matches), *clauses]) if clauses else matches

    def required(self, readings: Sequence[Reading], share: float | None = None) -> DisMax | None:
        """Return the expression of all words, or of this share of them; None: there is no word.

        Words without pages are left out, and readings that no page can match.
        """
        read = [reading for reading in readings if reading.parts]
        if not read:
            return None
        parts = []
        for reading, (_, factors) in zip(read, self._factors(read), strict=True):
            count = len(reading.parts)
            least = count if share is None else max(1, round(share * count))
            expression = _parts_expression(reading, factors, least, self._holds)
            if expression is not None:
                parts.append(expression)
        return DisMax(tuple(parts), READING_TIE)

    def sentence(
        self, readings: Sequence[Reading], expansion: Expansion | None = None
    ) -> DisMax | None:
        """Build the expression of a sentence; None: it has no word."""
        read = [reading for reading in readings if reading.parts]
        if not read:
            return None
        parts = []
        for reading, (language, factors) in zip(read, self._factors(read), strict=True):
            terms = self.sentence_terms(reading)
            field_set = reading.analyzer.field_set
            leaves = [] if expansion is None else expansion.leaves(field_set, terms.total)
            added = [
                leaf.times(
                    language
                    * self._rarity(self._pages_of(reading), self._count(leaf.field, *leaf.terms))
                )
                for leaf in leaves
                if self._holds(leaf.field, leaf.terms)
            ]

            def make(
                part: QueryPart, factor: float, field_set: str = field_set
            ) -> Expression | None:
                if isinstance(part, QueryWord):
                    return _somewhere(part, field_set, SENTENCE_WEIGHTS, factor, self._holds)
                return _expression(part, field_set, {}, SENTENCE_WEIGHTS, self._holds)

            every_word = None
            if 1 < len(reading.parts) <= MAX_PARTS_WITH_REQUIRED:
                every_word = _parts_expression(reading, factors, len(reading.parts), self._holds)
            extra = () if every_word is None else (every_word,)
            expression = sentence_expression(
                reading, terms, factors, make, added=added, extra=extra
            )
            if expression is not None:
                parts.append(expression)
        return DisMax(tuple(parts), 0.0)

    def sentence_terms(self, reading: Reading) -> SentenceTerms:
        """Return the words of a sentence that are scored."""
        return sentence_terms(
            reading, lambda word: self._holding(word.unit, reading.analyzer.field_set)
        )

    def narrowed(
        self, readings: Sequence[Reading], filters: Filters, expression: Expression | None
    ) -> Query:
        """Build a query of the pages that match an expression, if there is one, and the filters,
        and that have no excluded word.
        """
        excluded = (
            _expression(part, reading.analyzer.field_set, {}, WEIGHTS, self._holds)
            for reading in readings
            for part in reading.excluded
        )
        return without(
            self.filtered(expression, filters, made=True),
            [self._query(part, made=True) for part in excluded if part is not None],
        )

    def _factors(self, readings: Sequence[Reading]) -> list[tuple[float, dict[QueryWord, float]]]:
        """Return the weight of each reading and the factor of each of its words.

        The weight is the probability of its language, relative to the best score that its words can
        reach. A factor also corrects the document frequency, which tantivy counts over pages of all
        languages.
        """
        pages = [self._pages_of(reading) for reading in readings]
        held = [
            {word: self._holding(word.unit, reading.analyzer.field_set) for word in reading.words()}
            for reading in readings
        ]
        weights = self._language_weights(readings, pages, held)
        reachable = [
            sum(inverse_frequency(most, min(most, count)) for count in counts.values()) or 1.0
            for counts, most in zip(held, pages, strict=True)
        ]
        norm = reachable[weights.index(max(weights))]
        factors = []
        for weight, counts, number, most in zip(weights, held, pages, reachable, strict=True):
            weight *= norm / most
            words = {word: weight * self._rarity(number, count) for word, count in counts.items()}
            factors.append((weight, words))
        return factors

    def _pages_of(self, reading: Reading) -> int:
        """Return the number of pages in the language of a reading, at least 1."""
        return max(1, self._count(LANGUAGE, reading.language))

    def _rarity(self, pages: int, count: int) -> float:
        """Return the inverse document frequency of a term among the `pages` of its language,
        divided by that among all pages.
        """
        documents = self._everywhere.counted
        return inverse_frequency(pages, min(pages, count)) / inverse_frequency(
            documents, min(documents, count)
        )

    def _language_weights(
        self,
        readings: Sequence[Reading],
        pages: Sequence[int],
        held: Sequence[Mapping[QueryWord, int]],
    ) -> list[float]:
        """Return the probability of each reading relative to the most probable one (naive Bayes
        over the words of the query).

        Args:
            pages: those in the language of each reading.
            held: maximum number of pages with each word, by reading.
        """
        if len(readings) < 2:
            return [1.0] * len(readings)
        evidence: list[dict[int, float]] = []
        for reading, words in zip(readings, held, strict=True):
            counts: dict[int, float] = {}
            full = text_field(FULL_ROLE, reading.analyzer.field_set)
            for word, number in words.items():
                count = STEM_EVIDENCE * number
                if number or self._holds(full, word.unit.phrase):
                    count += self._count(*written_word(word, reading))
                counts[word.place] = min(counts.get(word.place, count), count)
            evidence.append(counts)
        places = {place for counts in evidence for place in counts}
        everywhere = {
            place: sum(counts.get(place, 0) for counts in evidence) / sum(pages) for place in places
        }
        likely = []
        for counts, number in zip(evidence, pages, strict=True):
            value = LANGUAGE_PRIOR_POWER * math.log(number / sum(pages))
            for place in places:
                share = counts.get(place, 0) + LANGUAGE_SMOOTHING * everywhere[place] + 1e-3
                value += math.log(share / (number + LANGUAGE_SMOOTHING))
            likely.append(value)
        best = max(likely)
        return [max(MIN_LANGUAGE_WEIGHT, math.exp(value - best)) for value in likely]

    def _holding(self, unit: Unit, field_set: str) -> int:
        """Return the maximum number of pages with a unit in the body."""
        name = text_field(BODY_ROLE, field_set)
        return min(self._count(name, term) for term in unit.phrase)

    def _holds(self, name: str, terms: Sequence[str]) -> bool:
        """Return whether a page may have these terms in a field."""
        return all(map(self._count, itertools.repeat(name), terms))

    def _query(self, expression: Expression, *, made: bool = False) -> Query:
        here, everywhere = self._here, self._everywhere
        left: Expression | None = expression
        if not made or here is not everywhere:
            left = pruned(
                expression, lambda leaf: all(here.holding(leaf.field, term) for term in leaf.terms)
            )
        if left is None or (isinstance(left, DisMax) and not left.parts):
            return Query.empty_query()
        if here is everywhere:
            return to_query(left, self._schema)
        return to_query(
            left, self._schema, lambda leaf: correction(leaf.field, leaf.terms, here, everywhere)
        )


Holds = Callable[[str, Sequence[str]], bool]
"""Return whether a page may have these terms in a field."""


def _parts_expression(
    reading: Reading, factors: Mapping[QueryWord, float], least: int, holds: Holds
) -> Expression | None:
    """Require `least` parts of a reading, and add the scores of `_proximity`; None: no match."""
    field_set = reading.analyzer.field_set
    parts = []
    missing = len(reading.parts) - least  # parts that may be missing
    for part in reading.parts:
        expression = _expression(part, field_set, factors, WEIGHTS, holds)
        if expression is not None:
            parts.append(expression)
        elif (missing := missing - 1) < 0:
            return None
    return WithOptional(
        AtLeast(tuple(parts), least),
        tuple(_proximity(reading.parts, field_set, min(factors.values(), default=1.0), holds)),
    )


def _expressions(
    parts: Sequence[QueryPart],
    field_set: str,
    factors: Mapping[QueryWord, float],
    weights: Mapping[str, float],
    holds: Holds,
) -> tuple[Expression, ...]:
    expressions = (_expression(part, field_set, factors, weights, holds) for part in parts)
    return tuple(part for part in expressions if part is not None)


def _expression(
    part: QueryPart,
    field_set: str,
    factors: Mapping[QueryWord, float],
    weights: Mapping[str, float],
    holds: Holds,
) -> Expression | None:
    if isinstance(part, QueryWord):
        return _somewhere(part, field_set, weights, factors.get(part, 1.0), holds)
    parts = _expressions(part.parts, field_set, factors, weights, holds)
    if not parts or (part.every and len(parts) < len(part.parts)):
        return None
    return every(parts) if part.every else AtLeast(parts)


def _somewhere(
    word: QueryWord, field_set: str, weights: Mapping[str, float], factor: float, holds: Holds
) -> AtLeast | None:
    """Match a word in any of its fields, whose scores are added.

    A prefix is also searched for as a word, because the index may have it without its ending.
    """
    unit = word.unit
    parts: list[Expression] = []

    def add(name: str, terms: tuple[str, ...], weight: float) -> None:
        if holds(name, terms):
            parts.append(Leaf(name, terms, weight))
        if word.prefix:
            parts.append(Prefix(name, word.prefix, weight * PREFIX_SCORE))

    for role, weight in _FIELDS_WITHIN.get(word.within, weights).items():
        name = text_field(role, field_set)
        add(name, tuple(unit.phrase), weight * factor)
        if unit.word and holds(name, (unit.word,)):
            parts.append(Leaf(name, (unit.word,), weight * WORD_WEIGHT * factor))
    if word.within in ("", IN_URL):
        plain = _plain_terms(unit.surface or " ".join(unit.phrase))
        if plain:
            add(URL_WORDS, plain, URL_WEIGHT * factor)
    return AtLeast(tuple(parts)) if parts else None


@functools.lru_cache(maxsize=4_096)
def _plain_terms(text: str) -> tuple[str, ...]:
    """Return a word as it is among the words of a URL. Cached as `_written` is."""
    return tuple(url_words(text))


_written = functools.lru_cache(maxsize=4_096)(folded)  # all readings need the same words


def _proximity(
    parts: Sequence[QueryPart], field_set: str, factor: float, holds: Holds
) -> Iterator[Expression]:
    """Yield expressions that add to the score: all words in the title, or close together."""
    units = [
        part.unit
        for part in parts
        if isinstance(part, QueryWord) and not part.within and not part.prefix
    ]
    if len(units) < 2 or len(units) < len(parts):
        return
    title, body = text_field(TITLE_ROLE, field_set), text_field(BODY_ROLE, field_set)
    if all(holds(title, unit.phrase) for unit in units):
        yield every(Leaf(title, tuple(unit.phrase), TITLE_WEIGHT * factor) for unit in units)
    terms = tuple(term for unit in units for term in unit.phrase)
    if holds(body, terms):
        yield Leaf(body, terms, NEAR_WEIGHT * factor, NEAR_SLOP)


def written_word(word: QueryWord, reading: Reading) -> Term:
    """Return the term by which pages with a word as written are counted."""
    return text_field(WRITTEN, reading.language), _written(
        word.unit.surface or " ".join(word.unit.phrase)
    )


def terms_of(readings: Sequence[Reading]) -> list[Term]:
    """Return the terms whose frequencies affect the scores of these readings, each once."""
    used: dict[Term, None] = {(LANGUAGE, reading.language): None for reading in readings}

    def note(name: str, terms: Sequence[str]) -> bool:
        used.update(dict.fromkeys((name, term) for term in terms))
        return True

    for reading in readings:
        _expressions(
            (*reading.parts, *reading.excluded), reading.analyzer.field_set, {}, WEIGHTS, note
        )
        if len(readings) > 1:
            used.update(dict.fromkeys(written_word(word, reading) for word in reading.words()))
    return list(used)
