"""Texts by number in the arrays of a mapped file, small: what one text says of another is not written again.

`Texts` have their lengths, and every `BLOCK` of them where it begins. `Words` stand in order, each as how many bytes it begins with
like the one before (front coding), and begin anew with every `BLOCK`. A text that `usual_fold` makes its folded form has none of its own.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

BLOCK = 8
KEPT_BLOCKS, KEPT_FOLDS = 1_024, 8_192
"""Of words and of folded phrases that are remembered once they were read, some 2 MB and 1 MB: halving looks at the same ones again."""
_MOST_SHARED = 15  # bytes of a word that are those of the one before it; also says that a length follows
_MARKS = re.compile("[\u0300-\u036f]+")  # Unicode's combining diacritical marks

Arrays = dict[str, "array[Any] | bytes"]
Row = tuple[bytes, bytes, int]
"""Of a word: its folded form, its text (b"": `usual_text` makes it from that), and its pages."""


class Texts:
    """Texts by number."""

    def __init__(self, blob: memoryview, lengths: memoryview, bases: memoryview) -> None:
        self._blob, self._lengths, self._bases = blob, lengths, bases

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, number: int) -> bytes:
        length = self._lengths[number]
        if not length:
            return b""
        block = number // BLOCK
        start = self._bases[block] + sum(self._lengths[block * BLOCK : number])
        return bytes(self._blob[start : start + length])


def folds_of(texts: Texts, folds: Texts) -> Callable[[int], bytes]:
    """The folded form of a text by its number: `folds` has those that `usual_fold` does not make."""
    return functools.lru_cache(KEPT_FOLDS)(lambda number: folds[number] or usual_fold(texts[number]))


class Words:
    """Words in order, with their pages."""

    def __init__(self, blob: memoryview, bases: memoryview, count: int) -> None:
        self._rows = functools.lru_cache(KEPT_BLOCKS)(lambda block: _rows(blob, bases[block], min(BLOCK, count - block * BLOCK)))
        self._head = functools.lru_cache(KEPT_FOLDS)(lambda block: _rows(blob, bases[block], 1)[0][0])

    def __getitem__(self, number: int) -> Row:
        return self._rows(number // BLOCK)[number % BLOCK]

    def find(self, folded: bytes, group: range) -> Row | None:
        """A word of a group of them that stands in order of their bytes."""
        low, high = group.start // BLOCK, (group.stop - 1) // BLOCK
        while low < high:  # the last block that does not begin after it
            middle = (low + high + 1) // 2
            if self._head(middle) <= folded:
                low = middle
            else:
                high = middle - 1
        for number, row in enumerate(self._rows(low), low * BLOCK):
            if row[0] == folded and number in group:
                return row
        return None


def _rows(blob: memoryview, at: int, count: int) -> list[Row]:
    """The words of a block. Hot path: bench/suggest.py."""
    folded, found = b"", []
    for _ in range(count):
        head = blob[at]
        at += 1
        length = head & _MOST_SHARED
        if length == _MOST_SHARED:
            length, at = _number(blob, at)
        folded = folded[: head >> 4] + blob[at : at + length]
        at += length
        text = b""
        if blob[at]:
            length, at = _number(blob, at)
            text = bytes(blob[at : at + length])
            at += length
        else:
            at += 1
        pages = blob[at]
        if pages < 0x80:
            at += 1
        else:
            pages, at = _number(blob, at)
        found.append((folded, text, pages))
    return found


def text_arrays(name: str, texts: Iterable[bytes]) -> Arrays:
    """The arrays of `Texts`."""
    listed = list(texts)
    lengths, bases, start = [len(text) for text in listed], [], 0
    for place, length in enumerate(lengths):
        if place % BLOCK == 0:
            bases.append(start)
        start += length
    return {name: b"".join(listed), f"{name}_lengths": smallest(lengths), f"{name}_bases": smallest(bases)}


def word_arrays(name: str, rows: Iterable[Row]) -> Arrays:
    """The arrays of `Words`, in the order in which they come."""
    blob, bases, before = bytearray(), [], b""
    for place, (folded, text, pages) in enumerate(rows):
        if place % BLOCK == 0:
            bases.append(len(blob))
            before = b""
        shared = _shared(before, folded)
        rest = folded[shared:]
        blob.append(shared << 4 | min(len(rest), _MOST_SHARED))
        if len(rest) >= _MOST_SHARED:
            blob += _number_bytes(len(rest))
        blob += rest + _number_bytes(len(text)) + text + _number_bytes(pages)
        before = folded
    return {name: bytes(blob), f"{name}_bases": smallest(bases)}


def smallest(values: Sequence[int]) -> array[Any]:
    """An array of the smallest type that holds them."""
    most = max(values, default=0)
    return array(next(kind for kind in "BHIQ" if most < 1 << 8 * array(kind).itemsize), values)


def usual_fold(text: bytes) -> bytes:
    """What most phrases become when they are folded (`index.suggest_fold`), quickly. It decides what is not written: never change it
    without another format of the file."""
    if text.isascii():
        return text.lower()
    return _MARKS.sub("", unicodedata.normalize("NFD", text.decode().lower())).encode()


def usual_text(folded: bytes) -> bytes:
    """What most words are when they are not folded: the syllables of Hangul."""
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded.decode()).encode()


def _shared(one: bytes, other: bytes) -> int:
    """With how many bytes both begin alike."""
    most = min(len(one), len(other), _MOST_SHARED)
    return next((place for place in range(most) if one[place] != other[place]), most)


def _number(blob: memoryview, at: int) -> tuple[int, int]:
    """A number in LEB128 (DWARF 5, 7.6), and the place after it."""
    value = blob[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = blob[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _number_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
