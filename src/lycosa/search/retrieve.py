"""From the readings of a query to tantivy's queries: which terms in which fields, with which weight.

A query without a language is read by several analyzers, and the best of these readings counts (disjunction max: a page is found by
its own). Within a reading every word must stand somewhere: title, headings, body, the rest of the page, links to it, or the URL.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import tantivy
from tantivy import Occur, Query

from lycosa.index.schema import (
    ANCHOR_ROLE,
    BODY_ROLE,
    FULL_ROLE,
    HEADINGS_ROLE,
    ID,
    TITLE_ROLE,
    URL_WORDS,
    text_field,
)
from lycosa.search.expression import Also, Beginning, Best, Expression, Leaf, Some, every, pruned, to_query
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
        self._counts: dict[Term, int] = {}

    def strict(self, readings: Sequence[Reading], filters: Filters) -> Query:
        """Pages that hold every word."""
        return self._narrowed(readings, filters, self.wanted(readings))

    def relaxed(self, readings: Sequence[Reading], filters: Filters, share: float) -> Query:
        """Pages that hold this share of the words, at least one, but not all of them."""
        some, all_of_them = self.wanted(readings, share), self.wanted(readings)
        without = [] if all_of_them is None else [(Occur.MustNot, self._query(part, made=True)) for part in all_of_them.parts]
        return Query.boolean_query([(Occur.Must, self._narrowed(readings, filters, some)), *without])

    def alike(self, readings: Sequence[Reading], filters: Filters, like: Expression, page: str) -> Query:
        """Pages like a page, without itself."""
        itself = Query.term_query(self._schema, ID, page, "basic")
        return Query.boolean_query(
            [(Occur.Must, self._narrowed(readings, filters, self.with_words(readings, like))), (Occur.MustNot, itself)]
        )

    def with_words(self, readings: Sequence[Reading], like: Expression) -> Expression:
        """Likeness, together with every word of the query."""
        words = self.wanted(readings)
        return like if words is None else every((words, like))

    def filtered(self, expression: Expression | None, filters: Filters, *, made: bool = False) -> Query:
        """Pages that match an expression (all pages, without one) and that the filters let through. `made`: by `wanted`."""
        wanted = Query.all_query() if expression is None else self._query(expression, made=made)
        return Query.boolean_query([(Occur.Must, wanted), *filter_clauses(self._schema, filters)])

    def asked(self, wanted: Expression, filters: Filters, unwanted: Iterable[Leaf] = ()) -> Query:
        """Pages that an expression matches and the filters let through."""
        without = [(Occur.MustNot, to_query(leaf, self._schema)) for leaf in unwanted]
        return Query.boolean_query([(Occur.Must, self.filtered(wanted, filters)), *without])

    def wanted(self, readings: Sequence[Reading], share: float | None = None) -> Best | None:
        """What a page must hold, and what that counts: this share of the words, or all of them. None: the query wants no word.

        Words that no page holds are left out, and readings that no page can match.
        """
        read = [reading for reading in readings if reading.parts]
        if not read:
            return None
        parts = []
        for reading, factors in zip(read, self._commonness(read), strict=True):
            count = len(reading.parts)
            found = _asked(reading, factors, count if share is None else max(1, round(share * count)), self._holds)
            if found is not None:
                parts.append(found)
        return Best(tuple(parts), READING_TIE)

    def _narrowed(self, readings: Sequence[Reading], filters: Filters, wanted: Expression | None) -> Query:
        unwanted = [(part, reading.analyzer.field_set) for reading in readings for part in reading.unwanted]
        query = self.filtered(wanted, filters, made=True)
        without = [_expression(part, field_set, {}, WEIGHTS, self._holds) for part, field_set in unwanted]
        clauses = [(Occur.MustNot, self._query(part, made=True)) for part in without if part is not None]
        return Query.boolean_query([(Occur.Must, query), *clauses]) if clauses else query

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
        name = text_field(BODY_ROLE, field_set)
        return min(self._count(name, term) for term in unit.phrase)

    def _holds(self, name: str, terms: Sequence[str]) -> bool:
        """Whether there may be a page that has these terms in a field."""
        return all(self._count(name, term) for term in terms)

    def _count(self, name: str, term: str) -> int:
        count = self._counts.get((name, term))
        if count is None:
            count = self._counts[name, term] = self._everywhere.holding(name, term)
        return count

    def _query(self, expression: Expression, *, made: bool = False) -> Query:
        alone = self._here is self._everywhere
        left = expression if made and alone else pruned(expression, self._holds_here)
        if left is None or (isinstance(left, Best) and not left.parts):
            return Query.empty_query()
        if alone:
            return to_query(left, self._schema)
        return to_query(left, self._schema, lambda leaf: correction(leaf.field, leaf.terms, self._here, self._everywhere))

    def _holds_here(self, leaf: Leaf) -> bool:
        return all(self._here.holding(leaf.field, term) for term in leaf.terms)


Holds = Callable[[str, Sequence[str]], bool]
"""Whether there may be a page that has these terms in a field."""


def _asked(reading: Reading, factors: Mapping[Word, float], least: int, holds: Holds) -> Expression | None:
    """So many of a reading's parts; what lifts a page above others that hold them too comes on top. None: no page can match."""
    field_set = reading.analyzer.field_set
    weights = LONG_WEIGHTS if len(reading.parts) >= LONG else WEIGHTS
    parts = []
    missing = len(reading.parts) - least  # so many parts no page needs to hold
    for part in reading.parts:
        found = _expression(part, field_set, factors, weights, holds)
        if found is not None:
            parts.append(found)
        elif (missing := missing - 1) < 0:
            return None
    return Also(Some(tuple(parts), least), tuple(_together(reading.parts, field_set, min(factors.values(), default=1.0), holds)))


