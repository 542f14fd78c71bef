"""Cut snippets: the part of a page with the words of the query, which are marked.

The page's analyzer recognises words, so every inflected form is marked. Stemmers remove endings:
only chunks between spaces in which a word begins like a term are analysed, once for all hits.
Scripts without spaces are searched for the words as written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from lycosa.search.presentation.letter_folding import LIGATURES, folded_in_place
from lycosa.text.analyze import Analyzer, Unit
from lycosa.text.fold import pieces, plain, with_names
from lycosa.text.letters import simplified
from lycosa.text.segmented import NON_JOINER

LENGTH = 240  # characters of a snippet
WIDE_LENGTH = 120  # the same in scripts with letters that are twice as wide
MAX_CHARACTERS = 60_000  # of a text that are searched
ENOUGH_CHARACTERS = 24_000  # that are searched if some words are found in them
BEFORE = 3 / 8  # of a snippet, before its first match, to begin with a sentence
MAX_MATCHES = 400  # in a text
STRETCH = 8_000  # characters that are searched at once
# letters that a word and its term have in common (two of a term of three: dying, die)
PREFIX_LETTERS = 3
MAX_CHUNKS = 20_000  # that are cached for each query and analyzer
ELLIPSIS = "…"

_SENTENCE_END = re.compile(r"[.!?…。！？।།۔؟]['\")\]’”»」]*\s+|[。！？།]|\n")
_WIDE = frozenset({"zh", "ja", "ko"})
_UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "km", "bo", "dz"})
# Analyzers that write letters in another way: all chunks are analysed.
_CHANGES_LETTERS = frozenset(
    {
        "segmented-arabic",
        "segmented-hindi",
        "segmented-letters-ps",
        "segmented-letters-ur",
        "segmented-nepali",
        "segmented-persian",
        "segmented-persian-letters",
    }
)
_CUTS_PREFIXES = "segmented-indonesian"  # the letters of a stem, but the first, are in the word
_FULL_WIDTH = 0xFEE0  # distance of the full-width forms from ASCII
_NAME = re.compile("([a-z])plusplus|([cf])sharp|dotnet", re.IGNORECASE)  # `fold.with_names`
_CHUNK = re.compile(r"\S+")
_BREAK = re.compile(r"\s")

Snippet = list[tuple[str, bool]]
"""Pieces of text in order, each with whether it is a match; joined they are the snippet."""


class TextMatch(NamedTuple):
    """A match in a text: start, end, and number of the query's unit."""

    start: int
    end: int
    unit: int


