"""From text to the terms of the index: one analyzer for each language, the same for pages and for
queries.

Two kinds. *Native* ones are tantivy's own, in Rust (simple tokenizer, lower case, Snowball stemmer,
accents folded), for seven languages with spaces and much text; Python only prepares the text.
*Segmented* ones (`text.segmented`) fold and stem words in Python and join the terms by spaces for
tantivy's whitespace tokenizer. Which language is treated how stands in docs/languages.md.

Accents are folded after stemming, since Snowball's endings are written with them (`mangèrent`,
`città`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import icu4py
import Stemmer
import tantivy
from tantivy.tantivy import __version__ as TANTIVY_VERSION

from lycosa.text import burmese, fold, han, korean, lao, letters
from lycosa.text.segmented import (
    AccentAnalyzer,
    CharacterAnalyzer,
    DictionaryAnalyzer,
    PartsAnalyzer,
    SegmentedAnalyzer,
    SyllableAnalyzer,
    SyllablePairAnalyzer,
    Unit,
    clean,
    same,
)
from lycosa.text.suffixes import light_stem

__all__ = [
    "BIGRAMS",
    "KIWI",
    "Analysis",
    "Analyzer",
    "NativeAnalyzer",
    "Unit",
    "analysis_by",
    "analyzer_for",
]

ANALYSIS_VERSION = 2
"""Raise it when an analyzer gives other terms than before: the index is then rebuilt."""

BIGRAMS, KIWI = "bigrams", "kiwi"
"""How Korean may be analysed (`index.korean`): by pairs of syllables, or by morphemes with the
extra `lycosa[ko]`.
"""
PAIRS = "syllable-pairs"


class Analyzer(Protocol):
    """What an analyzer offers. `field_set` names the index fields whose terms it makes."""

    @property
    def language(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def native(self) -> bool: ...
    @property
    def field_set(self) -> str: ...

    def joined(self, text: str) -> str:
        """The text to hand to the index: prepared for the Rust tokenizer, or terms joined by
        spaces.
        """
        ...

    def terms(self, text: str) -> list[str]:
        """The terms as they stand in the index, in order."""
        ...

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        """The terms of each of many pieces of text without white space."""
        ...

    def units(self, text: str) -> list[Unit]:
        """The words of a query, in order."""
        ...

    def __hash__(self) -> int: ...


class NativeAnalyzer:
    """Tantivy's tokenizer and Snowball stemmer; Python normalises only what is not ASCII."""

    native = True

    def __init__(self, language: str, stemmer: str) -> None:
        self.language = language
        self.field_set = language
        self.name = f"native-{stemmer}"
        self.version = f"{ANALYSIS_VERSION}/{TANTIVY_VERSION}"
        self.tokenizer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(tantivy.Filter.remove_long(fold.MAX_TERM_BYTES + 1))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.stemmer(stemmer))
            .filter(tantivy.Filter.ascii_fold())
            .build()
        )

    def joined(self, text: str) -> str:
        return (
            fold.with_names(text)
            if text.isascii()
            else clean(fold.compatible(fold.with_names(text)))
        )

    def terms(self, text: str) -> list[str]:
        terms: list[str] = self.tokenizer.analyze(self.joined(text))
        return terms

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        return list(map(self.terms, chunks))

    def units(self, text: str) -> list[Unit]:
        return [
            Unit(tuple(terms), "", chunk) for chunk in text.split() if (terms := self.terms(chunk))
        ]


_NATIVE = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "ru": "russian",
}  # fmt: skip
_SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "el": "greek",
    "eo": "esperanto", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "lt": "lithuanian", "ms": "indonesian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pl": "polish", "ro": "romanian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_PERSIAN_LETTERS = frozenset({"ku", "sd", "ug"})
_DICTIONARY = frozenset({"th", "km"})
_LIGHT = frozenset({"kk", "ky", "mn", "tg"})

GENERIC = "und"
"""The analyzer of texts whose language is not known: ICU's words, nothing stemmed (BCP 47
"undetermined").
"""


