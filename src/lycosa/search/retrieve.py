"""From a parsed query to tantivy's: which terms in which fields, with which weight.

A page's words lie in the fields of its own language's analyzer, so a query without a language is analysed by every analyzer
that the index has pages for, and the best of these readings counts (disjunction max: a page is found by its own).
Within a reading every word must stand somewhere: title, headings, body, the rest of the page, or the URL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tantivy
from tantivy import Occur, Query

from lycosa.index.schema import (
    BODY_ROLE,
    COLLECTION,
    FULL_ROLE,
    HEADINGS_ROLE,
    HOST,
    LANGUAGE,
    TITLE_ROLE,
    URL_WORDS,
    text_field,
)
from lycosa.search.expression import Also, Best, Expression, Leaf, Some, every, to_query
from lycosa.search.query import Clause, ParsedQuery
from lycosa.search.statistics import Statistics, Term, correction, inverse_frequency
from lycosa.text.analyze import Analyzer, Unit, analyzer_for

# Weights of the fields in BM25 (k1 = 1.2, b = 0.75, tantivy's). Calibrated on known-item search over the 5,477 pages of the six
# documentation sites (bench/search.py prints the mean reciprocal ranks: by a page's title .97, by six words of one of its sentences
# .65). Between half and twice these values little moves; without TITLE_WEIGHT titles fall to .92, without commonness texts to .63.
WEIGHTS = {TITLE_ROLE: 3.0, HEADINGS_ROLE: 1.0, BODY_ROLE: 1.0, FULL_ROLE: 0.1}
URL_WEIGHT = 0.5
WORD_WEIGHT = 0.5  # of a whole Chinese or Japanese word, on top of its characters
NEAR_WEIGHT = 0.6  # of all the words standing together, in title or body, on top of the words
NEAR_SLOP = 2  # positions that words may stand apart to count as together
TITLE_WEIGHT = 6.0  # of all the words in the title
RELAX_SHARE = 0.6  # of the words that a page must hold once few pages hold all of them
READING_TIE = 0.1  # what a second reading of the query adds


@dataclass(slots=True, frozen=True)
class Reading:
    """A query as one analyzer reads it. A clause is a list of units; a phrase one unit of all its terms."""

    analyzer: Analyzer
    wanted: tuple[Unit, ...]
    unwanted: tuple[Unit, ...]
    clauses: tuple[int, ...] = ()  # for each wanted unit the place of its clause in the query


@dataclass(slots=True, frozen=True)
class Filters:
    """What narrows a search from outside the query."""

    language: str = ""
    collection: str = ""
    host: str = ""
    sites: tuple[str, ...] = ()  # one of them
    unwanted_sites: tuple[str, ...] = ()


def read(parsed: ParsedQuery, languages: Iterable[str]) -> list[Reading]:
    """The readings of a query by the analyzers of these languages, each distinct one once."""
    readings: dict[tuple[object, ...], Reading] = {}
    for language in languages:
        analyzer = analyzer_for(language)
        placed = [(place, unit) for place, clause in enumerate(parsed.wanted) for unit in _units(analyzer, clause)]
        wanted = tuple(unit for _, unit in placed)
        unwanted = tuple(unit for clause in parsed.unwanted for unit in _units(analyzer, clause))
        key = (analyzer.field_set, *((unit.phrase, unit.word) for unit in wanted), "-", *(unit.phrase for unit in unwanted))
        readings.setdefault(key, Reading(analyzer, wanted, unwanted, tuple(place for place, _ in placed)))
    return list(readings.values())


def _units(analyzer: Analyzer, clause: Clause) -> list[Unit]:
    units = analyzer.units(clause.text)
    if clause.phrase and len(units) > 1:
        return [Unit(tuple(term for unit in units for term in unit.phrase), "", clause.text)]
    return units


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
        return self._filtered(readings, filters, self.wanted(readings))

    def relaxed(self, readings: Sequence[Reading], filters: Filters, share: float) -> Query:
        """Pages that hold this share of the words, at least one, but not all of them."""
        some, all_of_them = self.wanted(readings, share), self.wanted(readings)
        without = [] if all_of_them is None else [(Occur.MustNot, self._query(part)) for part in all_of_them.parts]
        return Query.boolean_query([(Occur.Must, self._filtered(readings, filters, some)), *without])

    def wanted(self, readings: Sequence[Reading], share: float | None = None) -> Best | None:
        """What a page must hold, and what that counts: this share of the words, or all of them. None: the query wants no word."""
        parts = [
            _asked(reading, commonness, len(reading.wanted) if share is None else max(1, round(share * len(reading.wanted))))
            for reading, commonness in zip(readings, self._commonness(readings), strict=True)
            if reading.wanted
        ]
        return Best(tuple(parts), READING_TIE) if parts else None

    def _commonness(self, readings: Sequence[Reading]) -> list[list[float]]:
        """For each unit of each reading what its score must be multiplied by so that it counts as it is rare in the whole index.

        `the` is rare among Vietnamese pages, whose fields are not the English ones: without this the first hit for `the` would be
        Vietnamese.
        """
        documents = self._everywhere.documents
        holding = [[self._holding(unit, reading.analyzer.field_set) for unit in reading.wanted] for reading in readings]
        by_set: dict[tuple[int, str], int] = {}
        for reading, counts in zip(readings, holding, strict=True):
            for place, count in zip(reading.clauses, counts, strict=True):
                key = place, reading.analyzer.field_set
                by_set[key] = max(by_set.get(key, 0), count)
        total: dict[int, int] = {}
        for (place, _), count in by_set.items():
            total[place] = min(documents, total.get(place, 0) + count)
        return [
            [
                min(1.0, inverse_frequency(documents, total[place]) / inverse_frequency(documents, min(documents, count)))
                for place, count in zip(reading.clauses, counts, strict=True)
            ]
            for reading, counts in zip(readings, holding, strict=True)
        ]

    def _holding(self, unit: Unit, field_set: str) -> int:
        """Pages whose body holds a unit, at most."""
        return min(self._everywhere.holding(text_field(BODY_ROLE, field_set), term) for term in unit.phrase)

    def _filtered(self, readings: Sequence[Reading], filters: Filters, wanted: Expression | None) -> Query:
        clauses: list[tuple[Occur, Query]] = [(Occur.Must, Query.all_query() if wanted is None else self._query(wanted))]
        for name, value in ((LANGUAGE, filters.language), (COLLECTION, filters.collection), (HOST, filters.host)):
            if value:
                clauses.append((Occur.Must, self._exact(name, value)))
        if filters.sites:
            clauses.append((Occur.Must, Query.boolean_query([(Occur.Should, self._exact(HOST, host)) for host in filters.sites])))
        clauses += [(Occur.MustNot, self._exact(HOST, host)) for host in filters.unwanted_sites]
        unwanted = [(unit, reading.analyzer.field_set) for reading in readings for unit in reading.unwanted]
        clauses += [(Occur.MustNot, to_query(_somewhere(unit, field_set), self._schema)) for unit, field_set in unwanted]
        return Query.boolean_query(clauses)

    def _exact(self, name: str, value: str) -> Query:
        """A filter: it must hold and adds nothing to the score."""
        return Query.const_score_query(Query.term_query(self._schema, name, value, "basic"), 0.0)

    def _query(self, expression: Expression) -> Query:
        if self._here is self._everywhere:
            return to_query(expression, self._schema)
        return to_query(expression, self._schema, lambda leaf: correction(leaf.field, leaf.terms, self._here, self._everywhere))


def _asked(reading: Reading, commonness: Sequence[float], least: int) -> Expression:
    """So many of a reading's words; what lifts a page above others that hold them too comes on top."""
    field_set, units = reading.analyzer.field_set, reading.wanted
    words = tuple(_somewhere(unit, field_set).times(factor) for unit, factor in zip(units, commonness, strict=True))
    return Also(Some(words, least), tuple(_together(units, field_set, min(commonness))))


