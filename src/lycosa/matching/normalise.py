"""Fold texts for comparison, and map positions back to the original text.

Three foldings can be combined: `case` (Unicode full case folding: ß is ss), `accents` (Latin and
Greek letters lose their marks, Arabic and Hebrew their vowel signs; й is not и), and `width`
(full-width and half-width forms). Each character is folded independently of its neighbours: the
folded text of a part is a part of the folded text.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lycosa.core.errors import UsageError
from lycosa.text.fold import without_accents

NAMES = ("case", "accents", "width")

_FIRST_SPECIAL = 0x110000  # first code for a sequence in the table
_UNKNOWN = 0xFFFFFFFF
_TATWEEL = "\u0640"
_KANA = ("\u3040", "\u30ff")


@dataclass(slots=True, frozen=True, order=True)
class Folding:
    """The differences to ignore; false if none."""

    case: bool = False
    accents: bool = False
    width: bool = False

    def __bool__(self) -> bool:
        return self.case or self.accents or self.width

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in NAMES if getattr(self, name))


@dataclass(slots=True, frozen=True)
class Folded:
    """A folded text, with the characters that became none or several.

    `places`: their positions in the text. `starts`: their positions in the folded text. `moved`:
    the total shift of the text after each of them.
    """

    text: str
    places: Sequence[int] = ()
    starts: Sequence[int] = ()
    moved: Sequence[int] = ()

    def place(self, index: int) -> int:
        """Return the position in the text of a character of the folded text."""
        last = bisect_right(self.starts, index) - 1
        if last < 0:
            return index
        return max(self.places[last], index - self.moved[last])

    def index(self, place: int) -> int:
        """Return the position in the folded text of the first character from `place` on."""
        last = bisect_left(self.places, place) - 1
        return place if last < 0 else place + self.moved[last]


def fold(text: str, folding: Folding) -> Folded:
    """Fold a text in NFC. Hot path."""
    if not folding or not text:
        return Folded(text)
    if text.isascii():
        return Folded(text.lower() if folding.case else text)
    return _table(folding).fold(text)


class _Table:
    """The folding of each character, computed when it first occurs. Not thread-safe."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._codes = np.full(_FIRST_SPECIAL, _UNKNOWN, np.uint32)
        self._sequences: list[str] = []  # foldings to several characters, or none

    def fold(self, text: str) -> Folded:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        out = self._codes[codes]
        if int(out.max()) >= _FIRST_SPECIAL:
            unknown = codes[out == _UNKNOWN]
            if len(unknown):
                for code in np.unique(unknown).tolist():
                    self._codes[code] = self._learn(chr(code))
                out = self._codes[codes]
            special = np.flatnonzero(out >= _FIRST_SPECIAL)
            if len(special):
                return self._fold_sequences(out, special)
        return Folded(out.tobytes().decode("utf-32-le", "surrogatepass"))

    def _learn(self, character: str) -> int:
        became = fold_character(character, self._folding)
        if len(became) == 1:
            return ord(became)
        if became not in self._sequences:
            self._sequences.append(became)
        return _FIRST_SPECIAL + self._sequences.index(became)

    def _fold_sequences(
        self, out: npt.NDArray[np.uint32], special: npt.NDArray[np.int64]
    ) -> Folded:
        sequences = [self._sequences[code - _FIRST_SPECIAL] for code in out[special].tolist()]
        out[special] = 0
        plain = out.tobytes().decode("utf-32-le", "surrogatepass")
        places = special.tolist()
        parts: list[str] = []
        starts, moved, before, shift = [], [], 0, 0
        for place, sequence in zip(places, sequences, strict=True):
            parts += (plain[before:place], sequence)
            starts.append(place + shift)
            shift += len(sequence) - 1
            moved.append(shift)
            before = place + 1
        parts.append(plain[before:])
        return Folded("".join(parts), places, starts, moved)


@lru_cache(maxsize=8)
def _table(folding: Folding) -> _Table:
    return _Table(folding)


def fold_character(character: str, folding: Folding) -> str:
    """Fold a character to none, one or several."""
    text = character
    if folding.width:
        text = "".join(map(_usual_width, text))
    if folding.accents:
        text = "".join(map(_without_marks, text))
    if folding.case:
        text = text.casefold()
        if folding.accents:
            text = "".join(map(_without_marks, text))  # İ is an i with a dot above
    return text


def _usual_width(character: str) -> str:
    """Replace full-width and half-width forms; decompose voiced kana as in half-width forms."""
    if unicodedata.decomposition(character).startswith(("<wide>", "<narrow>")):
        character = unicodedata.normalize("NFKC", character)
    if _KANA[0] <= character <= _KANA[1]:
        return unicodedata.normalize("NFD", character)
    return character


def _without_marks(character: str) -> str:
    if unicodedata.category(character) == "Mn" and (
        "\u0300" <= character <= "\u036f"
        or "\u0591" <= character <= "\u05c7"
        or (unicodedata.bidirectional(character) == "NSM" and _arabic(character))
    ):
        return ""
    if character == _TATWEEL:
        return ""
    lower = character.lower()
    plain = (
        without_accents(lower)
        if len(lower) == 1
        else without_accents(unicodedata.normalize("NFD", character)[:1])
    )
    if plain == lower:
        return character
    return plain.upper() if character != lower and character.isupper() else plain


def _arabic(character: str) -> bool:
    return (
        "\u0610" <= character <= "\u061a"
        or "\u064b" <= character <= "\u065f"
        or character == "\u0670"
        or "\u06d6" <= character <= "\u06ed"
    )


def folding_of(names: Sequence[str]) -> Folding:
    """Return the folding for `case`, `accents` and `width`, also joined by commas.

    Raises:
        UsageError: another word.
    """
    words = [word.strip() for name in names for word in name.split(",") if word.strip()]
    for word in words:
        if word not in NAMES:
            raise UsageError(f"{word!r} cannot be ignored: use case, accents or width")
    return Folding(**{name: name in words for name in NAMES})
