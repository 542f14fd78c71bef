"""The arrays of the file of suggestions (`index.suggest.file`, `index.suggest.texts`), made in
columns: what would be a loop over phrases, words and their letters is numpy's. Hot path:
bench/search.py.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard

from lycosa.index.suggest.file import MASK_ONCE, MASKS, mask_place
from lycosa.index.suggest.normalise import EAST_ASIAN, MAX_STARTS, RUN_TOGETHER, starts
from lycosa.index.suggest.texts import BLOCK, BLOCKS, MAX_SHARED

_LEVEL = 9  # zstd's: 12 takes a quarter longer to write a file for 1 % less
_CHUNK = BLOCK * BLOCKS
_WORDS_AT_ONCE = 16 * _CHUNK
_PHRASES_AT_ONCE = 8_192
_KEY = 8  # bytes of a text that are compared at once
_ALNUM, _MARK, _EAST_ASIAN, _RUN_TOGETHER = 1, 2, 4, 8
_LETTERS = 8_192  # whose kinds are remembered: more than most collections have

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Written = npt.NDArray[Any] | bytes
Arrays = dict[str, Written]


@dataclass(slots=True, frozen=True)
class Column:
    """Texts in UTF-8, one behind the other: the n-th from `starts[n]` to `starts[n + 1]`. Behind
    them are `_PADDING` bytes more.
    """

    whole: Bytes
    starts: Numbers

    @staticmethod
    def of(texts: pl.Series) -> Column:
        """Of a series of strings or bytes."""
        parts = texts.cast(pl.Binary)
        lengths = parts.bin.size().to_numpy()
        return Column(
            np.frombuffer(b"".join([*parts.to_list(), bytes(_PADDING)]), np.uint8), _sums(lengths)
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    def part(self, first: int, end: int) -> bytes:
        """The texts from one to another."""
        return self.whole[self.starts[first] : self.starts[end]].tobytes()


_PADDING = 16  # bytes: as many as are looked at from the beginning of a text on, and one


def text_arrays(name: str, texts: Column) -> Arrays:
    """The arrays of `suggest_texts.Texts`."""
    count = len(texts)
    chunks = [
        texts.part(first, min(first + _CHUNK, count)) for first in range(0, max(1, count), _CHUNK)
    ]
    return {
        **chunk_arrays(name, chunks),
        f"{name}_lengths": smallest(texts.lengths),
        f"{name}_bases": smallest(_bases(texts.starts)),
    }


def word_arrays(name: str, folded: Column, texts: Column, pages: Numbers) -> Arrays:
    """The arrays of `suggest_texts.Words`, in the order in which they come; a text that is not
    written is empty.
    """
    chunks: list[bytes] = []
    bases = [np.zeros(0, np.int64)]
    for first in range(0, len(folded), _WORDS_AT_ONCE):
        rows = slice(first, min(first + _WORDS_AT_ONCE, len(folded)))
        written, begin = _word_rows(folded, texts, pages, rows)
        chunks += [
            written[begin[at] : begin[min(at + _CHUNK, len(begin) - 1)]].tobytes()
            for at in range(0, len(begin) - 1, _CHUNK)
        ]
        bases.append(_bases(begin))
    return {**chunk_arrays(name, chunks or [b""]), f"{name}_bases": smallest(np.concatenate(bases))}


def _word_rows(folded: Column, texts: Column, pages: Numbers, rows: slice) -> tuple[Bytes, Numbers]:
    """What is written of some words, and where each begins in it. The first one begins a chunk."""
    starts, lengths = folded.starts[rows], folded.lengths[rows]
    heads = folded.whole[starts[:, None] + np.arange(MAX_SHARED)]
    inside = np.arange(MAX_SHARED) < lengths[:, None]
    shared = np.zeros(len(starts), np.int64)
    alike = (heads[1:] == heads[:-1]) & inside[1:] & inside[:-1]
    shared[1:] = np.logical_and.accumulate(alike, axis=1).sum(axis=1)
    shared[::BLOCK] = 0
    rest, text_lengths = lengths - shared, texts.lengths[rows]
    long = rest >= MAX_SHARED
    head = (shared << 4 | np.minimum(rest, MAX_SHARED)).astype(np.uint8)
    long_size = np.where(long, _leb_size(rest), 0)
    text_size, pages_size = _leb_size(text_lengths), _leb_size(pages[rows])
    begin = _sums(1 + long_size + rest + text_size + text_lengths + pages_size)
    written = np.zeros(int(begin[-1]), np.uint8)
    at = begin[:-1]
    written[at] = head
    _put_leb(written, at[long] + 1, rest[long])
    at = at + 1 + long_size
    _copy(written, at, folded.whole, starts + shared, rest)
    at = at + rest
    _put_leb(written, at, text_lengths)
    at = at + text_size
    _copy(written, at, texts.whole, texts.starts[rows], text_lengths)
    _put_leb(written, at + text_lengths, pages[rows])
    return written, begin


def masks(name: str, words: pl.Series) -> Arrays:
    """The chunks of `suggest_file.letters_mask` of words."""
    chunks = []
    for first in range(0, len(words), MASKS):
        part = words.slice(first, MASKS)
        letters = np.frombuffer("".join(part.to_list()).encode("utf-32-le"), np.uint32)
        lengths = part.str.len_chars().to_numpy().astype(np.int64)
        begin = _sums(lengths)
        each, where = np.unique(letters, return_inverse=True)
        places = np.array([mask_place(chr(letter)) for letter in each.tolist()], np.uint64)[where]
        made = np.zeros(len(part), np.uint64)
        for number in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > number)
            place = places[begin[rows] + number]
            bit = np.uint64(1) << place
            before = made[rows]
            made[rows] = before | np.where(
                before & bit != 0, np.uint64(1) << MASK_ONCE + place % (64 - MASK_ONCE), bit
            )
        chunks.append(made.tobytes())
    return chunk_arrays(name, chunks)


def all_starts(phrases: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Where words of folded phrases begin (`suggest_fold.starts`), in order: the phrase's number,
    and the place in its UTF-8.
    """
    numbers, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, len(phrases), _PHRASES_AT_ONCE):
        number, place = _starts(phrases[first : first + _PHRASES_AT_ONCE])
        numbers.append(number + first)
        places.append(place)
    return np.concatenate(numbers), np.concatenate(places)


