"""The file of a generation that suggests: phrases by the beginning of any of their words, and words
that may stand for misspelled ones.

    suggestions-3-<hash>    "LYSG", format, length of the header; the header (JSON); arrays, each at
    a multiple of 8

Phrases stand in order of weight, so that a phrase's number is its rank. They are found in sections,
two for each language: its phrases, and its single words. A section is a sorted array of the places
in phrases at which words begin; what begins with some letters is a range of it, which is found by
halving, and the best of them are the smallest numbers in that range. For beginnings with more than
`LARGE` rows the best are written down (`tops`), so no answer looks at more.

Words stand by language and length; each has a mask of its letters, from which most words that are
too far from another one are told without being read. How texts are written: `index.suggest.texts`.

The file is mapped. Arrays of numbers that are much smaller compressed are taken apart when it is
opened, and cost some ten bytes a phrase; texts, words and masks are, many together, when they are
looked at. No numpy here: a search starts with this module.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from xxhash import xxh3_64_intdigest

from lycosa.core.errors import WorkspaceError
from lycosa.index.suggest.edit_distance import SYLLABLE, by_syllables, slips_between
from lycosa.index.suggest.texts import Chunks, Row, Texts, Words, folds_of, unpacked, usual_text

FORMAT = 3
PREFIX = f"suggestions-{FORMAT}-"
"""With the format: a file of another one is as good as none, and made anew."""
MAGIC = b"LYSG"
HEAD = struct.Struct("<4sII")
TITLE, ANCHOR, HEADING, WORD = 0, 1, 2, 3
"""What a phrase is mostly."""
MASKS = 4_096
"""Words whose masks are compressed together."""
LARGE = 2_048
"""Rows of a section that may be looked through for an answer."""
TOPS = 96
"""Phrases that are written down for a beginning that more rows have."""
WEIGHT_STEPS = 1_024
"""Weights are written as their logarithms to base 2, in so many steps for 1, from `MIN_WEIGHT`
on: to .07 %, in 16 bits.
"""
MIN_WEIGHT = -32
FIRST_WORD = 1.5  # how much more a phrase counts that begins with what was typed
# bits of a mask for letters that stand once; the others are for those that come again
MASK_ONCE = 42


@dataclass(slots=True, frozen=True)
class SuggestInfo:
    """How a file was made: from the tables as of `log_entry`, at `made_at` (ms), of so many
    pages.
    """

    log_entry: int
    made_at: int
    pages: int


@dataclass(slots=True, frozen=True)
class Phrase:
    """A phrase to write or that was found. `folded` is its form for comparing; `pages` how many
    hold it.
    """

    text: str
    folded: str
    language: str
    weight: float
    kind: int
    pages: int


@dataclass(slots=True, frozen=True)
class KnownWord:
    """A word of the pages of a language, and on how many of them it stands, about. `slips`: how far
    it is from what was looked for.
    """

    text: str
    folded: str
    language: str
    pages: int
    slips: int = 0


@dataclass(slots=True, frozen=True)
class Section:
    """Rows of `start_phrase` and `start_place` that belong to the phrases of a language, or to its
    words.
    """

    language: str
    words: bool
    first: int
    end: int


def find(generation: Path) -> Path | None:
    """The file of a generation; None if it has none: it was made by an earlier version, or is
    gone.
    """
    try:
        return next(
            (generation / name for name in os.listdir(generation) if name.startswith(PREFIX)), None
        )
    except FileNotFoundError:
        return None


class SuggestFile:
    """An open file. Shared by threads. Two of the same `name` hold the same.

    Raises:
        WorkspaceError: it is damaged, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, version, length = HEAD.unpack_from(self._bytes)
            if magic != MAGIC or version != FORMAT:
                raise ValueError("unknown file format")
            header: dict[str, Any] = json.loads(self._bytes[HEAD.size : HEAD.size + length])
            self.info = SuggestInfo(**header["info"])
            self.languages: list[str] = header["languages"]
            whole, base = memoryview(self._bytes), HEAD.size + length
            arrays: dict[str, memoryview] = {}
            for name, (kind, start, end, is_packed) in header["arrays"].items():
                written = whole[base + start : base + end]
                arrays[name] = (unpacked(written) if is_packed else written).cast(kind)
            chunks = {
                name: Chunks(arrays[name], arrays[f"{name}_starts"])
                for name in ("text", "folds", "top_keys", "words", "masks")
            }
            self._text, folds, self._top_keys = (
                Texts(chunks[name], arrays[f"{name}_lengths"], arrays[f"{name}_bases"])
                for name in ("text", "folds", "top_keys")
            )
            self._fold = folds_of(self._text, folds)
            self.words: int = header["words"]
            self._words = Words(chunks["words"], arrays["words_bases"], self.words)
            self._masks = chunks["masks"]
            self._weight, self._language, self._kind, self._pages = (
                arrays[name] for name in ("weight", "language", "kind", "pages")
            )
            self._start_low, self._start_high, self._start_place = (
                arrays[name] for name in ("start_low", "start_high", "start_place")
            )
            self._tops = arrays["tops"]
            self._sections = [Section(*fields) for fields in header["sections"]]
            self._groups = {
                language: {int(letters): range(*ends) for letters, ends in groups.items()}
                for language, groups in header["groups"].items()
            }
        except (ValueError, KeyError, TypeError, struct.error, zstandard.ZstdError) as error:
            raise WorkspaceError(
                f"{path} is damaged: {error}; rebuild the index with `lycosa index --rebuild`"
            ) from None

    @property
    def phrases(self) -> int:
        return len(self._weight)

    def begin_with(
        self, start: str, count: int, language: str = "", words: bool = False
    ) -> list[Phrase]:
        """The best phrases in which what follows the beginning of some word begins so; `start` is
        folded. `words`: single words alone.

        Hot path: bench/suggest.py.
        """
        wanted = start.encode("utf-8", "replace")
        if not wanted:
            return []
        found: set[int] = set()
        for number, section in enumerate(self._sections):
            if (not language or section.language == language) and (section.words or not words):
                found.update(self._best(number, section, wanted, min(TOPS, 4 * count)))
        best = [self._phrase(each, wanted) for each in sorted(found)[: max(TOPS, 4 * count)]]
        return sorted(best, key=lambda phrase: -phrase.weight)[:count]

    def known(self, word: str, language: str) -> KnownWord | None:
        """A folded word, if pages of a language hold it."""
        group = self._groups.get(language, {}).get(len(word))
        if group is None:
            return None
        row = self._words.find(word.encode("utf-8", "replace"), group)
        return None if row is None else _known(row, 0, language)

    def near(self, word: str, most_slips: int, language: str) -> list[KnownWord]:
        """Words of a language that are at least one slip and at most so many from a folded word."""
        groups = self._groups.get(language, {})
        mask = letters_mask(word)
        letters = most_slips * (SYLLABLE if by_syllables(word, most_slips) else 1)
        # A slip changes two bits at most for each letter; letters that share one hide a difference
        # and never make one.
        differing, plainly = 2 * letters, 2 * most_slips
        found = []
        for length in range(max(1, len(word) - letters), len(word) + letters + 1):
            group = groups.get(length)
            if group is None:
                continue
            for at, other in enumerate(self._masks_of(group), group.start):
                unlike = (other ^ mask).bit_count()
                # Where syllables are other ones, one at least is the same, and has two letters.
                if unlike <= plainly or (unlike <= differing and (other & mask).bit_count() > 1):
                    row = self._words[at]
                    distance = slips_between(word, row[0].decode(), most_slips)
                    if 0 < distance <= most_slips:
                        found.append(_known(row, distance, language))
        return found

    def _masks_of(self, group: range) -> Iterator[int]:
        for chunk in range(group.start // MASKS, (group.stop - 1) // MASKS + 1):
            first = chunk * MASKS
            yield from memoryview(self._masks.read(chunk)).cast("Q")[
                max(0, group.start - first) : group.stop - first
            ]

    def _best(self, number: int, section: Section, wanted: bytes, count: int) -> Sequence[int]:
        """The smallest numbers of phrases of a section."""
        if section.end - section.first > LARGE:
            key = top_key(number, wanted)
            place = bisect_left(range(len(self._top_keys)), key, key=self._top_keys.__getitem__)
            if place < len(self._top_keys) and self._top_keys[place] == key:
                return self._tops[place * TOPS : place * TOPS + count].tolist()
        rows = range(section.end)
        first = bisect_left(rows, wanted, lo=section.first, key=self._start)
        if first == section.end or not self._start(first).startswith(wanted):
            return ()
        last = bisect_left(
            rows, wanted + b"\xff", lo=first, hi=min(section.end, first + LARGE), key=self._start
        )
        pairs = zip(self._start_high[first:last], self._start_low[first:last], strict=True)
        return sorted({high << 16 | low for high, low in pairs})[:count]

    def _start(self, row: int) -> bytes:
        return self._fold(self._start_high[row] << 16 | self._start_low[row])[
            self._start_place[row] :
        ]

    def _phrase(self, number: int, wanted: bytes) -> Phrase:
        folded = self._fold(number)
        weight = 2 ** (self._weight[number] / WEIGHT_STEPS + MIN_WEIGHT) * (
            FIRST_WORD if folded.startswith(wanted) else 1.0
        )
        language, text = self.languages[self._language[number]], self._text[number].decode()
        return Phrase(
            text,
            folded.decode("utf-8", "replace"),
            language,
            weight,
            self._kind[number],
            self._pages[number],
        )


def _known(row: Row, distance: int, language: str) -> KnownWord:
    folded, text, pages = row
    return KnownWord(
        (text or usual_text(folded)).decode(), folded.decode(), language, pages, distance
    )


def top_key(section: int, beginning: bytes) -> bytes:
    """By what the best phrases of a beginning are found."""
    return section.to_bytes(2, "big") + beginning


def letters_mask(word: str) -> int:
    """A bit for each letter, chosen by its hash; another one where it stands twice."""
    mask = 0
    for letter in word:
        place = mask_place(letter)
        mask |= 1 << MASK_ONCE + place % (64 - MASK_ONCE) if mask >> place & 1 else 1 << place
    return mask


@functools.lru_cache(maxsize=8_192)
def mask_place(letter: str) -> int:
    return xxh3_64_intdigest(letter.encode("utf-8", "replace")) % MASK_ONCE
