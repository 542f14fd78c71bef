"""Texts by number in a mapped file, small: what one text says of another is not written again.

`Texts` have their lengths, and every `BLOCK` of them where it begins. `Words` stand in order, each
as how many bytes it begins with like the one before (front coding), and begin anew with every
`BLOCK`. A text that `usual_fold` makes its folded form has none of its own. `BLOCKS` blocks are
compressed together (`Chunks`).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

from lycosa.index.snippets.texts import decompressor

BLOCK = 8
BLOCKS = 128
"""In a chunk, of 10 to 15 KB: to decompress one takes about as long as to halve a section twice."""
KEPT_CHUNKS = 128
KEPT_BLOCKS, KEPT_FOLDS = 1_024, 8_192
"""Of chunks, of words and of folded phrases that are remembered once they were read, some 2 MB, 2
MB and 1 MB: halving looks at the same ones again.
"""
# bytes of a word that are those of the one before it; also says that a length follows
MAX_SHARED = 15
_MARKS = re.compile("[\u0300-\u036f]+")  # Unicode's combining diacritical marks

Row = tuple[bytes, bytes, int]
"""Of a word: its folded form, its text (b"": `usual_text` makes it from that), and its pages."""


class Chunks:
    """Stretches of bytes, compressed one by one; where each begins, and the last one ends."""

    def __init__(self, blob: memoryview, starts: memoryview) -> None:
        def read(number: int) -> bytes:
            return decompressor().decompress(blob[starts[number] : starts[number + 1]])

        # Not a method: the memory would hold the object that holds it, megabytes until the
        # collector comes by.
        self.read = functools.lru_cache(KEPT_CHUNKS)(read)


class Texts:
    """Texts by number. A block's base is counted from where its chunk begins."""

    def __init__(self, chunks: Chunks, lengths: memoryview, bases: memoryview) -> None:
        self._chunk, self._lengths, self._bases = chunks.read, lengths, bases

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, number: int) -> bytes:
        length = self._lengths[number]
        if not length:
            return b""
        block = number // BLOCK
        start = self._bases[block] + sum(self._lengths[block * BLOCK : number])
        return self._chunk(block // BLOCKS)[start : start + length]


def folds_of(texts: Texts, folds: Texts) -> Callable[[int], bytes]:
    """The folded form of a text by its number: `folds` has those that `usual_fold` does not
    make.
    """
    return functools.lru_cache(KEPT_FOLDS)(
        lambda number: folds[number] or usual_fold(texts[number])
    )


class Words:
    """Words in order, with their pages. A block's base is as of `Texts`."""

    def __init__(self, chunks: Chunks, bases: memoryview, count: int) -> None:
        def rows(block: int, most: int) -> list[Row]:
            return _rows(chunks.read(block // BLOCKS), bases[block], most)

        self._rows = functools.lru_cache(KEPT_BLOCKS)(
            lambda block: rows(block, min(BLOCK, count - block * BLOCK))
        )
        self._head = functools.lru_cache(KEPT_FOLDS)(lambda block: rows(block, 1)[0][0])

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


def _rows(blob: bytes, at: int, count: int) -> list[Row]:
    """The words of a block. Hot path: bench/suggest.py."""
    folded, found = b"", []
    for _ in range(count):
        head = blob[at]
        at += 1
        length = head & MAX_SHARED
        if length == MAX_SHARED:
            length, at = _number(blob, at)
        folded = folded[: head >> 4] + blob[at : at + length]
        at += length
        text = b""
        if blob[at]:
            length, at = _number(blob, at)
            text = blob[at : at + length]
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


def unpacked(made: memoryview) -> memoryview:
    """The inverse of `suggest_arrays.packed`."""
    return memoryview(decompressor().decompress(made))


def usual_fold(text: bytes) -> bytes:
    """What most phrases become when they are folded (`index.suggest.normalise`), quickly. It
    decides what is not written: never change it without another format of the file.
    """
    if text.isascii():
        return text.lower()
    return _MARKS.sub("", unicodedata.normalize("NFD", text.decode().lower())).encode()


def usual_text(folded: bytes) -> bytes:
    """What most words are when they are not folded: the syllables of Hangul."""
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded.decode()).encode()


def _number(blob: bytes, at: int) -> tuple[int, int]:
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
