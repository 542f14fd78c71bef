"""Analyzers in Python: words by ICU or by regular expressions, folded, stemmed and cached.

The terms of a text are joined by spaces, for tantivy's whitespace tokenizer. ICU segments Chinese,
Japanese, Thai, Lao, Khmer and Burmese by dictionaries. Hot path: bench/analysis.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from icu4py.breakers import WordBreaker

from lycosa.core.patterns import lazy_pattern
from lycosa.text import fold

# Entries of a cache before it is cleared: about 2 and 4 MB for each language of a crawl.
MEMO_CHUNKS = 10_000
MEMO_WORDS = 20_000

MAX_CHARACTERS = fold.MAX_TERM_BYTES // 4  # characters of at most four bytes in UTF-8

_TIBETAN = "\u0f00"
_HANGUL_SYLLABLES = "\uac00-\ud7a3"
# Letters that ICU never separates from each other and from digits (except Hangul), and signs that
# are never part of a word. Texts of these are segmented by `re`, which is five times as fast.
LETTERS = (
    "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff"  # Latin
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u03ff"  # Greek
    # Cyrillic, Armenian, Georgian
    "\u0400-\u0481\u048a-\u052f\u0531-\u0556\u0560-\u0588\u10d0-\u10fa"
    # Hebrew, Arabic, Hangul
    f"\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0671-\u06d3{_HANGUL_SYLLABLES}"
)
SIGNS = (
    r"!-/:-@\[-`{-~\u00a1-\u00a7\u00a9\u00ab\u00ac\u00ae\u00b0\u00b1\u00b6\u00b7\u00bb\u00bf"
    r"\u00d7\u00f7"
    r"\u2010-\u2016\u2018-\u2023\u2025\u2026\u2030\u2032-\u2034\u2039\u203a\u20ac\u2190-\u2193"
)
SEPARATED = bytes(
    ord(chr(code).lower() if chr(code).isalnum() else " ") if code < 0x80 else code
    for code in range(0x100)
)
"""Table for bytes of UTF-8: ASCII letters in lower case, spaces for other ASCII signs."""
NON_JOINER = "\u200c"
_NOT_JOINED = lazy_pattern(rf"\w+(?:{NON_JOINER}+\w+)+")
_NOT_USUAL = lazy_pattern(f"[^0-9{LETTERS}{SIGNS}\n]")
_RUNS = lazy_pattern(f"[^\\W_{_HANGUL_SYLLABLES}]+|\n|[{_HANGUL_SYLLABLES}]+")


class Unit(NamedTuple):
    """A word of a query. `phrase`: its adjacent terms. `word`: a term for the whole word, or ""."""

    phrase: tuple[str, ...]
    word: str = ""
    surface: str = ""  # the original spelling, for highlighting


_Word = TypeVar("_Word", str, bytes)


class Terms(dict[_Word, str]):
    """Cache of word -> its terms, each with a mark before and a space after it.

    Long words are not cached.
    """

    def __init__(self, terms_of: Callable[[_Word], Iterable[str]], mark: str) -> None:
        self._terms_of: Callable[[_Word], Iterable[str]] = terms_of
        self._mark = mark

    def __missing__(self, word: _Word) -> str:
        terms = marked_terms(self._terms_of(word), self._mark)
        if len(word) <= fold.MAX_TERM_BYTES:
            self[word] = terms
        return terms


class Analyzer:
    """Returns the terms of texts in one language. `field_set`: the index fields of its terms."""

    native = False

    def __init__(self, language: str, name: str, version: str) -> None:
        self.language = self.field_set = language
        self.name = name
        self.version = version
        self._mark = f"{language}:"

    def marked(self, text: str) -> str:
        """Return the terms for the index, each with `field_set` and a colon as prefix."""
        raise NotImplementedError

    def joined(self, text: str) -> str:
        """Return the terms in order, joined by spaces."""
        return self.marked(text).replace(self._mark, "")  # no term contains a colon

    def terms(self, text: str) -> list[str]:
        """Return the terms in order."""
        return self.joined(text).split()

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        """Return the terms of several texts."""
        return list(map(self.terms, chunks))

    def units(self, text: str) -> list[Unit]:
        """Return the words of a query."""
        chunks = text.split()
        return [
            Unit(tuple(terms), "", chunk)
            for chunk, terms in zip(chunks, self.each(chunks), strict=True)
            if terms
        ]


class SegmentedAnalyzer(Analyzer):
    """Words by ICU, folded and stemmed, cached for each chunk between spaces.

    The new chunks of a page go to ICU together.
    """

    most_chunks = MEMO_CHUNKS

    def __init__(
        self,
        language: str,
        stem: Callable[[str], str],
        *,
        name: str,
        version: str,
        prepare: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(language, name, version)
        self._stem = stem
        self._prepare_letters = prepare
        # of words: chunks with different punctuation share them
        self._terms = self._new_terms()
        self._clear()

    def _new_terms(self) -> Terms[str]:
        terms = Terms(self._word, self._mark)
        terms["\n"] = "\n"  # between chunks
        return terms

    def _clear(self) -> None:
        """Replace the cache of texts; another thread may be reading the old."""
        self._memo: dict[str, str] = {}  # chunk -> its terms, in the form of `Terms`

    def prepare(self, text: str) -> str:
        """Prepare a text for segmentation: spell out names with signs, unify scripts."""
        text = fold.with_names(text)
        return (
            text if self._prepare_letters is None or text.isascii() else self._prepare_letters(text)
        )

    def marked(self, text: str) -> str:
        words = encoded(self.prepare(text)).translate(SEPARATED).decode().split()
        return "".join(self._remembered(words))[:-1]

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        prepared = self.prepare("\n".join(chunks)).split("\n")
        if len(prepared) != len(chunks):
            return list(map(self.terms, chunks))
        joined = "\n".join(self._remembered(prepared)).replace(self._mark, "")
        return [terms.split() for terms in joined.split("\n")]

    def _remembered(self, chunks: Sequence[str]) -> Iterable[str]:
        """Return the terms of each chunk as in `Terms`; new ones are computed together."""
        if len(self._memo) > self.most_chunks:
            self._clear()
        memo = self._memo
        if new := set(chunks).difference(memo):
            self._learn(new, memo)
        return map(memo.__getitem__, chunks)

    def _learn(self, chunks: Iterable[str], memo: dict[str, str]) -> None:
        ordered = list(chunks)
        text = "\n".join(ordered)
        if _NOT_USUAL.search(text):
            odd = [chunk for chunk in ordered if _NOT_USUAL.search(chunk)]
            self._put(odd, WordBreaker(clean("\n".join(odd)), self.language), memo)
            ordered = [chunk for chunk in ordered if chunk not in memo]
            text = "\n".join(ordered)
        if ordered:
            self._put(ordered, _RUNS.findall(text), memo)

    def _put(self, chunks: Sequence[str], words: Iterable[str], memo: dict[str, str]) -> None:
        """Cache the terms of chunks, given their words with line feeds between chunks."""
        if len(self._terms) > MEMO_WORDS:
            self._terms = self._new_terms()
        terms = "".join(map(self._terms.__getitem__, words))
        memo.update(zip(chunks, terms.split("\n"), strict=True))

    def _word(self, word: str) -> list[str]:
        """Return the terms of a word by ICU: none for punctuation, several for compounds."""
        plain = fold.plain(word)
        if plain.isalnum():  # most words
            term = fold.without_accents(self._stem(plain) or plain)
            return (
                [term]
                if term
                and (len(term) <= MAX_CHARACTERS or len(term.encode()) <= fold.MAX_TERM_BYTES)
                else []
            )
        return [
            term
            for piece in fold.pieces(plain)
            if (term := fold.without_accents(self._stem(piece) or piece))
            and len(term.encode()) <= fold.MAX_TERM_BYTES
        ]


class StreamsAnalyzer(SegmentedAnalyzer):
    """Words that give terms of two kinds: first the phrases of all, then their whole words."""

    def _clear(self) -> None:
        # surface -> its terms of the first kind, of the second, in the form of `Terms`
        self._streams: tuple[dict[str, str], dict[str, str]] = {}, {}

    def marked(self, text: str) -> str:
        surfaces = self.surfaces(text)
        if len(self._streams[0]) > MEMO_CHUNKS:
            self._clear()
        phrases, words = self._streams
        for surface in set(surfaces).difference(words):
            units = list(self.units_of(surface))
            phrases[surface] = marked_terms(
                [term for unit in units for term in unit.phrase], self._mark
            )
            words[surface] = marked_terms([unit.word for unit in units if unit.word], self._mark)
        return both_streams(phrases, words, surfaces)

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        return list(map(self.terms, chunks))

    def units(self, text: str) -> list[Unit]:
        return [unit for surface in self.surfaces(text) for unit in self.units_of(surface)]

    def surfaces(self, text: str) -> list[str]:
        """Return the words of the text: those between spaces."""
        return clean(self.prepare(text)).split()

    def units_of(self, surface: str) -> Iterable[Unit]:
        """Return the units of a word."""
        raise NotImplementedError


class NonJoinerAnalyzer(SegmentedAnalyzer):
    """Persian, Urdu: the parts of words between zero-width non-joiners, then these words as one.

    So a word is found in its three spellings: with the non-joiner, a space, or neither.
    """

    def marked(self, text: str) -> str:
        parts = super().marked(text.replace(NON_JOINER, " "))
        words = " ".join(_NOT_JOINED.findall(text)) if NON_JOINER in text else ""
        return f"{parts} {super().marked(words)}" if words else parts

    def each(self, chunks: Sequence[str]) -> list[list[str]]:
        if any(NON_JOINER in chunk for chunk in chunks):
            return list(map(self.terms, chunks))
        return super().each(chunks)

    def units(self, text: str) -> list[Unit]:
        return [
            self._unit(unit) if NON_JOINER in unit.surface else unit for unit in super().units(text)
        ]

    def _unit(self, unit: Unit) -> Unit:
        parts = self.terms(unit.surface.replace(NON_JOINER, " "))
        words = unit.phrase[len(parts) :]
        return Unit(tuple(parts), words[0] if len(words) == 1 else "", unit.surface)


class AccentAnalyzer(StreamsAnalyzer):
    """Vietnamese: words without accents, then with accents, which rank exact matches first."""

    def units_of(self, surface: str) -> list[Unit]:
        units = []
        for piece in fold.pieces(fold.plain(surface)):
            term = fold.without_accents(piece)
            if term and len(term.encode()) <= fold.MAX_TERM_BYTES:
                accented = "" if piece.isascii() else self._stem(piece)
                units.append(Unit((term,), accented if accented != term else "", piece))
        return units


class SyllableAnalyzer(StreamsAnalyzer):
    """Tibetan: syllables between tshegs, then pairs of adjacent ones: most words have two."""

    def units_of(self, surface: str) -> list[Unit]:
        syllables = [
            (term, piece)
            for piece in fold.pieces(fold.plain(surface))
            if (term := fold.without_accents(self._stem(piece)))
            and len(term.encode()) <= fold.MAX_TERM_BYTES
        ]
        pairs = [
            f"{first}{second}" if first >= _TIBETAN and second >= _TIBETAN else ""
            for (first, _), (second, _) in itertools.pairwise(syllables)
        ]
        return [
            Unit((term,), pair, piece)
            for (term, piece), pair in zip(syllables, [*pairs, ""], strict=False)
        ]


class SyllablePairAnalyzer(SegmentedAnalyzer):
    """Korean: words without particle as overlapping pairs of syllables (CJKBigramFilter)."""

    def _word(self, word: str) -> list[str]:
        if _HANGUL.fullmatch(word):  # nearly all words; folding does not change them
            return syllable_pairs(_without_particle(word))
        return [
            pair
            for piece in fold.pieces(fold.plain(word))
            for pair in (
                syllable_pairs(_without_particle(piece))
                if _is_hangul(piece)
                else [fold.without_accents(piece)]
            )
            if len(pair.encode()) <= fold.MAX_TERM_BYTES
        ]


class DictionaryAnalyzer(SegmentedAnalyzer):
    """Thai and Khmer: the units of a query are the words by ICU."""

    def units(self, text: str) -> list[Unit]:
        return [
            Unit((term,), "", surface)
            for surface in WordBreaker(clean(self.prepare(text)), self.language)
            for term in self._word(surface)
        ]


_HANGUL = lazy_pattern(f"[\uac00-\ud7a3]{{1,{MAX_CHARACTERS}}}")
# Particles after nouns (National Institute of Korean Language, standard grammar).
_PARTICLES = frozenset((
    "으로부터", "에게서", "이라고", "에서는", "으로서", "으로써", "에서", "에게", "한테",
    "께서", "부터", "까지", "처럼", "보다", "으로", "이나", "마다", "조차",
    "밖에", "라고", "에는", "와의", "과의", "은", "는", "이", "가",
    "을", "를", "의", "에", "로", "와", "과", "도", "만",
))  # fmt: skip
_MAX_PARTICLE = 4


def _without_particle(word: str) -> str:
    """Strip the longest particle that leaves two syllables."""
    for length in range(min(_MAX_PARTICLE, len(word) - 2), 0, -1):
        if word[-length:] in _PARTICLES:
            return word[:-length]
    return word


def syllable_pairs(word: str) -> list[str]:
    """Return the pairs of adjacent syllables; a single syllable is returned as is."""
    return [word[place : place + 2] for place in range(len(word) - 1)] if len(word) > 1 else [word]


def _is_hangul(word: str) -> bool:
    return all("\uac00" <= character <= "\ud7a3" for character in word)


def marked_terms(terms: Iterable[str], mark: str) -> str:
    """Return terms with a mark before and a space after each."""
    return "".join([f"{mark}{term} " for term in terms])


def both_streams(first: Mapping[str, str], second: Mapping[str, str], words: Sequence[str]) -> str:
    """Return all terms of the first kind, then those of the second; given as in `Terms`."""
    terms = itertools.chain(map(first.__getitem__, words), map(second.__getitem__, words))
    return "".join(terms)[:-1]


def encoded(text: str) -> bytes:
    """Return a text in UTF-8, with `?` for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def clean(text: str) -> str:
    """Replace lone surrogates by `?`: ICU and tantivy accept Unicode scalar values only."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return encoded(text).decode()
    return text


def same(word: str) -> str:
    """Return the word: for languages without a stemmer."""
    return word
