"""Analyse a parsed query: words become terms, groups stay.

The terms of a page are in the fields of its language's analyzer. A query without a language is
therefore analysed by every analyzer that the index has pages for; each result is a reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.search.query.query import Clause, ClauseGroup, ParsedQuery, Part
from lycosa.search.query.syntax import IN_URL
from lycosa.text.analyze import Analysis, Analyzer, Unit, analyzer_for
from lycosa.text.function_words import AFFIXES, function_words, plain_word


class QueryWord(NamedTuple):
    """A word to search for. `place`: number of its clause. `prefix`: also match terms with it."""

    unit: Unit
    place: int
    within: str = ""
    prefix: str = ""
    required: bool = False  # in a sentence too: a phrase, or a word with an operator


@dataclass(slots=True, frozen=True)
class WordGroup:
    """All parts (`every`), or any of them."""

    parts: tuple[QueryPart, ...]
    every: bool


QueryPart = QueryWord | WordGroup


@dataclass(slots=True, frozen=True)
class Reading:
    """A query by one analyzer. A phrase is one unit of all its terms; `units`: those of `parts`."""

    analyzer: Analyzer
    units: tuple[Unit, ...]
    parts: tuple[QueryPart, ...]  # required terms of a page
    excluded: tuple[QueryPart, ...]
    language: str = ""

    def words(self) -> Iterator[QueryWord]:
        return words_in(self.parts)

    def content_units(self) -> tuple[Unit, ...]:
        """Return the units without function words; all if it has no others."""
        function = function_words(self.analyzer.language) - AFFIXES
        content = [
            word.unit
            for word in self.words()
            if word.required or plain_word(word.unit.surface) not in function
        ]
        return tuple(content) or self.units


def read(
    parsed: ParsedQuery, languages: Iterable[str], analysis: Analysis = Analysis()
) -> list[Reading]:
    """Return the distinct readings of a query by the analyzers of these languages."""
    readings: dict[tuple[object, ...], Reading] = {}
    for language, analyzer in (
        (code, each) for code in languages for each in analysis.all_of(code)
    ):
        reading = read_by(parsed, analyzer, language)
        key = (
            reading.analyzer.field_set,
            *map(_form, reading.parts),
            "-",
            *map(_form, reading.excluded),
        )
        readings.setdefault(key, reading)
    return list(readings.values())


def read_by(parsed: ParsedQuery, analyzer: Analyzer, language: str = "") -> Reading:
    counter = iter(range(1_000_000))
    parts = tuple(
        node for part in parsed.required for node in _query_parts(analyzer, part, counter)
    )
    excluded = tuple(
        node
        for part in parsed.excluded
        for node in _grouped(_query_parts(analyzer, part, counter), every=True)
    )
    units = tuple([word.unit for word in words_in(parts)])
    return Reading(analyzer, units, parts, excluded, language)


def words_in(parts: Sequence[QueryPart]) -> Iterator[QueryWord]:
    for part in parts:
        if isinstance(part, QueryWord):
            yield part
        else:
            yield from words_in(part.parts)


def _query_parts(analyzer: Analyzer, part: Part, counter: Iterator[int]) -> list[QueryPart]:
    """Return the words and groups of a part; none if it has no word."""
    if isinstance(part, ClauseGroup):
        if part.every:
            return [node for each in part.parts for node in _query_parts(analyzer, each, counter)]
        return _grouped(
            [
                node
                for each in part.parts
                for node in _grouped(_query_parts(analyzer, each, counter), every=True)
            ],
            every=False,
        )
    place = next(counter)
    if part.prefix:
        return _prefix_words(analyzer, part, place)
    return [
        QueryWord(unit, place, part.within, required=part.phrase or bool(part.within))
        for unit in _units(analyzer, part)
    ]


def _grouped(parts: list[QueryPart], *, every: bool) -> list[QueryPart]:
    return [WordGroup(tuple(parts), every)] if len(parts) > 1 else parts


def _units(analyzer: Analyzer, clause: Clause) -> list[Unit]:
    units = analyzer.units(clause.text)
    if (clause.phrase or clause.within == IN_URL) and len(units) > 1:
        return [Unit(tuple(term for unit in units for term in unit.phrase), "", clause.text)]
    return units


def _prefix_words(analyzer: Analyzer, clause: Clause, place: int) -> list[QueryPart]:
    """Return the words of a clause whose last word is a prefix.

    Where letters or pairs of letters are terms, every word is a prefix anyway.
    """
    plain = analyzer_for("").terms(clause.text)
    units = analyzer.units(clause.text)
    if not plain or not units:
        return []
    if not clause.text.isascii() and not _keeps_words(analyzer):
        return [QueryWord(unit, place, clause.within) for unit in units]
    before = [
        QueryWord(unit, place, clause.within)
        for lead in plain[:-1]
        for unit in analyzer.units(lead)
    ]
    last = analyzer.units(plain[-1])
    return [*before, *(QueryWord(unit, place, clause.within, plain[-1]) for unit in last[:1])]


def _keeps_words(analyzer: Analyzer) -> bool:
    """Return whether the analyzer's terms are whole words."""
    return analyzer.native or analyzer.name.startswith(("segmented", "accents"))


def _form(node: QueryPart) -> tuple[object, ...]:
    if isinstance(node, QueryWord):
        return node.unit.phrase, node.unit.word, node.within, node.prefix
    return (node.every, *map(_form, node.parts))