class Highlighter:
    """Makes snippets for one query and analyzer. Analysed chunks are cached for further hits."""

    def __init__(
        self, analyzer: Analyzer, units: Sequence[Unit], prefixes: Sequence[str] = ()
    ) -> None:
        """`prefixes`: plain letters; every word with such a prefix is marked too."""
        units = [
            *units,
            *(
                Unit((unit.word,), "", unit.surface)
                for unit in units
                if unit.word and NON_JOINER in unit.surface
            ),
            *(Unit((start,), "", start) for start in prefixes),
        ]
        self._analyzer = analyzer
        self._length = WIDE_LENGTH if analyzer.language in _WIDE else LENGTH
        self._units = list(dict.fromkeys(units))
        self._terms = {term for unit in self._units for term in unit.phrase if term}
        self._prefixes = tuple(prefixes)
        self._seen: set[str] = set()  # analysed chunks
        self._matching: set[str] = set()  # chunks with a term of the query
        self._pieces: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {}
        self._one_script = simplified if analyzer.language == "zh" else str
        surfaces = sorted(
            {self._one_script(unit.surface) for unit in self._units if unit.surface},
            key=len,
            reverse=True,
        )
        self._surfaces: re.Pattern[str] | None = None
        if surfaces and analyzer.language in _UNSPACED:
            self._surfaces = re.compile("|".join(map(_written, surfaces)), re.IGNORECASE)
        # Korean pairs of syllables also match within a word and after digits
        self._within_words = analyzer.name == _CUTS_PREFIXES or analyzer.language == "ko"
        self._starts = None if analyzer.name in _CHANGES_LETTERS else self._word_starts()
        self._by_surface = {
            plain(self._one_script(unit.surface)): number for number, unit in enumerate(self._units)
        }
        self._by_first: dict[str, list[int]] = {}
        for number, unit in enumerate(self._units):
            self._by_first.setdefault(unit.phrase[0], []).append(number)

    def snippet(self, texts: Iterable[str], fallback: str = "") -> Snippet:
        """Return the best part of the first text with a match.

        Without a match, return the beginning of `fallback` or of the first text.
        """
        first = ""
        for text in texts:
            first = first or text
            matches = self.matches(text)
            if matches:
                return _cut(text, *_window(text, matches, self._length), matches)
        shown = fallback or first
        end = _end(shown, 0, self._length)
        return _cut(shown, 0, end, self.matches(shown[:end]))

    def mark(self, text: str) -> Snippet:
        """Return a short text (a title) with its matches."""
        return _cut(text, 0, len(text), self.matches(text), ellipses=False)

    def matches(self, text: str) -> list[TextMatch]:
        """Return the matches in order, without overlaps.

        The text is searched until every unit was found, to `ENOUGH_CHARACTERS` if some were, and at
        most to `MAX_CHARACTERS`.
        """
        matches: list[TextMatch] = []
        missing = set(range(len(self._units)))
        for start in range(0, min(len(text), MAX_CHARACTERS), STRETCH):
            if (
                not missing
                or len(matches) >= MAX_MATCHES
                or (matches and start >= ENOUGH_CHARACTERS)
            ):
                break
            stretch = text[start : start + STRETCH] if start or len(text) > STRETCH else text
            find = self._by_writing if self._surfaces is not None else self._by_terms
            here = find(stretch, start)
            missing.difference_update(match.unit for match in here)
            matches += here
        return _without_overlaps(matches)

    def _by_writing(self, text: str, offset: int) -> list[TextMatch]:
        assert self._surfaces is not None
        return [
            TextMatch(
                offset + match.start(),
                offset + match.end(),
                self._by_surface.get(plain(with_names(match[0])), 0),
            )
            for match in self._surfaces.finditer(self._one_script(text))
        ]

    def _by_terms(self, text: str, offset: int) -> list[TextMatch]:
        """Return the matches in a text, of which only promising chunks are analysed."""
        if self._starts is None:
            places = _all_chunks(text)
        else:
            places = _chunks_with(
                text,
                folded_in_place(text, self._analyzer.language),
                self._starts,
                self._within_words,
            )
        if len(self._seen) > MAX_CHUNKS:
            self._seen.clear()
            self._matching.clear()
        new = list(places.keys() - self._seen)
        self._seen.update(new)
        for chunk, terms in zip(new, self._analyzer.each(new), strict=True):
            if self._matches_any(terms):
                self._matching.add(chunk)
                if chunk.isascii() and chunk.isalnum():  # one word: already analysed
                    self._pieces[chunk] = [(0, len(chunk), tuple(terms))]
        words = [
            (place + start, place + end, term)
            for chunk in places.keys() & self._matching
            for place in sorted(places[chunk])
            for start, end, terms in self._parts(chunk)
            for term in terms
            if self._matches_any((term,))
        ]
        words.sort(key=itemgetter(0))  # stable: several terms of one word keep their order
        return self._runs(text, words, offset)

    def _word_starts(self) -> set[str]:
        """Return the folded letters of which a word with a term of the query has one."""
        terms = self._terms
        if self._analyzer.name == _CUTS_PREFIXES:
            return {term[1 : PREFIX_LETTERS + 1] or term for term in terms}
        starts = {
            term[: PREFIX_LETTERS if len(term) > PREFIX_LETTERS else PREFIX_LETTERS - 1]
            for term in terms
        }
        starts |= {
            term[:place] + letter
            for term in terms
            for place in range(PREFIX_LETTERS)
            for letter in LIGATURES.get(term[place : place + 2], "")
        }
        starts |= {
            term[0] + signs
            for term in terms
            if term.endswith(("plusplus", "sharp"))
            for signs in ("++", "#")
        }
        if "dotnet" in terms:
            starts.add(".n")
        return starts

    def _matches_any(self, terms: Sequence[str]) -> bool:
        if not self._terms.isdisjoint(terms):
            return True
        return bool(self._prefixes) and any(term.startswith(self._prefixes) for term in terms)

    def _parts(self, chunk: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return the words of a chunk: start, end, terms."""
        parts = self._pieces.get(chunk)
        if parts is None:
            parts, place = [], 0
            for piece in pieces(chunk):
                place = chunk.index(piece, place)
                parts.append((place, place + len(piece), tuple(self._analyzer.terms(piece))))
                place += len(piece)
            if not self._matches_any([term for _, _, terms in parts for term in terms]):
                # C++: a term of the chunk, not of its pieces
                parts = [(0, len(chunk), tuple(self._analyzer.terms(chunk)))]
            self._pieces[chunk] = parts
        return parts

    def _runs(self, text: str, words: list[tuple[int, int, str]], offset: int) -> list[TextMatch]:
        """Return the matches of units: words, or phrases with nothing but signs in between."""
        matches = []
        for place, (start, end, term) in enumerate(words):
            for number in (
                range(len(self._units)) if self._prefixes else self._by_first.get(term, ())
            ):
                phrase = self._units[number].phrase
                if phrase[0] in self._prefixes and term.startswith(phrase[0]):
                    matches.append(TextMatch(offset + start, offset + end, number))
                    continue
                if term != phrase[0]:
                    continue
                run = words[place : place + len(phrase)]
                if len(phrase) == 1 or (
                    tuple(word for _, _, word in run) == phrase and _adjacent(text, run)
                ):
                    matches.append(TextMatch(offset + start, offset + run[-1][1], number))
        return matches


def _written(surface: str) -> str:
    """Return the pattern of a word, whose ASCII letters and digits may be full-width."""
    name = _NAME.fullmatch(surface)
    if name is not None:
        return rf"{name[1]}\+\+" if name[1] else f"{name[2]}#" if name[2] else r"\.net"
    return "".join(
        f"[{letter}{chr(ord(letter) + _FULL_WIDTH)}]"
        if letter.isascii() and letter.isalnum()
        else re.escape(letter)
        for letter in surface
    )


def _all_chunks(text: str) -> dict[str, set[int]]:
    """Return the chunks of a text, and where they are."""
    places: dict[str, set[int]] = {}
    for match in _CHUNK.finditer(text):
        places.setdefault(match[0], set()).add(match.start())
    return places


def _chunks_with(
    text: str, folded: str, starts: Iterable[str], within_words: bool
) -> dict[str, set[int]]:
    """Return the chunks of a text in which a word begins like this, and where they are.

    `within_words`: the letters may also be within a word.
    """
    places: dict[str, set[int]] = {}
    for start in starts:
        place = folded.find(start)
        while place >= 0:
            end = place + 1
            if within_words or not place or not folded[place - 1].isalnum():
                first = place
                while first and not text[first - 1].isspace():
                    first -= 1
                if (match := _CHUNK.match(text, place)) is not None:
                    end = match.end()
                places.setdefault(text[first:end], set()).add(first)
            place = folded.find(start, end)
    return places


def _adjacent(text: str, run: Sequence[tuple[int, int, str]]) -> bool:
    return all(
        not any(map(str.isalnum, text[one[1] : two[0]])) for one, two in itertools.pairwise(run)
    )


def _without_overlaps(matches: list[TextMatch]) -> list[TextMatch]:
    """Keep the first of overlapping matches, and the longest of those with the same start."""
    distinct: list[TextMatch] = []
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        if not distinct or match.start >= distinct[-1].end:
            distinct.append(match)
    return distinct


def _window(text: str, matches: Sequence[TextMatch], length: int) -> tuple[int, int]:
    """Return the part with most different units, then the closest together, then the first."""
    before = round(length * BEFORE)
    best, best_score = 0, (-1, 0)
    for place, match in enumerate(matches):
        seen = {match.unit}
        last = match.end
        for other in matches[place + 1 :]:
            if other.end - match.start > length - before // 2:
                break
            if other.unit not in seen:
                seen.add(other.unit)
                last = other.end
        score = (len(seen), -(last - match.start) // 40)
        if score > best_score:
            best, best_score = match.start, score
    start = _start(text, best, before)
    return start, _end(text, start, length)


def _start(text: str, match: int, before: int) -> int:
    """Return the start: of the sentence with the match, or of a word shortly before it."""
    if match <= before // 2:
        return 0
    lowest = max(0, match - before)
    sentence = None
    for end in _SENTENCE_END.finditer(text, lowest, match):
        sentence = end.end()
    if sentence is not None:
        return sentence
    if lowest == 0:
        return 0
    space = _BREAK.search(text, match - before // 2, match)
    return space.end() if space else match - before // 3


def _end(text: str, start: int, length: int) -> int:
    """Return the end: of a sentence in the last third, else between words, else anywhere."""
    limit = start + length
    if limit >= len(text):
        return len(text)
    sentence = None
    for end in _SENTENCE_END.finditer(text, start + length * 2 // 3, limit):
        sentence = end.end()
    if sentence is not None:
        return sentence
    space = max(
        text.rfind(" ", start + length // 2, limit), text.rfind("\n", start + length // 2, limit)
    )
    return space if space > 0 else limit


def _cut(
    text: str, start: int, end: int, matches: Iterable[TextMatch], *, ellipses: bool = True
) -> Snippet:
    cut: Snippet = []
    if ellipses and start > 0:
        cut.append((ELLIPSIS, False))
    place = start
    for match in matches:
        if match.start < start or match.end > end:
            continue
        if match.start > place:
            cut.append((_line(text[place : match.start]), False))
        cut.append((_line(text[match.start : match.end]), True))
        place = match.end
    if place < end:
        cut.append(
            (_line(text[place:end]).rstrip() if end < len(text) else _line(text[place:end]), False)
        )
    if ellipses and end < len(text) and text[end:].strip():
        cut.append((f" {ELLIPSIS}" if text[end - 1].isspace() else ELLIPSIS, False))
    return cut


def _line(text: str) -> str:
    return text.replace("\n", " ")
