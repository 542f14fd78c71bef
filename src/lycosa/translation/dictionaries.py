"""Dictionaries that other people made, as (word, translation, weight): Wiktionary's lists, and
plain columns.

A translation's weight falls with its sense and its place in the entry, since the usual ones come
first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lycosa.text.analyze import analyzer_for
from lycosa.translation.terms import bare, one_script, written_key
from lycosa.translation.word_alignment import Learned

# Calibrated on SIB-200's held-out fifth (index_id mod 5 = 1), Wiktionary and FreeDict, English to
# eight languages (bench/across.py).
SENSE_STEP = 0.3
PLACE_STEP = 0.15
LEAST = 0.15
MAX_WORDS = 5  # of a translation: what is longer explains instead of translating

_MARKS = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>|/[^/]*/|\([^()]*\)")
# FreeDict's Japanese has the next sense's number on the line
_NEXT_NUMBER = re.compile(r" \d+\.?$")
_WIKTIONARY = re.compile(r"^(?P<word>[^{(:]+?)\s*(?:\{[^}]*\})?\s*(?:\(.*\))?\s*::\s*(?P<rest>.+)$")


class DictionaryEntry(NamedTuple):
    """A word or phrase, one of its translations, and how much it counts."""

    word: str
    translation: str
    weight: float


def weight_of(sense: int, place: int) -> float:
    """The weight of a translation: of which sense of the word, and at which place there; both from
    0.
    """
    return max(LEAST, 1 / (1 + SENSE_STEP * sense + PLACE_STEP * place))


def translations(text: str) -> list[str]:
    """The translations in a line of a dictionary, without grammar, pronunciation and remarks."""
    plain = _MARKS.sub(" ", _MARKS.sub(" ", text))  # twice: remarks stand in remarks
    entries = (
        _NEXT_NUMBER.sub("", " ".join(part.split())).strip(" .!?*=~")
        for part in re.split(r"[,;،、|]", plain)
    )
    return [part for part in entries if part and len(part.split()) <= MAX_WORDS]


def wiktionary(lines: Iterable[str]) -> Iterator[DictionaryEntry]:
    """Entries of a list as open-dsl-dict's wiktionary-dict has them: `word {pos} (sense) ::
    translation {m}, translation /sound/`.
    """
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
    """Entries of lines of `word TAB translation` or `word TAB translation TAB weight`; a
    translation may be several, with `|` between.
    """
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
    """A dictionary as pairs of keys; `sentences` counts its entries."""
    one, other = analyzer_for(source), analyzer_for(target)
    keys: dict[tuple[bool, str], str] = {}

    def key(text: str, *, back: bool) -> str:
        number = keys.get((back, text))
        if number is None:
            analyzer = other if back else one
            number = keys[back, text] = written_key(
                analyzer, _without_to(text) if analyzer.language == "en" else text
            )
        return number

    pairs: dict[tuple[str, str], float] = {}
    written: tuple[dict[str, str], dict[str, str]] = {}, {}
    count = 0
    for word, translation, weight in entries:
        here, there = key(word, back=False), key(translation, back=True)
        if not here or not there:
            continue
        count += 1
        pairs[here, there] = max(weight, pairs.get((here, there), 0.0))
        _note(written[0], here, one_script(one, bare(word)))
        _note(written[1], there, one_script(other, bare(translation)))
    return Learned(
        [(here, there, round(weight, 4)) for (here, there), weight in pairs.items()],
        written[0],
        written[1],
        count,
    )


def _note(written: dict[str, str], key: str, surface: str) -> None:
    """Of several ways of writing a key the shortest: the others are inflected."""
    earlier = written.get(key)
    if surface and (earlier is None or len(surface) < len(earlier)):
        written[key] = surface


def _without_to(text: str) -> str:
    return text[3:] if text.startswith("to ") else text


Reader = Callable[[Iterable[str]], Iterator[DictionaryEntry]]
