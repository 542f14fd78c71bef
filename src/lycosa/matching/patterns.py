"""Many texts looked for at once: every place of every one of them, overlapping ones too.

Aho and Corasick's automaton, of the wheel ahocorasick_rs, over the bytes: on pages of 25 KB of text
10,000 texts cost it .30 ms, pyahocorasick 2.7, and windows of the texts in a table for numpy .50 to
1.3 (bench/watch.py). Character offsets are counted for what was found alone.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from lycosa.matching.normalise import Folded, Folding, fold

FEW = 12
"""So many texts are looked for one after the other: below it that is quicker."""


def as_looked_for(text: str) -> str:
    """A text as pages hold it: NFC, white space folded."""
    return " ".join(unicodedata.normalize("NFC", text).split())


class Needles:
    """Looks for these texts (`as_looked_for`, not empty) under one folding. The same text may be
    there twice.
    """

    def __init__(self, texts: Sequence[str], folding: Folding) -> None:
        self._folding = folding
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            folded = fold(text, folding).text
            if folded:  # a sign that makes no difference is found nowhere
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
        """Number of a text -> where it begins in this one (a page's text: NFC), ascending; without
        those that stand nowhere.
        """
        found: dict[int, list[int]] = {}
        if not self._texts:
            return found
        folded = fold(text, self._folding)
        for place, starts in self._places(folded.text):
            places = _in_text(folded, starts) if folded.places else starts
            for number in self._numbers[place]:
                found[number] = places
        return found

    def _places(self, text: str) -> Iterator[tuple[int, list[int]]]:
        if self._automaton is None:
            for place, needle in enumerate(self._texts):
                starts = list(_starts(text, needle))
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


def _starts(text: str, needle: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + 1)


def _in_characters(content: bytes, starts: Sequence[int]) -> list[int]:
    """Byte offsets, ascending, as character offsets."""
    places, before, characters = [], 0, 0
    for start in starts:
        characters += len(content[before:start].decode("utf-8", "surrogatepass"))
        before = start
        places.append(characters)
    return places


def _in_text(folded: Folded, starts: Iterable[int]) -> list[int]:
    """Offsets in the folded text as offsets in the text; two that fall into one character are
    one.
    """
    return list(dict.fromkeys(folded.place(start) for start in starts))
