"""Read the file of suggestions of a generation.

It has phrases, which are found by a prefix of any of their words, and words with their
number of pages, from which misspelled words are corrected.

    suggestions-5-<hash>    "LYSG", length of the header; the header (JSON, zstd); arrays (zstd)

Phrases are sorted by weight: the number of a phrase is its rank. Each language has two sections,
one for its phrases and one for its single words. A section is a sorted array of word starts
(`phrase << PLACE_BITS | place`). All starts with a prefix are a range of it, and the
smallest numbers in that range are the best phrases. For prefixes of more than `LARGE` starts the
best phrases are stored (`tops`), so that no lookup reads more.

Words are sorted by language, length and folded form. Each has a bit mask of its letters, which
rules out most words that are not similar without reading them.

The file is mapped. Number arrays are decompressed when it is opened (about 14 bytes per phrase),
texts and masks when they are read. Every search starts with this module: it imports numpy only to
correct words of a large index.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import re
import struct
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import zstandard

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.index.snippets.texts import decompressor
from lycosa.index.suggest.edit_distance import SYLLABLE, by_syllables, word_distance

FORMAT = 5
PREFIX = f"suggestions-{FORMAT}-"
"""Contains the format: a file of another format is ignored and replaced."""
HEAD = struct.Struct("<4sI")
MAGIC = b"LYSG"
TITLE, ANCHOR, HEADING, WORD = 0, 1, 2, 3
"""Kinds of phrases."""
TEXT_ROWS, MASK_ROWS = 1_024, 4_096
"""Texts and masks that are compressed together."""
LARGE = 2_048
"""Word starts that a lookup may read."""
TOPS = 96
"""Phrases that are stored for a prefix of more starts."""
PLACE_BITS = 9
"""Bits of the place of a word start in its phrase (`writer.MAX_PHRASE_BYTES`)."""
WEIGHT_STEPS, MIN_WEIGHT = 1_024, -32
"""Weights are stored as logarithms to base 2 in steps of 1 / WEIGHT_STEPS from MIN_WEIGHT."""
FIRST_WORD = 1.5  # factor for a phrase whose first word has the prefix
_CACHED_CHUNKS, _CACHED_FOLDS = 128, 8_192  # about 5 MB and 2 MB
_CACHED_WORD_CHUNKS = 320  # about 4 MB: all, since a query reads words of every language
MANY_ROWS = 8_192  # words of one length for which it is worth importing numpy
_LAST = "\U0010ffff"
_MARKS = re.compile("[\u0300-\u036f]+")  # Unicode's combining diacritical marks


@dataclass(slots=True, frozen=True)
class SuggestInfo:
    """Origin of a file: tables up to `log_entry`, made at `made_at` (ms) from `pages` pages."""

    log_entry: int
    made_at: int
    pages: int


@dataclass(slots=True, frozen=True)
class Phrase:
    """A phrase. `folded` is its form for comparisons, `pages` the number of pages with it."""

    text: str
    folded: str
    language: str
    weight: float
    kind: int
    pages: int


@dataclass(slots=True, frozen=True)
class KnownWord:
    """A word of a language, its approximate number of pages, and its edit distance."""

    text: str
    folded: str
    language: str
    pages: int
    distance: int = 0


@dataclass(slots=True, frozen=True)
class Section:
    """A range of the word starts. `tops`: prefix -> its place in the stored best phrases."""

    language: str
    words: bool
    first: int
    end: int
    tops: dict[str, int]


def find(generation: Path) -> Path | None:
    """Return the file of a generation; None if it has none of this format, or is removed."""
    try:
        names = os.listdir(generation)
    except FileNotFoundError:
        return None
    return next((generation / name for name in names if name.startswith(PREFIX)), None)


class SuggestFile:
    """An open file. Threads may share it. Files of the same `name` have the same content.

    Raises:
        WorkspaceError: it is damaged, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            with path.open("rb") as file:
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            magic, length = HEAD.unpack_from(whole)
            if magic != MAGIC:
                raise ValueError("unknown file format")
            base = HEAD.size + length
            header: dict[str, Any] = json.loads(decompressor().decompress(whole[HEAD.size : base]))
            self._arrays = {
                name: whole[base + start : base + end]
                for name, (start, end) in header["arrays"].items()
            }
            self._types: dict[str, str] = header["types"]
            self.info = SuggestInfo(**header["info"])
            self.languages: list[str] = header["languages"]
            self.phrases, self.words = header["phrases"], header["words"]
            self._text = self._texts("texts", self.phrases)
            self._folds = self._texts("folds", self.phrases)
            self._word = self._texts("words", self.words, _CACHED_WORD_CHUNKS)
            self._spelling = self._texts("spellings", self.words)
            masks = _chunks(self._arrays["masks"], self._numbers("masks_starts"))
            self._masks = functools.lru_cache(_CACHED_CHUNKS)(masks)
            self._weight, self._language, self._kind, self._pages, self._word_pages = map(
                self._numbers, ("weight", "language", "kind", "pages", "word_pages")
            )
            self._starts, self._tops = self._numbers("starts"), self._numbers("tops")
            self._sections = [Section(*fields) for fields in header["sections"]]
            self._groups = {
                language: {int(letters): range(*ends) for letters, ends in groups.items()}
                for language, groups in header["groups"].items()
            }
        except (ValueError, KeyError, TypeError, struct.error, zstandard.ZstdError) as error:
            raise WorkspaceError(
                f"{path} is damaged: {error}; rebuild the index with `lycosa index --rebuild`"
            ) from None
        self._fold = functools.lru_cache(_CACHED_FOLDS)(_folds_of(self._text, self._folds))

    def complete(
        self, prefix: str, count: int, language: str = "", words: bool = False
    ) -> list[Phrase]:
        """Return the best phrases in which the text from some word start on has a prefix.

        `prefix` is folded; `words` restricts the result to single words. Hot path:
        bench/suggest.py.
        """
        if not prefix:
            return []
        numbers: set[int] = set()
        for section in self._sections:
            if (not language or section.language == language) and (section.words or not words):
                numbers.update(self._best(section, prefix, min(TOPS, 4 * count)))
        best = [self._phrase(number, prefix) for number in sorted(numbers)[: max(TOPS, 4 * count)]]
        return sorted(best, key=lambda phrase: -phrase.weight)[:count]

    def find_word(self, word: str, language: str) -> KnownWord | None:
        """Return a folded word if pages of a language contain it."""
        group = self._groups.get(language, {}).get(len(word))
        if group is None:
            return None
        encoded = word.encode("utf-8", "surrogatepass")
        at = bisect_left(
            range(group.stop), encoded, lo=group.start, key=self._word.__getitem__
        )  # UTF-8 has the order of the letters
        if at == group.stop or self._word[at] != encoded:
            return None
        return self._word_at(at, word, language)

    def similar_words(self, word: str, max_distance: int, language: str) -> list[KnownWord]:
        """Return the words of a language within an edit distance, without the word itself."""
        groups = self._groups.get(language, {})
        mask = letters_mask(word)
        syllables = by_syllables(word, max_distance)
        letters, equal = (SYLLABLE * max_distance, 2) if syllables else (max_distance, 0)
        similar = []
        for length in range(max(1, len(word) - letters), len(word) + letters + 1):
            group = groups.get(length)
            if group is None:
                continue
            # An edit adds one letter, removes one, or both. If syllables are replaced, one stays,
            # which has two letters.
            added = letters - max(0, len(word) - length)
            removed = letters - max(0, length - len(word))
            for at in self._rows_near(group, mask, added, removed, equal):
                folded = self._word[at].decode()
                distance = word_distance(word, folded, max_distance)
                if 0 < distance <= max_distance:
                    similar.append(self._word_at(at, folded, language, distance))
        return similar

    def _numbers(self, name: str) -> memoryview:
        view: Any = memoryview(decompressor().decompress(self._arrays[name]))
        numbers: memoryview = view.cast(self._types[name])
        return numbers

    def _texts(self, name: str, count: int, cached: int = _CACHED_CHUNKS) -> TextColumn:
        return TextColumn(self._arrays[name], self._numbers(f"{name}_starts"), count, cached)

    def _rows_near(
        self, group: range, mask: int, added: int, removed: int, equal: int
    ) -> Iterator[int]:
        """Yield the rows of a group whose masks have at most `added` more bits and `removed` fewer
        than `mask`, and at least `equal` in common.
        """
        bounds = range(group.start // MASK_ROWS * MASK_ROWS, group.stop, MASK_ROWS)
        parts = (
            (max(group.start, first), first, min(group.stop, first + MASK_ROWS)) for first in bounds
        )
        if len(group) < MANY_ROWS and "numpy" not in sys.modules:
            for start, first, stop in parts:
                masks = memoryview(self._masks(first // MASK_ROWS)).cast("Q")[
                    start - first : stop - first
                ]
                for row, other in enumerate(masks, start):
                    if (
                        (other & ~mask).bit_count() <= added
                        and (mask & ~other).bit_count() <= removed
                        and (mask & other).bit_count() >= equal
                    ):
                        yield row
            return
        import numpy as np  # not at the start: it takes longer than a search in a small index

        letters = np.uint64(mask)
        for start, first, stop in parts:
            chunk = np.frombuffer(self._masks(first // MASK_ROWS), np.uint64)
            others = chunk[start - first : stop - first]
            near = np.bitwise_count(others & ~letters) <= added
            near &= np.bitwise_count(letters & ~others) <= removed
            near &= np.bitwise_count(letters & others) >= equal
            yield from (np.flatnonzero(near) + start).tolist()

    def _best(self, section: Section, prefix: str, count: int) -> Sequence[int]:
        """Return the smallest phrase numbers of a section for a prefix."""
        top = section.tops.get(prefix)
        if top is not None:
            return self._tops[top * TOPS : top * TOPS + count].tolist()
        rows = range(section.end)
        first = bisect_left(rows, prefix, lo=section.first, key=self._suffix)
        if first == section.end or not self._suffix(first).startswith(prefix):
            return ()
        end = min(section.end, first + LARGE)
        last = bisect_left(rows, prefix + _LAST, lo=first, hi=end, key=self._suffix)
        return sorted({start >> PLACE_BITS for start in self._starts[first:last]})[:count]

    def _suffix(self, row: int) -> str:
        start = self._starts[row]
        return self._fold(start >> PLACE_BITS)[start & (1 << PLACE_BITS) - 1 :]

    def _phrase(self, number: int, prefix: str) -> Phrase:
        folded = self._fold(number)
        weight = 2 ** (self._weight[number] / WEIGHT_STEPS + MIN_WEIGHT) * (
            FIRST_WORD if folded.startswith(prefix) else 1.0
        )
        language = self.languages[self._language[number]]
        kind, pages = self._kind[number], self._pages[number]
        return Phrase(self._text[number].decode(), folded, language, weight, kind, pages)

    def _word_at(self, row: int, folded: str, language: str, distance: int = 0) -> KnownWord:
        text = self._spelling[row].decode() or usual_spelling(folded)
        return KnownWord(text, folded, language, self._word_pages[row], distance)


class TextColumn:
    """Texts by number; a chunk has the lengths of its texts (16 bits each), then the texts."""

    def __init__(self, blob: memoryview, starts: memoryview, count: int, cached: int) -> None:
        chunk = _chunks(blob, starts)

        def read(number: int) -> tuple[bytes, Sequence[int]]:
            rows = min(TEXT_ROWS, count - number * TEXT_ROWS)
            whole = chunk(number)
            lengths = memoryview(whole)[: 2 * rows].cast("H")
            return whole, array("I", accumulate(lengths, initial=2 * rows))

        # Not a method: the cache would keep this object, and so megabytes, until a collection.
        self._read = functools.lru_cache(cached)(read)

    def __getitem__(self, number: int) -> bytes:
        whole, ends = self._read(number // TEXT_ROWS)
        row = number % TEXT_ROWS
        return whole[ends[row] : ends[row + 1]]


def letters_mask(word: str) -> int:
    """Return a mask with a bit for each letter; several letters share a bit."""
    mask = 0
    for letter in word:
        mask |= 1 << ord(letter) % 64
    return mask


def usual_fold(text: str) -> str:
    """Return the result of `normalise.folded` for most phrases, faster. Equal forms are not stored,
    so a change of this function needs another `FORMAT`.
    """
    if text.isascii():
        return text.lower()
    return _MARKS.sub("", unicodedata.normalize("NFD", text.lower()))


def usual_spelling(folded: str) -> str:
    """Return the spelling of most folded words: Hangul as syllables."""
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded)


def _chunks(blob: memoryview, starts: memoryview) -> Callable[[int], bytes]:
    return lambda number: decompressor().decompress(blob[starts[number] : starts[number + 1]])


def _folds_of(texts: TextColumn, folds: TextColumn) -> Callable[[int], str]:
    return lambda number: folds[number].decode() or usual_fold(texts[number].decode())
