"""Texts made alike for comparison, where whoever looks asks for it, and the way back to the places
in the text as it was.

Each of the three can be asked for: `case` (Unicode's full case folding, so that ß is ss), `accents`
(as a search has it: Latin and Greek letters lose their marks, Arabic and Hebrew their vowel signs,
and a mark that stands alone goes; й is not и), `width` (full- and half-width forms are the usual
ones). A character becomes none, one or several, whatever stands beside it, so the folded text of a
part is a part of the folded text.
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

_FIRST_SPECIAL = 0x110000  # no character: what stands for a sequence in the table
_UNKNOWN = 0xFFFFFFFF
_TATWEEL = "\u0640"
_KANA = ("\u3040", "\u30ff")


@dataclass(slots=True, frozen=True, order=True)
class Folding:
    """What makes no difference. False if everything does."""

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
    """A text as it is compared. Where a character became none or several, the rest has moved:
    `places` says where in the text these characters stand, `starts` where in the folded text what
    became of them begins, `moved` how far what follows has moved, in all.
    """

    text: str
    places: Sequence[int] = ()
    starts: Sequence[int] = ()
    moved: Sequence[int] = ()

    def place(self, index: int) -> int:
        """Where the character stands in the text that one of the folded text came from."""
        last = bisect_right(self.starts, index) - 1
        if last < 0:
            return index
        return max(self.places[last], index - self.moved[last])

    def index(self, place: int) -> int:
        """Where in the folded text the first character stands that comes from this place in the
        text, or from behind it.
        """
        last = bisect_left(self.places, place) - 1
        return place if last < 0 else place + self.moved[last]


def fold(text: str, folding: Folding) -> Folded:
    """A text in NFC, folded. Hot path: a page of 25,000 characters costs about as much as decoding
    it.
    """
    if not folding or not text:
        return Folded(text)
    if text.isascii():
        return Folded(text.lower() if folding.case else text)
    return _table(folding).fold(text)


class _Table:
    """What becomes of each character, learned when it is met first. Not for several threads at
    once.
    """

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._codes = np.full(_FIRST_SPECIAL, _UNKNOWN, np.uint32)
        self._sequences: list[str] = []  # what stands for several characters, or none

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
    """What one character becomes: none, one or several."""
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
    """Full- and half-width forms as usual ones. Voiced kana fall apart, for their half-width forms
    are two characters.
    """
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
    """What `case`, `accents`, `width` (also joined by commas) ask to ignore.

    Raises:
        UsageError: another word.
    """
    words = [word.strip() for name in names for word in name.split(",") if word.strip()]
    for word in words:
        if word not in NAMES:
            raise UsageError(f"{word!r} cannot be ignored: use case, accents or width")
    return Folding(**{name: name in words for name in NAMES})
