"""Translate a query: the weighted alternatives of each of its words.

The word as typed is always an alternative, because pages of any language have foreign words. A user
may replace the alternatives of a word (`Edits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from lycosa.core.dataclass import dataclass
from lycosa.search.query.query import Clause, ParsedQuery, clauses
from lycosa.text.analyze import Analysis, Analyzer, Unit
from lycosa.translation.source import MAX_TRANSLATIONS, Sources, Translation, best
from lycosa.translation.terms import (
    MAX_PHRASE,
    bare,
    has_parts,
    phrase_key,
    unit_keys,
    written_key,
)

# Calibrated with bench/across.py --dev.
PART_WEIGHT = 0.6  # of translations of a part of a word (a character, a syllable)
GUESS_WEIGHT = 0.7  # of translations of words that look or sound alike
TYPED_WEIGHT = 1.0  # of the word as typed
UNSURE = 0.4  # weight of the best translation below which similar words are looked up too

# Linking elements of compounds (Duden, Fugenelement; Algemene Nederlandse Spraakkunst 12.3;
# Svenska Akademiens grammatik 2, §26).
_JOINTS = {
    "de": ("", "s", "es", "n", "en", "er", "e"),
    "nl": ("", "s", "en", "e"),
    "sv": ("", "s", "o", "e"),
    "da": ("", "s", "e"),
    "no": ("", "s", "e"),
}
_JOINED = 4  # translations of each word
_MIN_PART = 3  # letters of a part: shorter ones are joined to anything

TYPED = "as typed"
EDITED = "given"

Edits = Mapping[tuple[str, str], tuple[str, ...]]
"""(language, word as typed, in lower case) -> alternatives; none: the word is omitted."""


@dataclass(slots=True, frozen=True)
class Across:
    """A search in several languages: besides the query's own these, or all of the index.

    Args:
        source: language of the query, "" to identify it.
        edits: (language, word as typed, alternatives).
    """

    languages: tuple[str, ...] = ()
    source: str = ""
    edits: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


def edit(text: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Parse an edit, `de:house=Haus|Gebäude`; None if it is invalid."""
    language, colon, rest = text.partition(":")
    word, equals, alternatives = rest.partition("=")
    if not (colon and equals and language.isalpha() and word.strip()):
        return None
    return (
        language.lower(),
        word.strip().lower(),
        tuple(each.strip() for each in alternatives.split("|") if each.strip()),
    )


@dataclass(slots=True, frozen=True)
class TranslatedTerm:
    """A word of the query, or several that were looked up together, and its translations by weight.

    `words`: of several, each separately. `parts`: the characters or syllables of a word.
    """

    source: str
    alternatives: tuple[Translation, ...]
    words: tuple[TranslatedTerm, ...] = ()
    parts: tuple[TranslatedTerm, ...] = ()

    def all_alternatives(self) -> list[Translation]:
        """Return its translations, and those of its words and parts."""
        return [
            *self.alternatives,
            *(each for term in (*self.words, *self.parts) for each in term.all_alternatives()),
        ]


@dataclass(slots=True, frozen=True)
class TranslatedQuery:
    """A query in a language."""

    language: str
    terms: tuple[TranslatedTerm, ...]
    excluded: tuple[str, ...] = ()  # keys that a page must not contain