def _somewhere(unit: Unit, field_set: str) -> Some:
    """A word in any field, each field's score counted."""
    found = []
    for role, weight in WEIGHTS.items():
        name = text_field(role, field_set)
        found.append(Leaf(name, tuple(unit.phrase), weight))
        if unit.word:
            found.append(Leaf(name, (unit.word,), weight * WORD_WEIGHT))
    plain = tuple(analyzer_for("").terms(unit.surface or " ".join(unit.phrase)))
    if plain:
        found.append(Leaf(URL_WORDS, plain, URL_WEIGHT))
    return Some(tuple(found))


def _together(units: Sequence[Unit], field_set: str, factor: float) -> list[Expression]:
    """What lifts a page above others that hold the words too: all of them in the title, or close together in the text."""
    if len(units) < 2:
        return []
    title, body = text_field(TITLE_ROLE, field_set), text_field(BODY_ROLE, field_set)
    in_title = every(Leaf(title, tuple(unit.phrase), TITLE_WEIGHT * factor) for unit in units)
    terms = tuple(term for unit in units for term in unit.phrase)
    return [in_title, Leaf(body, terms, NEAR_WEIGHT * factor, NEAR_SLOP)]


def terms_of(readings: Iterable[Reading]) -> list[Term]:
    """The terms whose frequencies the scores of these readings depend on, each once."""
    return list(
        dict.fromkeys(
            (leaf.field, term)
            for reading in readings
            for unit in reading.wanted
            for leaf in _somewhere(unit, reading.analyzer.field_set).parts
            if isinstance(leaf, Leaf)
            for term in leaf.terms
        )
    )
