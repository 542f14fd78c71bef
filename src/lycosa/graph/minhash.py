"""Texts that are nearly the same: found by MinHash and bands, held to be so by a sketch of what
they are made of.

A text is the set of its shingles: runs of three words, or of five characters where no spaces part
the words. Two texts are near when their sets share `NEAR` of what is in either (Jaccard). Who might
be near is found by bands of MinHash (Broder 1997; Leskovec, Rajaraman, Ullman: Mining of Massive
Datasets, 3.4); whether they are is said by the `SKETCH` smallest hashes of both (bottom-k; exact
for texts of no more shingles).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Final

import numpy as np

Hashes = np.ndarray[tuple[int], np.dtype[np.uint32]]
Tokens = np.ndarray[tuple[int], np.dtype[np.uint64]]
Pairs = np.ndarray[tuple[int], np.dtype[np.int64]]

NEAR = 0.8
WORDS, CHARACTERS = 3, 5  # in a shingle
LEAST = 16  # shingles of a text that is looked at: shorter ones are alike by chance, as notices are
# hashes kept of a text: at .8 an estimate's standard deviation is .0125; 4 KB on disk
SKETCH = 1024
# of 10,000 pairs with a similarity of .8 all but 17 meet in a band, 4,000 of those with .5
BANDS, ROWS = 16, 5
MAX_TIMES = 16  # that a part is weighed
# in a band that each text is compared with, besides the band's first: bands of thousands are
# templates
NEIGHBOURS = 8

_COMBINE: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64
_random = np.random.default_rng(20_240_607)
# odd: each is a permutation of 32 bits
_TIMES = (_random.integers(0, 2**31, BANDS * ROWS, np.uint32) * 2 + 1)[:, None]
_PLUS = _random.integers(0, 2**32, BANDS * ROWS, np.uint32)[:, None]


def shingles(tokens: Tokens, width: int) -> Hashes:
    """The distinct hashes of all runs of so many tokens, in order."""
    count = tokens.size - width + 1
    if count <= 0:
        return np.zeros(0, np.uint32)
    mixed = np.zeros(count, np.uint64)
    for place in range(width):
        mixed = mixed * _COMBINE + _mix(tokens[place : place + count])
    return np.unique((_mix(mixed) >> np.uint64(32)).astype(np.uint32))


def weighed(part: Hashes, whole: Hashes) -> Hashes:
    """A set in which a small part counts about as much as the whole that it is of: two of them are
    near only if both are.
    """
    times = min(whole.size // part.size, MAX_TIMES) if part.size else 0
    copies = [
        _mix(part.astype(np.uint64) | np.uint64(time + 1 << 32)) >> np.uint64(32)
        for time in range(times)
    ]
    return np.unique(np.concatenate([whole, *(copy.astype(np.uint32) for copy in copies)]))


def band_hashes(hashes: Hashes) -> Tokens:
    """A text's bands: whoever has one in common with it may be near."""
    least = (hashes[None, :] * _TIMES + _PLUS).min(axis=1).astype(np.uint64).reshape(BANDS, ROWS)
    mixed = np.zeros(BANDS, np.uint64)
    for row in range(ROWS):
        mixed = mixed * _COMBINE + _mix(least[:, row])
    return _mix(mixed)


def similarity(one: Hashes, other: Hashes) -> float:
    """The Jaccard similarity of two sets by their sketches: exact where both are whole."""
    either = np.union1d(one, other)
    if max(one.size, other.size) >= SKETCH:
        either = either[:SKETCH]
    both = np.intersect1d(one, other, assume_unique=True)
    return float(np.count_nonzero(both <= either[-1])) / either.size if either.size else 0.0


class Sketches:
    """Sketches and bands of texts, numbered as they come, in two files: 4.2 KB a text at most.
    Memory: 8 bytes a text.
    """

    def __init__(self, hashes: IO[bytes], bands: IO[bytes]) -> None:
        """Files that are empty, open for writing and reading."""
        self._files = hashes, bands
        self._ends = [0]

    @property
    def count(self) -> int:
        return len(self._ends) - 1

    def add(self, hashes: Hashes) -> None:
        """The shingles of the next text, of which there is at least one."""
        kept = hashes[:SKETCH]
        self._files[0].write(kept.tobytes())
        self._files[1].write(band_hashes(hashes).tobytes())
        self._ends.append(self._ends[-1] + kept.size)

    def near(self) -> Iterator[tuple[int, int, float]]:
        """Pairs of texts that are near, the lower number first, and how near. Memory: 40 bytes a
        text, 8 a pair that was compared.
        """
        if self.count < 2:
            return
        for file in self._files:
            file.flush()
        hashes = np.memmap(self._files[0].name, np.uint32, "r")
        bands = np.memmap(self._files[1].name, np.uint64, "r").reshape(-1, BANDS)
        compared: Pairs = np.zeros(0, np.int64)
        for band in range(BANDS):
            found = np.setdiff1d(
                candidates(np.ascontiguousarray(bands[:, band])), compared, assume_unique=True
            )
            compared = np.union1d(compared, found)
            for pair in found.tolist():
                one, other = pair >> 32, pair & 0xFFFFFFFF
                how_near = similarity(
                    hashes[self._ends[one] : self._ends[one + 1]],
                    hashes[self._ends[other] : self._ends[other + 1]],
                )
                if how_near >= NEAR:
                    yield one, other, how_near


def candidates(band: Tokens) -> Pairs:
    """Pairs of texts with the same hash in a band, as `lower << 32 | higher`, each once: all of
    small groups, of large ones each with the first and with those beside it.
    """
    order = np.argsort(band, kind="stable")
    ordered = band[order]
    begins = np.ones(ordered.size, bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(ordered.size), 0))
    later = (~begins).nonzero()[0]
    parts = [_pairs(order[first[later]], order[later])]
    for step in range(1, NEIGHBOURS):
        same = (ordered[step:] == ordered[:-step]).nonzero()[0]
        parts.append(_pairs(order[same], order[same + step]))
    return np.unique(np.concatenate(parts))


def stars(pairs: Iterable[tuple[int, int]], better: Tokens | Pairs) -> dict[int, int]:
    """Groups: text -> the one that stands for it, itself included. Each is near the one that stands
    for it, so that a chain of small differences is not one group. The texts with the smallest
    `better` stand for others first.
    """
    beside: dict[int, list[int]] = {}
    for one, other in pairs:
        beside.setdefault(one, []).append(other)
        beside.setdefault(other, []).append(one)
    stands: dict[int, int] = {}
    for text in sorted(beside, key=lambda text: int(better[text])):
        if text not in stands:
            left = [other for other in beside[text] if other not in stands]
            if left:
                stands.update(dict.fromkeys([text, *left], text))
    return stands


def _pairs(
    one: np.ndarray[tuple[int], np.dtype[np.int64]],
    other: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Pairs:
    return np.minimum(one, other) << 32 | np.maximum(one, other)


def _mix(values: Tokens) -> Tokens:
    """SplitMix64's finaliser."""
    mixed = (values ^ values >> np.uint64(30)) * _FIRST
    mixed = (mixed ^ mixed >> np.uint64(27)) * _SECOND
    return mixed ^ mixed >> np.uint64(31)