@dataclass(slots=True)
class Translator:
    """Translates one query into several languages."""

    sources: Sources
    parsed: ParsedQuery
    language: str  # of the query
    edits: Edits = field(default_factory=dict)
    analysis: Analysis = field(default_factory=Analysis)

    def into(self, language: str) -> TranslatedQuery:
        """Return the query in a language. Phrases of a dictionary are looked up as such."""
        analyzer, other = self.analysis.of(self.language), self.analysis.of(language)
        terms: list[TranslatedTerm] = []
        for clause in _runs(clauses(self.parsed.required)):
            terms += self._clause(analyzer.units(clause), analyzer, other)
        excluded = [
            each.key
            for clause in clauses(self.parsed.excluded)
            for term in self._clause(analyzer.units(clause.text), analyzer, other)
            for each in term.alternatives[:2]
        ]
        return TranslatedQuery(
            language,
            tuple(term for term in terms if term.all_alternatives()),
            tuple(dict.fromkeys(excluded)),
        )

    def _clause(
        self, units: Sequence[Unit], analyzer: Analyzer, other: Analyzer
    ) -> list[TranslatedTerm]:
        terms: list[TranslatedTerm] = []
        place = 0
        while place < len(units):
            for count in range(min(MAX_PHRASE, len(units) - place), 1, -1):
                together = units[place : place + count]
                translations = self.sources.lookup(
                    phrase_key(together), self.language, other.language
                )
                if translations:
                    words = tuple(self._word(unit, analyzer, other) for unit in together)
                    terms.append(
                        self._edited(
                            TranslatedTerm(
                                _written(together, analyzer), tuple(translations), words
                            ),
                            other,
                        )
                    )
                    place += count
                    break
            else:
                terms.append(self._edited(self._word(units[place], analyzer, other), other))
                place += 1
        return terms

    def _word(self, unit: Unit, analyzer: Analyzer, other: Analyzer) -> TranslatedTerm:
        surface = bare(unit.surface) or " ".join(unit.phrase)
        typed = _as_typed(surface, other)
        if surface.isdigit():
            return TranslatedTerm(surface, tuple(typed))
        whole, parts = unit_keys(analyzer, unit)
        if not whole and len(parts) == 1:
            return TranslatedTerm(
                surface,
                tuple(
                    best(
                        [
                            self._translations(parts[0], other)[: MAX_TRANSLATIONS - len(typed)],
                            typed,
                        ]
                    )
                ),
            )
        translations = best(self._translations(key, other) for key in whole)
        weight = PART_WEIGHT if translations else 1.0
        lesser = [
            (
                part,
                [
                    each._replace(weight=each.weight * weight)
                    for each in self._translations(part, other)
                ],
            )
            for part in parts
        ]
        parted = tuple(TranslatedTerm(part, tuple(listed)) for part, listed in lesser if listed)
        return TranslatedTerm(
            surface,
            tuple(best([translations[: MAX_TRANSLATIONS - len(typed)], typed])),
            parts=parted,
        )

    def _translations(self, key: str, other: Analyzer) -> list[Translation]:
        """Return the translations of a key; without good ones, also those of similar keys."""
        translations = self._lookup(key, other)
        if translations and translations[0].weight >= UNSURE:
            return translations
        guesses = self.sources.resembling(key, self.language, other.language)
        return best(
            [translations, [each._replace(weight=each.weight * GUESS_WEIGHT) for each in guesses]]
        )

    def _lookup(self, key: str, other: Analyzer) -> list[Translation]:
        return self.sources.lookup(key, self.language, other.language)

    def _edited(self, term: TranslatedTerm, other: Analyzer) -> TranslatedTerm:
        texts = self.edits.get((other.language, term.source.lower()))
        if texts is None:
            return term
        keys = ((written_key(other, text), text) for text in texts)
        return TranslatedTerm(
            term.source, tuple(Translation(key, 1.0, text, EDITED) for key, text in keys if key)
        )


def _runs(listed: Iterable[Clause]) -> list[str]:
    """Join neighbouring words, to look them up together; phrases stay separate."""
    runs: list[str] = []
    loose: list[str] = []
    for clause in listed:
        if clause.phrase:
            if loose:
                runs.append(" ".join(loose))
                loose = []
            runs.append(clause.text)
        else:
            loose.append(clause.text)
    return [*runs, " ".join(loose)] if loose else runs


def _written(units: Sequence[Unit], analyzer: Analyzer) -> str:
    return ("" if has_parts(analyzer) and analyzer.language != "ko" else " ").join(
        bare(unit.surface) for unit in units
    )


def _as_typed(surface: str, other: Analyzer) -> list[Translation]:
    key = written_key(other, surface)
    return [Translation(key, TYPED_WEIGHT, surface, TYPED)] if key else []


def with_compounds(query: TranslatedQuery, holds: Callable[[str], bool]) -> TranslatedQuery:
    """Join pairs of words that another language writes as one: `system requirements` is
    `Systemanforderungen`.

    Tables of translations lack most compounds. Pages may also contain the words separately.

    Args:
        holds: returns whether the index has a term.
    """
    joints = _JOINTS.get(query.language)
    if joints is None or len(query.terms) < 2:
        return query
    terms: list[TranslatedTerm] = []
    place = 0
    while place < len(query.terms):
        pair = query.terms[place : place + 2]
        compounds = best([list(_joined(*pair, joints, holds))]) if len(pair) == 2 else []
        if compounds:
            terms.append(
                TranslatedTerm(f"{pair[0].source} {pair[1].source}", tuple(compounds), words=pair)
            )
            place += 2
        else:
            terms.append(pair[0])
            place += 1
    return replace(query, terms=tuple(terms))


def _joined(
    one: TranslatedTerm,
    other: TranslatedTerm,
    joints: tuple[str, ...],
    holds: Callable[[str], bool],
) -> Iterator[Translation]:
    if one.words or other.words:
        return
    for first in one.alternatives[:_JOINED]:
        for second in other.alternatives[:_JOINED]:
            if min(len(first.key), len(second.key)) < _MIN_PART or not (
                first.key.isalpha() and second.key.isalpha()
            ):
                continue
            for prefix in dict.fromkeys((first.key, first.surface.lower())):
                for joint in joints:
                    key = f"{prefix}{joint}{second.key}"
                    if holds(key):
                        weight = min(first.weight, second.weight)
                        yield Translation(
                            key,
                            weight,
                            f"{first.surface}{joint}{second.surface.lower()}",
                            first.origin,
                        )
