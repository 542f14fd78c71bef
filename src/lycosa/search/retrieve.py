"""From the readings of a query to tantivy's queries: which terms in which fields, with which weight.

A query without a language is read by several analyzers, and the best of these readings counts (disjunction max: a page is found by
its own). Within a reading every word must stand somewhere: title, headings, body, the rest of the page, links to it, or the URL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import tantivy
from tantivy import Occur, Query

from lycosa.index.schema import (
    ANCHOR_ROLE,
    BODY_ROLE,
    FULL_ROLE,
    HEADINGS_ROLE,
    TITLE_ROLE,
    URL_WORDS,
    text_field,
)
from lycosa.search.expression import Also, Beginning, Best, Expression, Leaf, Some, every, leaves, pruned, to_query
from lycosa.search.filters import Filters, filter_clauses
from lycosa.search.reading import Asked, Reading, Word, read
from lycosa.search.statistics import Statistics, Term, correction, inverse_frequency
from lycosa.search.syntax import IN_ANCHOR, IN_TITLE, IN_URL
from lycosa.text.analyze import Unit, analyzer_for

__all__ = ["Filters", "QueryBuilder", "Reading", "read"]

# Weights of the fields in BM25 (k1 = 1.2, b = 0.75, tantivy's). Calibrated on known-item search over the 5,477 pages of the six
# documentation sites (bench/search.py prints the mean reciprocal ranks: by a page's title .97, by six words of one of its sentences
# .65). Between half and twice these values little moves; without TITLE_WEIGHT titles fall to .92, without commonness texts to .63.
WEIGHTS = {TITLE_ROLE: 3.0, HEADINGS_ROLE: 1.0, BODY_ROLE: 1.0, FULL_ROLE: 0.1, ANCHOR_ROLE: 1.0}
# Of a question of many words, each says little by being in a title. Chosen on the odd questions of Cranfield (bench/relevance.py): mean
# average precision .389 there, .35 with the weights above, .32 where titles do not count.
LONG = 6  # words and groups of words from which a query is such a question
LONG_WEIGHTS = {TITLE_ROLE: 1.5, HEADINGS_ROLE: 0.5, BODY_ROLE: 1.0, FULL_ROLE: 0.1, ANCHOR_ROLE: 0.5}
PAIR_WEIGHT = 0.4  # of two words of a long query that stand next to each other in it, and in the text
URL_WEIGHT = 0.5
WORD_WEIGHT = 0.5  # of a whole Chinese or Japanese word, on top of its characters
BEGINNING_SCORE = 2.0  # of a word of which only the beginning was given: BM25's score of one that every tenth page holds
NEAR_WEIGHT = 0.6  # of all the words standing together, in title or body, on top of the words
NEAR_SLOP = 2  # positions that words may stand apart to count as together
TITLE_WEIGHT = 6.0  # of all the words in the title
RELAX_SHARE = 0.6  # of the words that a page must hold once few pages hold all of them
READING_TIE = 0.1  # what a second reading of the query adds

_FIELDS_WITHIN: Mapping[str, Mapping[str, float]] = {
    IN_TITLE: {TITLE_ROLE: WEIGHTS[TITLE_ROLE]},
    IN_ANCHOR: {ANCHOR_ROLE: WEIGHTS[ANCHOR_ROLE]},
    IN_URL: {},
}


class QueryBuilder:
    """Builds queries for one index.

    `here` is what that index knows of the words, `everywhere` what it and those know that are asked with it: scores come out
    about as those of one index that holds all documents. It is the same object where there is only one.
    """

    def __init__(self, schema: tantivy.Schema, here: Statistics, everywhere: Statistics) -> None:
        self._schema = schema
        self._here = here
        self._everywhere = everywhere

    def strict(self, readings: Sequence[Reading], filters: Filters) -> Query:
        """Pages that hold every word."""
        return self._narrowed(readings, filters, self.wanted(readings))

    def relaxed(self, readings: Sequence[Reading], filters: Filters, share: float) -> Query:
        """Pages that hold this share of the words, at least one, but not all of them."""
        some, all_of_them = self.wanted(readings, share), self.wanted(readings)
        without = [] if all_of_them is None else [(Occur.MustNot, self._query(part)) for part in all_of_them.parts]
        return Query.boolean_query([(Occur.Must, self._narrowed(readings, filters, some)), *without])

    def filtered(self, expression: Expression | None, filters: Filters) -> Query:
        """Pages that match an expression (all pages, without one) and that the filters let through."""
        wanted = Query.all_query() if expression is None else self._query(expression)
        return Query.boolean_query([(Occur.Must, wanted), *filter_clauses(self._schema, filters)])

    def asked(self, wanted: Expression, filters: Filters, unwanted: Iterable[Leaf] = ()) -> Query:
        """Pages that an expression matches and the filters let through."""
        without = [(Occur.MustNot, to_query(leaf, self._schema)) for leaf in unwanted]
        return Query.boolean_query([(Occur.Must, self.filtered(wanted, filters)), *without])

    def wanted(self, readings: Sequence[Reading], share: float | None = None) -> Best | None:
        """What a page must hold, and what that counts: this share of the words, or all of them. None: the query wants no word."""
        parts = [
            _asked(reading, factors, len(reading.parts) if share is None else max(1, round(share * len(reading.parts))))
            for reading, factors in zip(readings, self._commonness(readings), strict=True)
            if reading.parts
        ]
        return Best(tuple(parts), READING_TIE) if parts else None

    def _narrowed(self, readings: Sequence[Reading], filters: Filters, wanted: Expression | None) -> Query:
        unwanted = [(part, reading.analyzer.field_set) for reading in readings for part in reading.unwanted]
        query = self.filtered(wanted, filters)
        if not unwanted:
            return query
        without = [(Occur.MustNot, self._query(_expression(part, field_set, {}))) for part, field_set in unwanted]
        return Query.boolean_query([(Occur.Must, query), *without])

    def _commonness(self, readings: Sequence[Reading]) -> list[dict[Word, float]]:
        """For each word of each reading what its score must be multiplied by so that it counts as it is rare in the whole index.

        `the` is rare among Vietnamese pages, whose fields are not the English ones: without this the first hit for `the` would be
        Vietnamese.
        """
        documents = self._everywhere.documents
        holding = [{word: self._holding(word.unit, reading.analyzer.field_set) for word in reading.words()} for reading in readings]
        by_set: dict[tuple[int, str], int] = {}
        for reading, counts in zip(readings, holding, strict=True):
            for word, count in counts.items():
                key = word.place, reading.analyzer.field_set
                by_set[key] = max(by_set.get(key, 0), count)
        total: dict[int, int] = {}
        for (place, _), count in by_set.items():
            total[place] = min(documents, total.get(place, 0) + count)
        return [
            {
                word: min(1.0, inverse_frequency(documents, total[word.place]) / inverse_frequency(documents, min(documents, count)))
                for word, count in counts.items()
            }
            for counts in holding
        ]

    def _holding(self, unit: Unit, field_set: str) -> int:
        """Pages whose body holds a unit, at most."""
        return min(self._everywhere.holding(text_field(BODY_ROLE, field_set), term) for term in unit.phrase)

    def _query(self, expression: Expression) -> Query:
        held: dict[tuple[str, str], bool] = {}

        def holds(leaf: Leaf) -> bool:
            for term in leaf.terms:
                key = leaf.field, term
                if key not in held:
                    held[key] = self._here.holding(*key) > 0
                if not held[key]:
                    return False
            return True

        left = pruned(expression, holds)
        if left is None:
            return Query.empty_query()
        if self._here is self._everywhere:
            return to_query(left, self._schema)
        return to_query(left, self._schema, lambda leaf: correction(leaf.field, leaf.terms, self._here, self._everywhere))


def _asked(reading: Reading, factors: Mapping[Word, float], least: int) -> Expression:
    """So many of a reading's parts; what lifts a page above others that hold them too comes on top."""
    field_set = reading.analyzer.field_set
    weights = LONG_WEIGHTS if len(reading.parts) >= LONG else WEIGHTS
    parts = tuple(_expression(part, field_set, factors, weights) for part in reading.parts)
    return Also(Some(parts, least), tuple(_together(reading.parts, field_set, min(factors.values(), default=1.0))))


