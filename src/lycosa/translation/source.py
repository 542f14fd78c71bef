"""The interface of translation sources, and several of them as one, with English as the pivot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

PIVOT = "en"
PIVOT_WIDTH = 4  # maximum number of English words between
PIVOT_WEIGHT = 0.8  # factor of the product of both weights
MAX_TRANSLATIONS = 20  # of a term


class Translation(NamedTuple):
    """A translation: its key in the index, weight (0 to 1), spelling, and the table."""

    key: str
    weight: float
    surface: str
    origin: str = ""


class TranslationSource(Protocol):
    """A dictionary or a learned table."""

    def covers(self, source: str, target: str) -> bool:
        """Return whether it translates from `source` into `target` (ISO 639 codes)."""
        ...

    def lookup(self, term: str, source: str, target: str) -> list[Translation]:
        """Return the translations of a key of `translation.terms`, the heaviest first."""
        ...

    def resembling(self, term: str, source: str, target: str) -> list[Translation]:
        """Return guesses for an unknown word: by similar spelling or sound."""
        ...


class Sources:
    """All sources as one."""

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
        """Return the translations of all sources; if there are none, those through English."""
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
        """Return whether a table of this language and one of the others contains the word."""
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
    """Merge lists: of equal translations the heaviest, at most `MAX_TRANSLATIONS`."""
    by_key: dict[str, Translation] = {}
    for translations in lists:
        for each in translations:
            earlier = by_key.get(each.key)
            if earlier is None or each.weight > earlier.weight:
                by_key[each.key] = each
    return sorted(by_key.values(), key=lambda each: (-each.weight, each.key))[:MAX_TRANSLATIONS]
