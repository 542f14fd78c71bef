"""Analyzers in Python: words found by ICU or by the signs between them, folded, stemmed, and remembered.

The terms of a text are joined by spaces, for tantivy's whitespace tokenizer. ICU knows the words of Chinese, Japanese, Thai, Lao, Khmer and
Burmese from dictionaries. Hot path: bench/analysis.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from icu4py.breakers import WordBreaker

from lycosa.text import fold

# What a memo holds before it starts anew: together about 2 MB for each language of a crawl. Twice as many chunks took 5 % less
# CPU and twice the memory (six documentation sites, 13 segmented languages: 21 MB).
MEMO_CHUNKS = 10_000
MEMO_WORDS = 10_000

_SURELY_SHORT = fold.LONGEST_TERM_BYTES // 4  # characters: none takes more than four bytes in UTF-8

_TIBETAN = "\u0f00"
# Words of Chinese and Japanese that folding leaves as they are.
_PLAIN_CJK = re.compile(f"[\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff]{{1,{_SURELY_SHORT}}}")
SEGMENTED = "words"
"""The field set that all segmented languages share; each native language has one of its own."""


class Unit(NamedTuple):
    """One word of a query. `phrase`: terms that must follow each other; `word`: a term for the whole, "" if it has none."""

    phrase: tuple[str, ...]
    word: str = ""
    surface: str = ""  # as written, for highlighting in scripts without spaces


class SegmentedAnalyzer:
    """ICU's words, folded and stemmed, remembered for each chunk between spaces (one page's new chunks go to ICU together)."""

    native = False
    field_set = SEGMENTED
    most_chunks = MEMO_CHUNKS

    def __init__(
        self, language: str, stem: Callable[[str], str], *, name: str, version: str, prepare: Callable[[str], str] | None = None
    ) -> None:
        self.language = language
        self.name = name
        self.version = version
        self._stem = stem
        self._prepare_letters = prepare
        self._memo: dict[str, str] = {}
        self._terms: dict[str, str] = {}  # one of ICU's words -> its terms: chunks differ by the signs around them, words recur

    def prepare(self, text: str) -> str:
        """A text ready to be cut into words: names with signs spelled out, one of two scripts chosen. Never raises."""
        text = fold.with_names(text)
        return text if self._prepare_letters is None or text.isascii() else self._prepare_letters(text)

    def joined(self, text: str) -> str:
        return " ".join(filter(None, self._remembered(self.prepare(text).split())))

    def terms(self, text: str) -> list[str]:
        return self.joined(text).split()

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        prepared = self.prepare("\n".join(chunks)).split("\n")
        if len(prepared) != len(chunks):
            return list(map(self.terms, chunks))
        return [terms.split() for terms in self._remembered(prepared)]

    def _remembered(self, chunks: Sequence[str]) -> Iterable[str]:
        """The joined terms of each chunk; those that are not in the memo go to ICU together."""
        if len(self._memo) > self.most_chunks:
            self._memo = {}  # a new one: another thread may be reading the old
        memo = self._memo
        unknown = set(chunks).difference(memo)
        if unknown:
            self._learn(unknown, memo)
        return map(memo.__getitem__, chunks)

    def units(self, text: str) -> list[Unit]:
        return [Unit(tuple(terms), "", chunk) for chunk in text.split() if (terms := list(self._words(self.prepare(chunk))))]

    def _words(self, text: str) -> Iterable[str]:
        return itertools.chain.from_iterable(map(self._word, WordBreaker(clean(text), self.language)))

    def _learn(self, chunks: Iterable[str], memo: dict[str, str]) -> None:
        ordered = list(chunks)
        if len(self._terms) > MEMO_WORDS:
            self._terms = {}
        known = self._terms
        found: list[str] = []
        place = 0
        for word in WordBreaker(clean("\n".join(ordered)), self.language):
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


class PartsAnalyzer(SegmentedAnalyzer):
    """Scripts without spaces: each word's parts in order (characters, syllables), then ICU's words of several parts.

    A query word is looked up as a phrase of its parts, so it is found wherever ICU parted the text, and whole words weigh more. The memo is
    of ICU's words.
    """

    def __init__(
        self,
        language: str,
        parts: Callable[[str], Sequence[str]],
        *,
        name: str,
        version: str,
        prepare: Callable[[str], str] | None = None,
        in_place: bool = False,
    ) -> None:
        """`in_place`: what `prepare` gives stands for the text character by character."""
        super().__init__(language, same, name=name, version=version, prepare=prepare)
        self._parts = parts
        self._in_place = in_place
        self._streams: tuple[dict[str, str], dict[str, str]] = {}, {}  # ICU word -> its parts; -> the words in it

    def joined(self, text: str) -> str:
        surfaces = self._surfaces(text)
        if len(self._streams[0]) > MEMO_CHUNKS:
            self._streams = {}, {}  # new ones: another thread may be reading the old
        parts, words = self._streams
        for surface in set(surfaces).difference(words):
            if _PLAIN_CJK.fullmatch(surface):  # what `_units_of` gives, for most words
                found = self._parts_of(surface)
                parts[surface] = " ".join(found)
                words[surface] = surface if len(found) > 1 else ""
                continue
            units = list(self._units_of(surface))
            parts[surface] = " ".join(term for unit in units for term in unit.phrase)
            words[surface] = " ".join(unit.word for unit in units if unit.word)
        stream = filter(None, map(parts.__getitem__, surfaces))
        return " ".join(itertools.chain(stream, filter(None, map(words.__getitem__, surfaces))))

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        return list(map(self.terms, chunks))

    def units(self, text: str) -> list[Unit]:
        return [unit for surface in self._surfaces(text) for unit in self._units_of(surface)]

    def _surfaces(self, text: str) -> list[str]:
        """ICU's words of the prepared text; as they are written, where its characters stand for those of the text."""
        ready = clean(self.prepare(text))
        words = list(WordBreaker(ready, self.language))
        if not self._in_place or (written := clean(fold.with_names(text))) == ready:
            return words
        ends = list(itertools.accumulate(map(len, words)))
        return [written[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _units_of(self, surface: str) -> Iterable[Unit]:
        """The parts are of the prepared word, the word is as written: pages in the script of the query come first."""
        for term in (surface,) if _PLAIN_CJK.fullmatch(surface) else self._word(surface):
            if term.isascii():
                yield Unit((term,), "", surface)
            else:
                parts = self._parts_of(term)
                yield Unit(tuple(parts), term if len(parts) > 1 else "", surface)

    def _parts_of(self, term: str) -> Sequence[str]:
        return self._parts(term if self._prepare_letters is None else self._prepare_letters(term))


class TwoStreamAnalyzer(SegmentedAnalyzer):
    """Spaced scripts whose words give two terms: first all the plain ones, in order, then the others."""

    def __init__(self, language: str, change: Callable[[str], str], *, name: str, version: str) -> None:
        super().__init__(language, change, name=name, version=version)
        self._pairs: dict[str, tuple[str, str]] = {}  # chunk between spaces -> its terms of the first stream, of the second

    def joined(self, text: str) -> str:
        if len(self._pairs) > MEMO_CHUNKS:
            self._pairs = {}  # a new one: another thread may be reading the old
        known = self._pairs
        chunks = clean(self.prepare(text)).split()
        for chunk in set(chunks).difference(known):
            units = self._units_of(chunk)
            known[chunk] = " ".join(unit.phrase[0] for unit in units), " ".join(unit.word for unit in units if unit.word)
        found = list(map(known.__getitem__, chunks))
        return " ".join(itertools.chain((first for first, _ in found if first), (second for _, second in found if second)))

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        return list(map(self.terms, chunks))

    def units(self, text: str) -> list[Unit]:
        return [unit for chunk in text.split() for unit in self._units_of(clean(self.prepare(chunk)))]

    def _units_of(self, chunk: str) -> list[Unit]:
        raise NotImplementedError


class AccentAnalyzer(TwoStreamAnalyzer):
    """Vietnamese: the words without accents, then those with accents; who types them gets pages with them first."""

    def _units_of(self, chunk: str) -> list[Unit]:
        found = []
        for piece in fold.pieces(fold.plain(chunk)):
            term = fold.without_accents(piece)
            if term and len(term.encode()) <= fold.LONGEST_TERM_BYTES:
                accented = "" if piece.isascii() else self._stem(piece)
                found.append(Unit((term,), accented if accented != term else "", piece))
        return found


class SyllableAnalyzer(TwoStreamAnalyzer):
    """Tibetan: the syllables between tshegs, then each with its neighbour; most words have two."""

    def _units_of(self, chunk: str) -> list[Unit]:
        syllables = [
            (term, piece)
            for piece in fold.pieces(fold.plain(chunk))
            if (term := fold.without_accents(self._stem(piece))) and len(term.encode()) <= fold.LONGEST_TERM_BYTES
        ]
        pairs = [
            f"{first}{second}" if first >= _TIBETAN and second >= _TIBETAN else ""
            for (first, _), (second, _) in itertools.pairwise(syllables)
        ]
        return [Unit((term,), pair, piece) for (term, piece), pair in zip(syllables, [*pairs, ""], strict=False)]


class SyllablePairAnalyzer(SegmentedAnalyzer):
    """Korean: each word, its particle cut off, as overlapping pairs of syllables (as Lucene's CJKBigramFilter pairs them)."""

    def _word(self, word: str) -> list[str]:
        if _HANGUL.fullmatch(word):  # nearly all words, and folding leaves them as they are
            return syllable_pairs(_without_particle(word))
        return [
            pair
            for piece in fold.pieces(fold.plain(word))
            for pair in (syllable_pairs(_without_particle(piece)) if _is_hangul(piece) else [fold.without_accents(piece)])
            if len(pair.encode()) <= fold.LONGEST_TERM_BYTES
        ]


class DictionaryAnalyzer(SegmentedAnalyzer):
    """Thai and Khmer: ICU's words are the units of a query, however they are run together."""

    def units(self, text: str) -> list[Unit]:
        return [
            Unit((term,), "", surface) for surface in WordBreaker(clean(self.prepare(text)), self.language) for term in self._word(surface)
        ]


_HANGUL = re.compile(f"[\uac00-\ud7a3]{{1,{_SURELY_SHORT}}}")
# Particles that stand after nouns (National Institute of Korean Language, standard grammar).
_PARTICLES = frozenset((
    "으로부터", "에게서", "이라고", "에서는", "으로서", "으로써", "에서", "에게", "한테", "께서", "부터", "까지", "처럼", "보다",
    "으로", "이나", "마다", "조차", "밖에", "라고", "에는", "와의", "과의",
    "은", "는", "이", "가", "을", "를", "의", "에", "로", "와", "과", "도", "만",
))  # fmt: skip
_LONGEST_PARTICLE = 4


def _without_particle(word: str) -> str:
    """The word without the longest particle that leaves two syllables."""
    for length in range(min(_LONGEST_PARTICLE, len(word) - 2), 0, -1):
        if word[-length:] in _PARTICLES:
            return word[:-length]
    return word


def syllable_pairs(word: str) -> list[str]:
    """Each syllable with the next one; a single one is itself."""
    return [word[place : place + 2] for place in range(len(word) - 1)] if len(word) > 1 else [word]


def _is_hangul(word: str) -> bool:
    return all("\uac00" <= character <= "\ud7a3" for character in word)


def characters_of(term: str) -> Sequence[str]:
    """The characters of a Chinese or Japanese word; another word is one part."""
    return term if _is_cjk(term) else (term,)


def _is_cjk(term: str) -> bool:
    first = term[0]
    return "\u3005" <= first <= "\u9fff" or "\uf900" <= first <= "\ufaff" or "\U00020000" <= first <= "\U0003ffff"


def clean(text: str) -> str:
    """ICU and tantivy take Unicode scalar values only: lone surrogates become U+FFFD's ASCII cousin."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def same(word: str) -> str:
    """For languages whose words are not stemmed."""
    return word