def _held(
    parts: Sequence[Asked], field_set: str, factors: Mapping[Word, float], weights: Mapping[str, float], holds: Holds
) -> tuple[Expression, ...]:
    found = (_expression(part, field_set, factors, weights, holds) for part in parts)
    return tuple(part for part in found if part is not None)


def _expression(
    asked: Asked, field_set: str, factors: Mapping[Word, float], weights: Mapping[str, float], holds: Holds
) -> Expression | None:
    if isinstance(asked, Word):
        return _somewhere(asked, field_set, weights, factors.get(asked, 1.0), holds)
    parts = _held(asked.parts, field_set, factors, weights, holds)
    if not parts or (asked.every and len(parts) < len(asked.parts)):
        return None
    return every(parts) if asked.every else Some(parts)


def _somewhere(word: Word, field_set: str, weights: Mapping[str, float], factor: float, holds: Holds) -> Some | None:
    """A word in any field where it may stand, each field's score counted. A beginning is also a word by itself: the index may hold it
    without its ending."""
    unit = word.unit
    found: list[Expression] = []

    def add(name: str, terms: tuple[str, ...], weight: float) -> None:
        if holds(name, terms):
            found.append(Leaf(name, terms, weight))
        if word.beginning:
            found.append(Beginning(name, word.beginning, weight * BEGINNING_SCORE))

    for role, weight in _FIELDS_WITHIN.get(word.within, weights).items():
        name = text_field(role, field_set)
        add(name, tuple(unit.phrase), weight * factor)
        if unit.word and holds(name, (unit.word,)):
            found.append(Leaf(name, (unit.word,), weight * WORD_WEIGHT * factor))
    if word.within in ("", IN_URL):
        plain = _plain_terms(unit.surface or " ".join(unit.phrase))
        if plain:
            add(URL_WORDS, plain, URL_WEIGHT * factor)
    return Some(tuple(found)) if found else None


@functools.lru_cache(maxsize=4_096)
def _plain_terms(text: str) -> tuple[str, ...]:
    """A word as it stands among a URL's words; all readings of a query ask for it."""
    return tuple(analyzer_for("").terms(text))


def _together(parts: Sequence[Asked], field_set: str, factor: float, holds: Holds) -> Iterator[Expression]:
    """What lifts a page above others that hold the words too: all of them in the title, or close together in the text."""
    units = [part.unit for part in parts if isinstance(part, Word) and not part.within and not part.beginning]
    if len(units) < 2 or len(units) < len(parts):
        return
    title, body = text_field(TITLE_ROLE, field_set), text_field(BODY_ROLE, field_set)
    if all(holds(title, unit.phrase) for unit in units):
        yield every(Leaf(title, tuple(unit.phrase), TITLE_WEIGHT * factor) for unit in units)
    near = [(tuple(term for unit in units for term in unit.phrase), NEAR_WEIGHT, NEAR_SLOP)]
    if len(units) >= LONG:
        near = [((*first.phrase, *second.phrase), PAIR_WEIGHT, 1) for first, second in itertools.pairwise(units)]
    for terms, weight, slop in near:
        if holds(body, terms):
            yield Leaf(body, terms, weight * factor, slop)


def terms_of(readings: Iterable[Reading]) -> list[Term]:
    """The terms whose frequencies the scores of these readings depend on, each once."""
    asked: dict[Term, None] = {}

    def note(name: str, terms: Sequence[str]) -> bool:
        asked.update(dict.fromkeys((name, term) for term in terms))
        return True

    for reading in readings:
        _held((*reading.parts, *reading.unwanted), reading.analyzer.field_set, {}, WEIGHTS, note)
    return list(asked)