def _starts(phrases: Sequence[str]) -> tuple[Numbers, Numbers]:
    letters = np.frombuffer(("\n" + "\n".join(phrases)).encode("utf-32-le"), np.uint32)
    kinds = _kinds(letters)
    begin = np.flatnonzero(letters == ord("\n")) + 1
    is_ascii = np.maximum.reduceat(letters, begin) < 0x80
    found = (kinds & _ALNUM).astype(bool)
    found[1:] &= kinds[:-1] & (_ALNUM | _MARK) == 0
    found |= (kinds & _EAST_ASIAN).astype(bool)
    found[begin[~is_ascii]] = True
    together = np.flatnonzero(np.maximum.reduceat(kinds & _RUN_TOGETHER, begin))
    for phrase in together.tolist():
        found[begin[phrase] : begin[phrase] + len(phrases[phrase])] = False
        found[[begin[phrase] + place for place in starts(phrases[phrase])]] = True
    at = np.flatnonzero(found)
    number = np.searchsorted(begin, at, "right") - 1
    nth = np.arange(len(at)) - np.searchsorted(number, number, "left")
    at, number = at[nth < MAX_STARTS], number[nth < MAX_STARTS]
    before = _sums(
        1 + (letters >= 0x80).astype(np.int64) + (letters >= 0x800) + (letters >= 0x10000)
    )
    return number, before[at] - before[begin[number]]


