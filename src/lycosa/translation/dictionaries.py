"""Read dictionaries as (word, translation, weight): Wiktionary lists, TSV, and dictd.

The weight decreases with the number of the sense and the place in the entry: usual ones are first.

Files of dictd (RFC 2229; Debian's dict-freedict-*):

NAME.index      headword TAB offset TAB length, numbers in base 64
NAME.dict.dz    the entries: headword with its pronunciation, then a line a sense
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lycosa.core.errors import UsageError
from lycosa.text.analyze import Analyzer, analyzer_for
from lycosa.translation.terms import bare, one_script, written_key
from lycosa.translation.word_alignment import LearnedTranslations

# Calibrated with Wiktionary and FreeDict on held-out sentences of SIB-200 (bench/across.py).
SENSE_STEP = 0.3
PLACE_STEP = 0.15
MIN_WEIGHT = 0.15
MAX_WORDS = 5  # of a translation; longer ones are explanations

_MARKS = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>|/[^/]*/|\([^()]*\)")
# the Japanese FreeDict has the number of the next sense on the line
_NEXT_NUMBER = re.compile(r" \d+\.?$")
_WIKTIONARY = re.compile(r"^(?P<word>[^{(:]+?)\s*(?:\{[^}]*\})?\s*(?:\(.*\))?\s*::\s*(?P<rest>.+)$")

MAX_BYTES = 512 * 2**20  # of text
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NUMBERED = re.compile(r"^\d+\.\s*(.*)$")
_ABOUT = "00database"


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


def as_table(entries: Iterable[DictionaryEntry], source: str, target: str) -> LearnedTranslations:
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
    return LearnedTranslations(
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


def dictd(path: Path) -> Iterator[DictionaryEntry]:
    """Read a dictionary, given by one of its files or their common stem.

    Raises:
        UsageError: a file is missing or damaged.
    """
    base = str(path)
    for ending in (".index", ".dict.dz", ".dict"):
        base = base.removesuffix(ending)
    index = Path(f"{base}.index")
    text = Path(f"{base}.dict.dz")
    if not text.is_file():
        text = Path(f"{base}.dict")
    if not text.is_file() or not index.is_file():
        raise UsageError(
            f"{path} is not a dictd dictionary: {base}.index and {base}.dict.dz must exist"
        )
    try:
        content = _read(text)
        rows = index.read_text(encoding="utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for row in rows:
        cells = row.split("\t")
        if len(cells) < 3 or not cells[0].strip() or cells[0].startswith(_ABOUT):
            continue
        start, length = _base64(cells[1]), _base64(cells[2])
        if start < 0 or length < 0 or start + length > len(content):
            raise UsageError(f"{index} is damaged: {row[:80]!r} is not a position in {text.name}")
        yield from _entries(
            cells[0].strip(), content[start : start + length].decode("utf-8", "replace")
        )


def _read(path: Path) -> bytes:
    with gzip.open(path) if path.suffix == ".dz" else path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} contains more than {MAX_BYTES >> 20} MiB of text")
    return content


def _base64(digits: str) -> int:
    """Read a number in base 64; -1 if it is not one."""
    value = 0
    for digit in digits:
        place = _DIGITS.find(digit)
        if place < 0:
            return -1
        value = value * 64 + place
    return value


def _entries(word: str, text: str) -> Iterator[DictionaryEntry]:
    """Read the senses of an entry: numbered lines, or else the first line."""
    lines = text.split("\n")[1:]
    senses = [match[1] for line in lines if (match := _NUMBERED.match(line))]
    if not senses:
        senses = [
            line.lstrip("- ")
            for line in lines
            if line.strip() and (not line.startswith(" ") or line.startswith(" - "))
        ][:1]
    for sense, line in enumerate(senses):
        yield from (
            DictionaryEntry(word, each, weight_of(sense, place))
            for place, each in enumerate(translations(line))
        )
