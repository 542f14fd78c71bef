"""Fingerprints of a text: one that changes with every character, one that hardly changes with a
small edit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xxhash

# bytes of a feature: one long or two short English words, four Cyrillic letters; twice that is five
# Han characters
WINDOW = 8
_BEHIND = bytes(2 * WINDOW)
_ROWS = 255  # rows that eight-bit lanes can sum without overflow
_SPACE = 0x20
_THREE_BYTES = 0xE0  # first byte of a UTF-8 character of three or more bytes

# Finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
# OOPSLA 2014).
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_SHIFTS: Final = tuple(np.uint64(shift) for shift in (30, 27, 31))


def text_digest(text: str) -> int:
    """xxh3_64 of the UTF-8 bytes: equal for equal texts, an unsigned 64-bit integer."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def simhash(text: str) -> int:
    """A 64-bit fingerprint whose Hamming distance grows with the share of the text that differs
    (Charikar, STOC 2002).

    Features are the windows of eight bytes that begin at a word, and those of sixteen that begin at
    any character of a script whose characters take three bytes in UTF-8 (Chinese, Japanese, Thai
    and their kin have no spaces). A text without features has fingerprint 0. Hot path:
    tests/text/test_digest.py holds its bar.
    """
    # A space before it, so that the first word begins like all others; zeros behind it for the
    # windows.
    raw = b"".join((b" ", text.encode("utf-8", "surrogatepass"), _BEHIND))
    size = len(raw) - 1 - len(_BEHIND)
    if not size:
        return 0
    data = np.frombuffer(raw, dtype=np.uint8)
    space = data[: size + 1] <= _SPACE
    begins = space[:-1] > space[1:]
    plain = text.isascii()
    if not plain:
        begins |= data[1 : size + 1] >= _THREE_BYTES
    starts = begins.nonzero()[0]
    if not len(starts):
        return 0
    # overlapping: one begins at every byte
    windows = np.ndarray((size + WINDOW,), dtype=np.uint64, buffer=raw, offset=1, strides=(1,))
    features = windows[starts]
    if not plain and len(wide := (data[1:][starts] >= _THREE_BYTES).nonzero()[0]):
        features[wide] += _mixed(windows[starts[wide] + WINDOW])
    return _majority(_mixed(features))


def distance(first: int, second: int) -> int:
    """In how many of the 64 bits two fingerprints differ."""
    return (first ^ second).bit_count()


def _mixed(
    values: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    shifted = values >> _SHIFTS[0]
    values ^= shifted
    values *= _FIRST
    values ^= np.right_shift(values, _SHIFTS[1], out=shifted)
    values *= _SECOND
    values ^= np.right_shift(values, _SHIFTS[2], out=shifted)
    return values


def _majority(hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    """Bit i is set if it is set in more than half of the hashes.

    The 64 bits of a hash become 64 bytes, which are added eight at a time as one 64-bit word, in
    groups of 255 rows so that no byte overflows into its neighbour.
    """
    bits = np.unpackbits(hashes.view(np.uint8)).view(np.uint64).reshape(-1, 8)
    groups = np.add.reduceat(bits, np.arange(0, len(bits), _ROWS), axis=0)
    counts = groups.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.uint32)
    return int.from_bytes(np.packbits(counts * 2 > len(hashes)).tobytes(), "little")
