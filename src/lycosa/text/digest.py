"""Fingerprints of a text: an exact digest, and a SimHash for small edits."""

from __future__ import annotations

from typing import Final

import numpy as np
import xxhash

WINDOW = 8  # bytes of a feature
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
    """Return xxh3_64 of the UTF-8 bytes, an unsigned 64-bit integer."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def simhash(text: str) -> int:
    """Return the SimHash of a text (Charikar, STOC 2002), 0 for a text without words.

    Features are windows of eight bytes from the start of each word, and of sixteen bytes from each
    character of three bytes in UTF-8 (scripts without spaces). Hot path: tests/text/test_digest.py.
    """
    # a space before the first word, zeros for the last windows
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
        features[wide] += mixed(windows[starts[wide] + WINDOW])
    return _majority(mixed(features))


def distance(first: int, second: int) -> int:
    """Return the Hamming distance of two fingerprints."""
    return (first ^ second).bit_count()


def mixed(
    values: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the values mixed by the finaliser of SplitMix64, in place."""
    shifted = values >> _SHIFTS[0]
    values ^= shifted
    values *= _FIRST
    values ^= np.right_shift(values, _SHIFTS[1], out=shifted)
    values *= _SECOND
    values ^= np.right_shift(values, _SHIFTS[2], out=shifted)
    return values


def _majority(hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    """Return the bits that are set in more than half of the hashes.

    Bits become bytes, which are added as 64-bit words, in groups of 255 rows to avoid overflow.
    """
    bits = np.unpackbits(hashes.view(np.uint8)).view(np.uint64).reshape(-1, 8)
    groups = np.add.reduceat(bits, np.arange(0, len(bits), _ROWS), axis=0)
    counts = groups.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.uint32)
    return int.from_bytes(np.packbits(counts * 2 > len(hashes)).tobytes(), "little")
