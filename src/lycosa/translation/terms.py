"""The keys of translations: terms of the index, and words that consist of several terms.

A key is one term, or several adjacent terms joined by spaces: `编 程`. Thus a translation is looked
up in the index without being analysed again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lycosa.text.analyze import Analyzer, Unit
from lycosa.text.korean import MorphemeAnalyzer
from lycosa.text.letters import simplified
from lycosa.text.segmented import (
    NON_JOINER,
    NonJoinerAnalyzer,
    StreamsAnalyzer,
    SyllablePairAnalyzer,
)
from lycosa.text.spaceless import PartsAnalyzer

MAX_KEY = 8  # terms
MAX_PHRASE = 4  # words that are looked up together


class TranslationTerm(NamedTuple):
    """A key and its spelling."""

    key: str
    surface: str


def has_parts(analyzer: Analyzer) -> bool:
    """Return whether its words are several terms: Chinese, Japanese, Burmese, Lao, Korean."""
    return isinstance(analyzer, PartsAnalyzer | SyllablePairAnalyzer | MorphemeAnalyzer)


_CHUNKWISE = (Analyzer.units, NonJoinerAnalyzer.units)


class Vocabulary:
    """Numbers the terms of the sentences of one language: words, and the parts of those.

    Sentences repeat most chunks between spaces, or words by ICU. Each is analysed once.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.language = analyzer.language
        self._numbers: dict[TranslationTerm, int] = {}
        self._chunks: dict[str, Sequence[int]] = {}

    @property
    def terms(self) -> list[TranslationTerm]:
        """The terms, by number."""
        return list(self._numbers)

    def sentences(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the terms of each sentence."""
        sentences = self._split(texts)
        chunks = self._chunks
        self._analyse([*set(itertools.chain.from_iterable(sentences)).difference(chunks)])
        return [[number for chunk in each for number in chunks[chunk]] for each in sentences]

    def _split(self, texts: Sequence[str]) -> list[list[str]]:
        if isinstance(self._analyzer, StreamsAnalyzer):
            return list(map(self._analyzer.surfaces, texts))
        if type(self._analyzer).units in _CHUNKWISE:
            return list(map(str.split, texts))
        return [[text] for text in texts]

    def _analyse(self, chunks: Sequence[str]) -> None:
        analyzer = self._analyzer
        if type(analyzer).units in _CHUNKWISE:  # many chunks together: half the time
            self._chunks.update(dict.fromkeys(chunks, ()))
            for unit in analyzer.units(" ".join(chunks)):
                self._chunks[unit.surface] = self._numbered([unit])
            return
        units = analyzer.units_of if isinstance(analyzer, StreamsAnalyzer) else analyzer.units
        for chunk in chunks:
            self._chunks[chunk] = self._numbered(list(units(chunk)))

    def _numbered(self, units: Sequence[Unit]) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(term, len(numbers)) for term in _terms(self._analyzer, units)]


def _terms(analyzer: Analyzer, units: Sequence[Unit]) -> Iterator[TranslationTerm]:
    parts = has_parts(analyzer)
    for place, unit in enumerate(map(_joined, units)):
        surface = bare(unit.surface)
        if len(unit.phrase) == 1:
            yield TranslationTerm(unit.phrase[0], surface or unit.phrase[0])
        else:
            if parts and len(unit.phrase) <= MAX_KEY:
                yield TranslationTerm(" ".join(unit.phrase), one_script(analyzer, surface))
            yield from (TranslationTerm(term, term) for term in unit.phrase)
        if unit.word and not parts:  # Vietnamese with accents; Tibetan pairs of syllables
            pair = (
                place + 1 < len(units)
                and unit.word != unit.phrase[0]
                and unit.word.startswith(unit.phrase[0])
            )
            yield TranslationTerm(
                unit.word,
                f"{surface}་{bare(units[place + 1].surface)}"
                if pair and analyzer.language in ("bo", "dz")
                else surface,
            )


def unit_keys(analyzer: Analyzer, unit: Unit) -> tuple[list[str], list[str]]:
    """Return the keys for a word of a query, the best first, and the keys for its parts."""
    if has_parts(analyzer):
        whole = " ".join(unit.phrase)
        return [whole], list(unit.phrase) if len(unit.phrase) > 1 else []
    unit = _joined(unit)
    if len(unit.phrase) > 1:
        return [], list(unit.phrase)
    return ([unit.word] if unit.word else []), [unit.phrase[0]]


def phrase_key(units: Iterable[Unit]) -> str:
    """Return the key of a phrase."""
    return " ".join(term for unit in units for term in _joined(unit).phrase)


def _joined(unit: Unit) -> Unit:
    """Return a word with zero-width non-joiners as one term, as tables have it."""
    return (
        Unit((unit.word,), "", unit.surface) if NON_JOINER in unit.surface and unit.word else unit
    )


def written_key(analyzer: Analyzer, text: str) -> str:
    """Return the key of a word or phrase; "" if it contains no word or too many."""
    key = phrase_key(analyzer.units(text))
    return key if 0 < key.count(" ") + 1 <= MAX_KEY or (key and " " not in key) else ""


def one_script(analyzer: Analyzer, text: str) -> str:
    return simplified(text) if analyzer.language == "zh" else text


def bare(surface: str) -> str:
    """Strip punctuation around a word."""
    start, end = 0, len(surface)
    while start < end and not surface[start].isalnum():
        start += 1
    while end > start and surface[end - 1].isascii() and not surface[end - 1].isalnum():
        end -= 1
    while end > start and surface[end - 1] in "。，、；：？！）」』》”’«»„“…–—।،؛؟།་༎":
        end -= 1
    return surface[start:end]
