"""Read dictionaries as (word, translation, weight): Wiktionary lists and TSV.

The weight decreases with the number of the sense and the place in the entry: usual ones come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lycosa.text.analyze import Analyzer, analyzer_for
from lycosa.translation.terms import bare, one_script, written_key
from lycosa.translation.word_alignment import Learned

# Calibrated with Wiktionary and FreeDict on held-out sentences of SIB-200 (bench/across.py).
SENSE_STEP = 0.3
PLACE_STEP = 0.15
MIN_WEIGHT = 0.15
MAX_WORDS = 5  # of a translation; longer ones are explanations

_MARKS = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>|/[^/]*/|\([^()]*\)")
# the Japanese FreeDict has the number of the next sense on the line
_NEXT_NUMBER = re.compile(r" \d+\.?$")
_WIKTIONARY = re.compile(r"^(?P<word>[^{(:]+?)\s*(?:\{[^}]*\})?\s*(?:\(.*\))?\s*::\s*(?P<rest>.+)$")


class DictionaryEntry(NamedTuple):
    """A word or phrase, one of its translations, and its weight."""

    word: str
    translation: str
    weight: float


def weight_of(sense: int, place: int) -> float:
    """Return the weight of a translation by sense and place, both from 0."""
    return max(MIN_WEIGHT, 1 / (1 + SENSE_STEP * sense + PLACE_STEP * place))


def translations(text: str) -> list[str]:
    """Return the translations in a line, without grammar, pronunciation and remarks."""
    plain = _MARKS.sub(" ", _MARKS.sub(" ", text))  # twice: remarks are nested
    entries = (
        _NEXT_NUMBER.sub("", " ".join(part.split())).strip(" .!?*=~")
        for part in re.split(r"[,;،、|]", plain)
    )
    return [part for part in entries if part and len(part.split()) <= MAX_WORDS]


def wiktionary(lines: Iterable[str]) -> Iterator[DictionaryEntry]:
    """Read `word {pos} (sense) :: translation {m}, translation /sound/` (wiktionary-dict)."""
    senses: dict[str, int] = {}
    for line in lines:
        match = _WIKTIONARY.match(line)
        if match is None or line.startswith("#"):
            continue
        word = match["word"].strip()
        listed = translations(match["rest"])
        if listed:
            sense = senses[word] = senses.get(word, -1) + 1
            yield from (
                DictionaryEntry(word, each, weight_of(sense, place))
                for place, each in enumerate(listed)
            )


def columns(lines: Iterable[str]) -> Iterator[DictionaryEntry]:
    """Read `word TAB translation [TAB weight]`; several translations are separated by `|`."""
    seen: dict[str, int] = {}
    for line in lines:
        cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
        if len(cells) < 2 or line.startswith("#"):
            continue
        weight = _number(cells[2]) if len(cells) > 2 else None
        for each in filter(None, (part.strip() for part in cells[1].split("|"))):
            place = seen[cells[0]] = seen.get(cells[0], -1) + 1
            yield DictionaryEntry(cells[0], each, weight_of(0, place) if weight is None else weight)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def as_table(entries: Iterable[DictionaryEntry], source: str, target: str) -> Learned:
    """Convert a dictionary to pairs of keys; `sentences` is the number of its entries."""
    one, other = _Keys(analyzer_for(source)), _Keys(analyzer_for(target))
    pairs: dict[tuple[str, str], float] = {}
    count = 0
    for word, translation, weight in entries:
        here, there = one.key(word), other.key(translation)
        if here and there:
            count += 1
            pairs[here, there] = max(weight, pairs.get((here, there), 0.0))
            one.add_surface(here, word)
            other.add_surface(there, translation)
    return Learned(
        [(here, there, round(weight, 4)) for (here, there), weight in pairs.items()],
        one.surfaces,
        other.surfaces,
        count,
    )


class _Keys:
    """The keys of one side of a dictionary, and the shortest spelling of each."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.surfaces: dict[str, str] = {}
        self._analyzer = analyzer
        self._keys: dict[str, str] = {}

    def key(self, text: str) -> str:
        """Return the key of a word or phrase, "" if it has none."""
        key = self._keys.get(text)
        if key is None:
            plain = text.removeprefix("to ") if self._analyzer.language == "en" else text
            key = self._keys[text] = written_key(self._analyzer, plain)
        return key

    def add_surface(self, key: str, text: str) -> None:
        """Keep the shortest spelling: others are inflected."""
        surface = one_script(self._analyzer, bare(text))
        earlier = self.surfaces.get(key)
        if surface and (earlier is None or len(surface) < len(earlier)):
            self.surfaces[key] = surface
