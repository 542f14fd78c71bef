"""From text to the terms of the index: one analyzer for each language, the same for pages and for queries.

Two kinds. *Native* ones are tantivy's own, in Rust (simple tokenizer, lower case, Snowball stemmer, accents folded), for
seven languages with spaces and much text; Python only prepares the text. *Segmented* ones take ICU's words, fold and stem
them in Python and join the terms by spaces for tantivy's whitespace tokenizer; ICU knows the words of Chinese, Japanese,
Thai, Lao, Khmer and Burmese from dictionaries.

Accents are folded after stemming, since Snowball's endings are written with them (`mangèrent`, `città`).

Chinese and Japanese: the stream of terms is the single characters, in order, followed by ICU's words of more than one
character. A query word is looked up as a phrase of its characters, so every substring is found wherever ICU parted the text, and
whole words weigh more. Korean: words without their particles, as overlapping pairs of syllables.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import icu4py
import Stemmer
import tantivy
from icu4py.breakers import WordBreaker
from tantivy.tantivy import __version__ as TANTIVY_VERSION

from lycosa.text import fold

ANALYSIS_VERSION = 1
"""Raise it when an analyzer gives other terms than before: the index is then rebuilt."""

# What a memo holds before it starts anew: together about 2 MB for each language of a crawl. Twice as many chunks took 5 % less
# CPU and twice the memory (six documentation sites, 13 segmented languages: 21 MB).
MEMO_CHUNKS = 10_000
MEMO_WORDS = 10_000

_SURELY_SHORT = fold.LONGEST_TERM_BYTES // 4  # characters: none takes more than four bytes in UTF-8

SEGMENTED = "words"
"""The field set that all segmented languages share; each native language has one of its own."""


class Unit(NamedTuple):
    """One word of a query. `phrase`: terms that must follow each other; `word`: a term for the whole, "" if it has none."""

    phrase: tuple[str, ...]
    word: str = ""
    surface: str = ""  # as written, for highlighting in scripts without spaces


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
        """The text to hand to the index: prepared for the Rust tokenizer, or terms joined by spaces."""
        ...

    def terms(self, text: str) -> list[str]:
        """The terms as they stand in the index, in order."""
        ...

    def units(self, text: str) -> list[Unit]:
        """The words of a query, in order."""
        ...


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
            .filter(tantivy.Filter.remove_long(fold.LONGEST_TERM_BYTES + 1))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.stemmer(stemmer))
            .filter(tantivy.Filter.ascii_fold())
            .build()
        )

    def joined(self, text: str) -> str:
        return fold.with_names(text) if text.isascii() else _clean(fold.compatible(fold.with_names(text)))

    def terms(self, text: str) -> list[str]:
        found: list[str] = self.tokenizer.analyze(self.joined(text))
        return found

    def units(self, text: str) -> list[Unit]:
        return [Unit(tuple(terms), "", chunk) for chunk in text.split() if (terms := self.terms(chunk))]


class SegmentedAnalyzer:
    """ICU's words, folded and stemmed, remembered for each chunk between spaces (one page's new chunks go to ICU together)."""

    native = False
    field_set = SEGMENTED

    def __init__(self, language: str, stem: Callable[[str], str], *, name: str, version: str) -> None:
        self.language = language
        self.name = name
        self.version = version
        self._stem = stem
        self._memo: dict[str, str] = {}
        self._terms: dict[str, str] = {}  # one of ICU's words -> its terms: chunks differ by the signs around them, words recur

    def joined(self, text: str) -> str:
        chunks = fold.with_names(text).split()
        if len(self._memo) > MEMO_CHUNKS:
            self._memo = {}  # a new one: another thread may be reading the old
        memo = self._memo
        unknown = set(chunks).difference(memo)
        if unknown:
            self._learn(unknown, memo)
        return " ".join(filter(None, map(memo.__getitem__, chunks)))

    def terms(self, text: str) -> list[str]:
        return self.joined(text).split()

    def units(self, text: str) -> list[Unit]:
        return [Unit(tuple(terms), "", chunk) for chunk in text.split() if (terms := list(self._words(fold.with_names(chunk))))]

    def _words(self, text: str) -> Iterable[str]:
        return itertools.chain.from_iterable(map(self._word, WordBreaker(_clean(text), self.language)))

    def _learn(self, chunks: Iterable[str], memo: dict[str, str]) -> None:
        ordered = list(chunks)
        if len(self._terms) > MEMO_WORDS:
            self._terms = {}
        known = self._terms
        found: list[str] = []
        place = 0
        for word in WordBreaker(_clean("\n".join(ordered)), self.language):
            if word == "\n":
                memo[ordered[place]] = " ".join(found)
                found, place = [], place + 1
                continue
            terms = known.get(word)
            if terms is None:
                terms = known[word] = " ".join(self._word(word))
            if terms:
                found.append(terms)
        memo[ordered[place]] = " ".join(found)

    def _word(self, word: str) -> list[str]:
        """The terms of one of ICU's words: none for signs and spaces, several where signs join words."""
        plain = fold.plain(word)
        if plain.isalnum():  # most words
            term = fold.without_accents(self._stem(plain))
            return [term] if term and (len(term) <= _SURELY_SHORT or len(term.encode()) <= fold.LONGEST_TERM_BYTES) else []
        return [
            term
            for piece in fold.pieces(plain)
            if (term := fold.without_accents(self._stem(piece))) and len(term.encode()) <= fold.LONGEST_TERM_BYTES
        ]


