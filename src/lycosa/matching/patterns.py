"""Find all positions of many texts at once, with an Aho-Corasick automaton over UTF-8 bytes."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from lycosa.matching.normalise import Folded, Folding, fold

FEW = 12
"""Up to this number of texts, searching for one after the other is faster."""


def normalized_text(text: str) -> str:
    """Return a text as in pages: NFC, white space collapsed, no soft hyphens."""
    return " ".join(unicodedata.normalize("NFC", text.replace("\xad", "")).split())


class PatternSet:
    """Searches for texts (`normalized_text`, not empty, not necessarily distinct)."""

    def __init__(self, texts: Sequence[str], folding: Folding) -> None:
        self._folding = folding
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            folded = fold(text, folding).text
            if folded:  # a text of ignored characters matches nowhere
                numbers[folded].append(number)
        self._texts = list(numbers)
        self._numbers = list(numbers.values())
        self._automaton: BytesAhoCorasick | None = None
        if len(self._texts) > FEW:
            encoded = [_encoded(text) for text in self._texts]
            self._automaton = BytesAhoCorasick(
                encoded, matchkind=MatchKind.Standard, implementation=Implementation.ContiguousNFA
            )

    def find(self, text: str) -> dict[int, list[int]]:
        """Return the ascending start positions of each text that occurs, by its number.

        `text` is the text of a page (NFC).
        """
        positions: dict[int, list[int]] = {}
        if not self._texts:
            return positions
        folded = fold(text, self._folding)
        for place, starts in self._places(folded.text):
            places = _in_text(folded, starts) if folded.places else starts
            for number in self._numbers[place]:
                positions[number] = places
        return positions

    def _places(self, text: str) -> Iterator[tuple[int, list[int]]]:
        if self._automaton is None:
            for place, pattern in enumerate(self._texts):
                starts = list(_starts(text, pattern))
                if starts:
                    yield place, starts
            return
        content = _encoded(text)
        hits: dict[int, list[int]] = defaultdict(list)
        for place, start, _ in self._automaton.find_matches_as_indexes(content, overlapping=True):
            hits[place].append(start)
        plain = len(content) == len(text)
        for place, starts in hits.items():
            starts.sort()
            yield place, starts if plain else _in_characters(content, starts)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _starts(text: str, pattern: str) -> Iterator[int]:
    at = text.find(pattern)
    while at >= 0:
        yield at
        at = text.find(pattern, at + 1)


def _in_characters(content: bytes, starts: Sequence[int]) -> list[int]:
    """Convert ascending byte offsets to character offsets."""
    places, before, characters = [], 0, 0
    for start in starts:
        characters += len(content[before:start].decode("utf-8", "surrogatepass"))
        before = start
        places.append(characters)
    return places


def _in_text(folded: Folded, starts: Iterable[int]) -> list[int]:
    """Convert offsets in the folded text to distinct offsets in the text."""
    return list(dict.fromkeys(folded.place(start) for start in starts))
