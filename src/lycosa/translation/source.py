"""Where translations come from, behind one interface; and several of them as one, with English
between languages that no table joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

PIVOT = "en"
PIVOT_WIDTH = 4  # English words through which a word of another language is translated
PIVOT_WEIGHT = 0.8  # of what comes that way, beside the product of both weights
# translations of a term: with 10 SIB-200's held-out fifth loses .005, with 40 it gains nothing
MOST = 20


class Translation(NamedTuple):
    """A translation: the key under which the index has it, how much it counts (0 to 1), how it is
    written, and who says so.
    """

    key: str
    weight: float
    surface: str
    origin: str = ""


class TranslationSource(Protocol):
    """A dictionary, a learned table, or something else that knows words of two languages."""

    def covers(self, source: str, target: str) -> bool:
        """Whether it translates from this language into that one. Languages are ISO 639 codes."""
        ...

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        """Translations of a key of `translation.terms`, the likeliest first; none if it does
        not know it.
        """
        ...

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        """Guesses for a word that nobody knows: translations of words that look like it, and words
        that sound like it.
        """
        ...


class Sources:
    """All sources that there are, as one."""

    def __init__(self, sources: Iterable[TranslationSource] = ()) -> None:
        self._sources = tuple(sources)

    def __bool__(self) -> bool:
        return bool(self._sources)

    def covers(self, source: str, target: str) -> bool:
        direct = any(each.covers(source, target) for each in self._sources)
        return direct or (
            PIVOT not in (source, target)
            and self.covers(source, PIVOT)
            and self.covers(PIVOT, target)
        )

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        """What any source says; where none says anything, what comes through English."""
        translations = best(
            each.lookup(term, source, target)
            for each in self._sources
            if each.covers(source, target)
        )
        if translations or PIVOT in (source, target):
            return translations
        through = self.lookup(term, source, PIVOT)[:PIVOT_WIDTH]
        return best(
            [
                _passed(further, between)
                for further in self.lookup(between.key, PIVOT, target)[: 2 * PIVOT_WIDTH]
            ]
            for between in through
        )

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        return best(
            each.resembling(term, source, target)
            for each in self._sources
            if each.covers(source, target)
        )

    def knows(self, term: str, source: str, others: Iterable[str]) -> bool:
        """Whether a word is one of this language, as far as tables tell that join it with one of
        the others.
        """
        return any(
            each.lookup(term, source, other)
            for other in others
            for each in self._sources
            if each.covers(source, other)
        )


def _passed(further: Translation, between: Translation) -> Translation:
    origin = (
        further.origin
        if further.origin == between.origin
        else f"{between.origin} + {further.origin}"
    )
    return Translation(
        further.key, further.weight * between.weight * PIVOT_WEIGHT, further.surface, origin
    )


def best(lists: Iterable[Sequence[Translation]]) -> list[Translation]:
    """Lists of translations as one: of equal ones the heaviest, at most `MOST`."""
    by_key: dict[str, Translation] = {}
    for translations in lists:
        for each in translations:
            earlier = by_key.get(each.key)
            if earlier is None or each.weight > earlier.weight:
                by_key[each.key] = each
    return sorted(by_key.values(), key=lambda each: (-each.weight, each.key))[:MOST]