class CharacterAnalyzer(SegmentedAnalyzer):
    """Chinese and Japanese: characters in order, then ICU's words. Its memo is of ICU's words."""

    def __init__(self, language: str, stem: Callable[[str], str], *, name: str, version: str) -> None:
        super().__init__(language, stem, name=name, version=version)
        self._streams: tuple[dict[str, str], dict[str, str]] = {}, {}  # ICU word -> its characters; -> the words in it

    def joined(self, text: str) -> str:
        surfaces = list(WordBreaker(_clean(fold.with_names(text)), self.language))
        if len(self._streams[0]) > MEMO_CHUNKS:
            self._streams = {}, {}  # new ones: another thread may be reading the old
        characters, words = self._streams
        for surface in set(surfaces).difference(words):
            units = list(self._units_of(surface))
            characters[surface] = " ".join(term for unit in units for term in unit.phrase)
            words[surface] = " ".join(unit.word for unit in units if unit.word)
        stream = filter(None, map(characters.__getitem__, surfaces))
        return " ".join(itertools.chain(stream, filter(None, map(words.__getitem__, surfaces))))

    def units(self, text: str) -> list[Unit]:
        return [unit for surface in WordBreaker(_clean(fold.with_names(text)), self.language) for unit in self._units_of(surface)]

    def _units_of(self, surface: str) -> Iterable[Unit]:
        for term in self._word(surface):
            if term.isascii() or not _is_cjk(term):
                yield Unit((term,), "", surface)
            else:
                yield Unit(tuple(term), term if len(term) > 1 else "", surface)


class SyllablePairAnalyzer(SegmentedAnalyzer):
    """Korean: each word, its particle cut off, as overlapping pairs of syllables (as Lucene's CJKBigramFilter pairs them)."""

    def _word(self, word: str) -> list[str]:
        return [
            pair
            for piece in fold.pieces(fold.plain(word))
            for pair in (_pairs(_without_particle(piece)) if _is_hangul(piece) else [fold.without_accents(piece)])
            if len(pair.encode()) <= fold.LONGEST_TERM_BYTES
        ]


