"""From a parsed query to tantivy's: which terms in which fields, with which weight.

A page's words lie in the fields of its own language's analyzer, so a query without a language is analysed by every analyzer
that the index has pages for, and the best of these readings counts (disjunction max: a page is found by its own).
Within a reading every word must stand somewhere: title, headings, body, the rest of the page, or the URL.
"""

from __future__ import annotations

import math
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
from lycosa.search.query import Clause, ParsedQuery
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


def inverse_frequency(documents: int, holding: int) -> float:
    """BM25's weight of a word that `holding` of `documents` hold (Robertson and Sparck Jones, as tantivy has it)."""
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


class QueryBuilder:
    """Builds queries for one index."""

    def __init__(self, schema: tantivy.Schema, searcher: tantivy.Searcher) -> None:
        self._schema = schema
        self._searcher = searcher

    def strict(self, readings: Sequence[Reading], filters: Filters) -> Query:
        """Pages that hold every word."""
        asked = [
            self._reading(reading, commonness, len(reading.wanted))
            for reading, commonness in zip(readings, self._commonness(readings), strict=True)
            if reading.wanted
        ]
        return self._filtered(readings, filters, asked)

    def relaxed(self, readings: Sequence[Reading], filters: Filters, share: float) -> Query:
        """Pages that hold this share of the words, at least one, but not all of them."""
        some, every = [], []
        for reading, commonness in zip(readings, self._commonness(readings), strict=True):
            if reading.wanted:
                some.append(self._reading(reading, commonness, max(1, round(share * len(reading.wanted)))))
                every.append((Occur.MustNot, self._reading(reading, commonness, len(reading.wanted))))
        return Query.boolean_query([(Occur.Must, self._filtered(readings, filters, some)), *every])

    def _commonness(self, readings: Sequence[Reading]) -> list[list[float]]:
        """For each unit of each reading what its score must be multiplied by so that it counts as it is rare in the whole index.

        `the` is rare among Vietnamese pages, whose fields are not the English ones: without this the first hit for `the` would be
        Vietnamese.
        """
        documents = self._searcher.num_docs
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
        return min(self._searcher.doc_freq(text_field(BODY_ROLE, field_set), term) for term in unit.phrase)

    def _filtered(self, readings: Sequence[Reading], filters: Filters, asked: list[Query]) -> Query:
        clauses: list[tuple[Occur, Query]] = []
        if asked:
            clauses.append((Occur.Must, asked[0] if len(asked) == 1 else Query.disjunction_max_query(asked, READING_TIE)))
        else:
            clauses.append((Occur.Must, Query.all_query()))
        for name, value in ((LANGUAGE, filters.language), (COLLECTION, filters.collection), (HOST, filters.host)):
            if value:
                clauses.append((Occur.Must, self._exact(name, value)))
        if filters.sites:
            clauses.append((Occur.Must, Query.boolean_query([(Occur.Should, self._exact(HOST, host)) for host in filters.sites])))
        clauses += [(Occur.MustNot, self._exact(HOST, host)) for host in filters.unwanted_sites]
        clauses += [(Occur.MustNot, self._somewhere(unit, reading.analyzer.field_set)) for reading in readings for unit in reading.unwanted]
        return Query.boolean_query(clauses)

    def _exact(self, name: str, value: str) -> Query:
        """A filter: it must hold and adds nothing to the score."""
        return Query.const_score_query(Query.term_query(self._schema, name, value, "basic"), 0.0)

    def _reading(self, reading: Reading, commonness: Sequence[float], minimum: int) -> Query:
        field_set = reading.analyzer.field_set
        units = reading.wanted
        every = [_weighted(self._somewhere(unit, field_set), factor) for unit, factor in zip(units, commonness, strict=True)]
        if minimum >= len(units):
            clauses = [(Occur.Must, query) for query in every]
        else:
            some = Query.boolean_query([(Occur.Should, query) for query in every], minimum_number_should_match=minimum)
            clauses = [(Occur.Must, some)]
        return Query.boolean_query([*clauses, *((Occur.Should, query) for query in self._together(units, field_set, min(commonness)))])

    def _somewhere(self, unit: Unit, field_set: str) -> Query:
        """A word in any field, each field's score counted."""
        clauses = []
        for role, weight in WEIGHTS.items():
            name = text_field(role, field_set)
            clauses.append((Occur.Should, _weighted(self._sequence(name, unit.phrase), weight)))
            if unit.word:
                clauses.append((Occur.Should, _weighted(self._sequence(name, (unit.word,)), weight * WORD_WEIGHT)))
        plain = tuple(analyzer_for("").terms(unit.surface or " ".join(unit.phrase)))
        if plain:
            clauses.append((Occur.Should, _weighted(self._sequence(URL_WORDS, plain), URL_WEIGHT)))
        return Query.boolean_query(clauses)

    def _together(self, units: Sequence[Unit], field_set: str, factor: float) -> list[Query]:
        """What lifts a page above others that hold the words too: all of them in the title, or close together in the text."""
        if len(units) < 2:
            return []
        title, body = text_field(TITLE_ROLE, field_set), text_field(BODY_ROLE, field_set)
        in_title = Query.boolean_query([(Occur.Must, self._sequence(title, unit.phrase)) for unit in units])
        terms = tuple(term for unit in units for term in unit.phrase)
        near = Query.phrase_query(self._schema, body, list(terms), NEAR_SLOP)
        return [_weighted(in_title, TITLE_WEIGHT * factor), _weighted(near, NEAR_WEIGHT * factor)]

    def _sequence(self, name: str, terms: Sequence[str]) -> Query:
        """One term, or several that follow each other (tantivy panics on a phrase of one)."""
        if len(terms) == 1:
            return Query.term_query(self._schema, name, terms[0], "freq")
        return Query.phrase_query(self._schema, name, list(terms))


def _weighted(query: Query, weight: float) -> Query:
    return query if weight == 1.0 else Query.boost_query(query, weight)