@functools.cache
def analyzer_for(language: str) -> Analyzer:
    """The analyzer of a language (ISO 639 code); for one that has none of its own, and for "",
    ICU's words unstemmed.
    """
    if language in _NATIVE:
        return NativeAnalyzer(language, _NATIVE[language])
    language = (
        language if language.isascii() and language.isalpha() and len(language) <= 3 else GENERIC
    )
    version = f"{ANALYSIS_VERSION}/ICU {icu4py.icu_version}/Snowball {Stemmer.version()}"
    if language == "zh":
        return CharacterAnalyzer(
            language, name="characters", version=version, prepare=han.simplified
        )
    if language == "ja":
        return CharacterAnalyzer(language, name="characters", version=version)
    if language == "my":
        return PartsAnalyzer(
            language, burmese.syllables, name="syllables", version=version, prepare=burmese.prepared
        )
    if language == "lo":
        return PartsAnalyzer(language, lao.syllables, name="syllables", version=version)
    if language in ("bo", "dz"):
        return SyllableAnalyzer(language, letters.tibetan, name="tsheg-syllables", version=version)
    if language == "ko":
        return SyllablePairAnalyzer(language, same, name=PAIRS, version=version)
    if language == "vi":
        return AccentAnalyzer(language, letters.vietnamese, name="accents", version=version)
    if language in _DICTIONARY:
        return DictionaryAnalyzer(language, same, name="dictionary", version=version)
    stem, name = _stemmer(language)
    return SegmentedAnalyzer(language, stem, name=name, version=version)


def _stemmer(language: str) -> tuple[Callable[[str], str], str]:
    """What a word goes through between folding and the index, and the analyzer's name."""
    if language in _LIGHT:
        return light_stem(language), "segmented-light"
    if language in ("ur", "ps"):
        return (
            letters.urdu if language == "ur" else letters.pashto
        ), f"segmented-letters-{language}"
    if language in _PERSIAN_LETTERS:
        return letters.persian, "segmented-persian-letters"
    if language not in _SNOWBALL:
        return same, "segmented"
    # no cache of its own: the memo is one
    snowball: Callable[[str], str] = Stemmer.Stemmer(_SNOWBALL[language], 0).stemWord
    name = f"segmented-{_SNOWBALL[language]}"
    if language == "ar":
        return (
            lambda word: letters.arabic_after_stem(snowball(letters.arabic_before_stem(word)))
        ), name
    if language == "fa":
        return (lambda word: snowball(letters.persian(word))), name
    if language in ("hi", "ne"):
        return (lambda word: snowball(letters.devanagari(word))), name
    return snowball, name


@dataclass(slots=True, frozen=True)
class Analysis:
    """Which analyzer each language has, where there is a choice.

    `korean`: `BIGRAMS`, `KIWI`, or both for an index of which some shards were made with the one
    and some with the other.
    """

    korean: tuple[str, ...] = (BIGRAMS,)

    def of(self, language: str) -> Analyzer:
        """The analyzer of a language, of several the first. Raises UsageError: it needs a package
        that is not installed.
        """
        return self.all_of(language)[0]

    def all_of(self, language: str) -> tuple[Analyzer, ...]:
        """All analyzers by which there are pages of a language. Raises UsageError: one needs a
        package that is not installed.
        """
        if language != "ko":
            return (analyzer_for(language),)
        return tuple(
            _by_morphemes() if kind == KIWI else analyzer_for(language) for kind in self.korean
        )

    def each(self) -> tuple[Analysis, ...]:
        """An analysis for each kind: all of them together find every page."""
        return tuple(Analysis((kind,)) for kind in self.korean)

    def here(self) -> tuple[Analysis, str]:
        """What of it can be used with the packages that are installed, and what to say of the rest;
        "" for nothing.
        """
        if KIWI not in self.korean or korean.installed():
            return self, ""
        return Analysis(
            tuple(kind for kind in self.korean if kind != KIWI) or (BIGRAMS,)
        ), korean.HINT


def analysis_by(names: Iterable[str]) -> Analysis:
    """The analysis of an index or a table, by the names of the analyzers that it was made with."""
    kinds = {PAIRS: BIGRAMS, korean.NAME: KIWI}
    return Analysis(
        tuple(kinds[name] for name in sorted(names, reverse=True) if name in kinds) or (BIGRAMS,)
    )


@functools.cache
def _by_morphemes() -> korean.MorphemeAnalyzer:
    return korean.MorphemeAnalyzer(f"{ANALYSIS_VERSION}/{korean.version()}")