class DictionaryAnalyzer(SegmentedAnalyzer):
    """Thai, Lao, Khmer, Burmese, Tibetan: ICU's words (Tibetan: syllables) are the units of a query, however they are run together."""

    def units(self, text: str) -> list[Unit]:
        return [
            Unit((term,), "", surface)
            for surface in WordBreaker(_clean(fold.with_names(text)), self.language)
            for term in self._word(surface)
        ]


# Longest first. Particles that stand after nouns (National Institute of Korean Language, standard grammar).
_PARTICLES = (
    "으로부터", "에게서", "이라고", "에서는", "으로서", "으로써", "에서", "에게", "한테", "께서", "부터", "까지", "처럼", "보다",
    "으로", "이나", "마다", "조차", "밖에", "라고", "에는", "와의", "과의",
    "은", "는", "이", "가", "을", "를", "의", "에", "로", "와", "과", "도", "만",
)  # fmt: skip


def _without_particle(word: str) -> str:
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) - len(particle) >= 2:
            return word[: -len(particle)]
    return word


def _pairs(word: str) -> list[str]:
    return [word[place : place + 2] for place in range(len(word) - 1)] if len(word) > 1 else [word]


def _is_hangul(word: str) -> bool:
    return all("\uac00" <= character <= "\ud7a3" for character in word)


def _is_cjk(term: str) -> bool:
    first = term[0]
    return "\u3005" <= first <= "\u9fff" or "\uf900" <= first <= "\ufaff" or "\U00020000" <= first <= "\U0003ffff"


def _clean(text: str) -> str:
    """ICU and tantivy take Unicode scalar values only: lone surrogates become U+FFFD's ASCII cousin."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _same(word: str) -> str:
    return word


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
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "el": "greek", "eo": "esperanto", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "lt": "lithuanian", "ms": "indonesian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "ro": "romanian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_PERSIAN_LETTERS = frozenset({"fa", "ur", "ps", "ku", "sd", "ug"})
_DICTIONARY = frozenset({"th", "lo", "my", "km", "bo", "dz"})

GENERIC = "und"
"""The analyzer of texts whose language is not known: ICU's words, nothing stemmed (BCP 47 "undetermined")."""


@functools.cache
def analyzer_for(language: str) -> Analyzer:
    """The analyzer of a language (ISO 639 code); for one that has none of its own, and for "", ICU's words unstemmed."""
    if language in _NATIVE:
        return NativeAnalyzer(language, _NATIVE[language])
    language = language if language.isascii() and language.isalpha() and len(language) <= 3 else GENERIC
    version = f"{ANALYSIS_VERSION}/ICU {icu4py.icu_version}/Snowball {Stemmer.version()}"
    if language in ("zh", "ja"):
        return CharacterAnalyzer(language, _same, name="characters", version=version)
    if language == "ko":
        return SyllablePairAnalyzer(language, _same, name="syllable-pairs", version=version)
    if language in _DICTIONARY:
        return DictionaryAnalyzer(language, _same, name="dictionary", version=version)
    if language in _SNOWBALL:
        stemmer = Stemmer.Stemmer(_SNOWBALL[language], 0)  # no cache of its own: the memo of chunks is one
        stem: Callable[[str], str] = stemmer.stemWord
        name = f"segmented-{_SNOWBALL[language]}"
        if language == "fa":
            return SegmentedAnalyzer(language, lambda word: stem(fold.persian_letters(word)), name=name, version=version)
        return SegmentedAnalyzer(language, stem, name=name, version=version)
    if language in _PERSIAN_LETTERS:
        return SegmentedAnalyzer(language, fold.persian_letters, name="segmented-persian-letters", version=version)
    return SegmentedAnalyzer(language, _same, name="segmented", version=version)


def native_analyzers() -> list[NativeAnalyzer]:
    """All analyzers that an index must register as tokenizers; the rest need tantivy's whitespace tokenizer only."""
    return [analyzer for language in _NATIVE if isinstance(analyzer := analyzer_for(language), NativeAnalyzer)]