def suffix_order(whole: Bytes, begin: Numbers, end: Numbers, group: Numbers) -> Numbers:
    """The order of texts by their groups, then by their bytes, then as they come: a text is what
    stands from `begin` to `end`, without a NUL. Sorts by some bytes of all, then by the next ones
    of those that are still alike.
    """
    key = _key(whole, begin, end)
    order = np.lexsort((key, group))
    new = np.ones(len(order) + 1, dtype=bool)
    new[1:-1] = (np.diff(group[order]) != 0) | (np.diff(key[order]) != 0)
    depth = 0
    while True:
        depth += _KEY
        alike = ~(new[:-1] & new[1:])
        alike &= begin[order] + depth <= end[order]  # who ended before is alike for good
        rows = np.flatnonzero(alike)
        if not rows.size:
            return order
        number = np.cumsum(new[:-1])[rows]
        key = _key(whole, begin[order[rows]] + depth, end[order[rows]])
        turned = np.lexsort((key, number))
        order[rows] = order[rows][turned]
        new[rows[1:]] |= np.diff(key[turned]) != 0


def chunk_arrays(name: str, chunks: Iterable[bytes]) -> Arrays:
    """The arrays of `suggest_texts.Chunks`."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    written = [compressor.compress(chunk) for chunk in chunks]
    return {
        name: b"".join(written),
        f"{name}_starts": smallest(_sums(np.array([len(chunk) for chunk in written], np.int64))),
    }


def packed(values: npt.NDArray[Any]) -> bytes:
    """A whole array, compressed (`suggest_texts.unpacked`); b"" if that does not make it much
    smaller.
    """
    whole = values.tobytes()
    made = zstandard.ZstdCompressor(level=_LEVEL).compress(whole)
    return made if len(made) < 0.9 * len(whole) else b""


def smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in the smallest type that holds them."""
    most = int(values.max(initial=0))
    return values.astype(
        next(
            kind
            for kind in (np.uint8, np.uint16, np.uint32, np.uint64)
            if most <= np.iinfo(kind).max
        )
    )


def _sums(lengths: npt.NDArray[Any]) -> Numbers:
    """Where each begins that is so long, and the last one ends."""
    found = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def _bases(starts: Numbers) -> Numbers:
    """Where every `BLOCK`-th begins, counted from where its chunk does. `starts` has one more."""
    blocks = np.arange(0, len(starts) - 1, BLOCK)
    return starts[blocks] - starts[blocks // _CHUNK * _CHUNK]


def _key(whole: Bytes, begin: Numbers, end: Numbers) -> npt.NDArray[np.uint64]:
    """The next bytes of texts as a number that is in their order; a text begins at its end or
    before.
    """
    found = np.zeros(len(begin), np.uint64)
    for at in range(_KEY):
        found = found << np.uint64(8) | np.where(begin + at < end, whole[begin + at], np.uint8(0))
    return found


def _leb_size(values: Numbers) -> Numbers:
    """Bytes of numbers in LEB128 (DWARF 5, 7.6)."""
    size = np.ones(len(values), np.int64)
    rest = values >> 7
    while rest.any():
        size += rest > 0
        rest = rest >> 7
    return size


def _put_leb(written: Bytes, at: Numbers, values: Numbers) -> None:
    rows = np.arange(len(values))
    while rows.size:
        rest = values >> 7
        written[at] = (values & 0x7F | np.where(rest > 0, 0x80, 0)).astype(np.uint8)
        rows = np.flatnonzero(rest)
        at, values = at[rows] + 1, rest[rows]


def _copy(written: Bytes, at: Numbers, whole: Bytes, starts: Numbers, lengths: Numbers) -> None:
    """Copy stretches that are so long."""
    ends = np.cumsum(lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    written[np.repeat(at, lengths) + within] = whole[np.repeat(starts, lengths) + within]


def _kinds(letters: npt.NDArray[np.uint32]) -> Bytes:
    met = np.zeros(sys.maxunicode + 1, bool)
    met[letters] = True
    each = np.flatnonzero(met)
    table = np.zeros(len(met), np.uint8)
    table[each] = [_kind(chr(letter)) for letter in each.tolist()]
    return table[letters]


@functools.lru_cache(_LETTERS)
def _kind(letter: str) -> int:
    found = _ALNUM if letter.isalnum() else _MARK if unicodedata.category(letter)[0] == "M" else 0
    if letter >= "\u0e00":
        found |= (_EAST_ASIAN if EAST_ASIAN.match(letter) else 0) | (
            _RUN_TOGETHER if RUN_TOGETHER.match(letter) else 0
        )
    return found