def _expression(asked: Asked, field_set: str, factors: Mapping[Word, float], weights: Mapping[str, float] = WEIGHTS) -> Expression:
    if isinstance(asked, Word):
        found = _somewhere(asked, field_set, weights)
        factor = factors.get(asked, 1.0)
        return found if factor == 1.0 else found.times(factor)
    parts = tuple(_expression(part, field_set, factors, weights) for part in asked.parts)
    return every(parts) if asked.every else Some(parts)


def _somewhere(word: Word, field_set: str, weights: Mapping[str, float]) -> Some:
    """A word in any field where it may stand, each field's score counted. A beginning is also a word by itself: the index may hold it
    without its ending."""
    unit = word.unit
    found: list[Expression] = []

    def add(name: str, terms: tuple[str, ...], weight: float) -> None:
        found.append(Leaf(name, terms, weight))
        if word.beginning:
            found.append(Beginning(name, word.beginning, weight * BEGINNING_SCORE))

    for role, weight in _FIELDS_WITHIN.get(word.within, weights).items():
        name = text_field(role, field_set)
        add(name, tuple(unit.phrase), weight)
        if unit.word:
            found.append(Leaf(name, (unit.word,), weight * WORD_WEIGHT))
    if word.within in ("", IN_URL):
        plain = tuple(analyzer_for("").terms(unit.surface or " ".join(unit.phrase)))
        if plain:
            add(URL_WORDS, plain, URL_WEIGHT)
    return Some(tuple(found))


def _together(parts: Sequence[Asked], field_set: str, factor: float) -> list[Expression]:
    """What lifts a page above others that hold the words too: all of them in the title, or close together in the text."""
    units = [part.unit for part in parts if isinstance(part, Word) and not part.within and not part.beginning]
    if len(units) < 2 or len(units) < len(parts):
        return []
    title, body = text_field(TITLE_ROLE, field_set), text_field(BODY_ROLE, field_set)
    in_title = every(Leaf(title, tuple(unit.phrase), TITLE_WEIGHT * factor) for unit in units)
    terms = tuple(term for unit in units for term in unit.phrase)
    if len(units) < LONG:
        return [in_title, Leaf(body, terms, NEAR_WEIGHT * factor, NEAR_SLOP)]
    pairs = (Leaf(body, (*first.phrase, *second.phrase), PAIR_WEIGHT * factor, 1) for first, second in itertools.pairwise(units))
    return [in_title, *pairs]


def terms_of(readings: Iterable[Reading]) -> list[Term]:
    """The terms whose frequencies the scores of these readings depend on, each once."""
    return list(
        dict.fromkeys(
            (leaf.field, term)
            for reading in readings
            for part in (*reading.parts, *reading.unwanted)
            for leaf in leaves(_expression(part, reading.analyzer.field_set, {}))
            for term in leaf.terms
        )
    )
