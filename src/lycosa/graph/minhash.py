"""Find similar texts: candidates by MinHash bands, compared by bottom-k sketches.

A text is the set of its shingles: runs of three words, or of five characters in languages without
spaces. Two texts are near if the Jaccard similarity of their sets is at least `NEAR`. Candidates
come from bands of MinHash (Broder 1997; Leskovec, Rajaraman, Ullman: Mining of Massive Datasets,
3.4). Of a text only the `SKETCH` smallest hashes count; shorter texts are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Final

import numpy as np

from lycosa.text.digest import mixed

Hashes = np.ndarray[tuple[int], np.dtype[np.uint32]]
Tokens = np.ndarray[tuple[int], np.dtype[np.uint64]]
Pairs = np.ndarray[tuple[int], np.dtype[np.int64]]

NEAR = 0.8
WORDS, CHARACTERS = 3, 5  # in a shingle
MIN_SHINGLES = 16  # of a text; shorter ones are similar by chance
# hashes in a sketch, 4 KB; standard deviation 0.0125 at a similarity of 0.8
SKETCH = 1024
# of 10,000 pairs with similarity 0.8, 9,983 share a band; with 0.5, 4,000
BANDS, ROWS = 16, 5
MAX_TIMES = 16  # maximum weight of a part
# compared in a band, besides its first text: bands of thousands are templates
NEIGHBOURS = 8

_COMBINE: Final = np.uint64(0x9E3779B97F4A7C15)
_random = np.random.default_rng(20_240_607)
# odd: each is a permutation of 32 bits
_TIMES = (_random.integers(0, 2**31, BANDS * ROWS, np.uint32) * 2 + 1)[:, None]
_PLUS = _random.integers(0, 2**32, BANDS * ROWS, np.uint32)[:, None]


def shingles(tokens: Tokens, width: int) -> Hashes:
    """Return the distinct hashes of all runs of `width` tokens, in order."""
    count = tokens.size - width + 1
    if count <= 0:
        return np.zeros(0, np.uint32)
    hashes, scattered = np.zeros(count, np.uint64), mixed(tokens.copy())
    for place in range(width):
        hashes *= _COMBINE
        hashes += scattered[place : place + count]
    return _distinct((mixed(hashes) >> np.uint64(32)).astype(np.uint32))


def weighed(part: Hashes, whole: Hashes) -> Hashes:
    """Return a set in which a small part counts about as much as the whole text."""
    times = min(whole.size // part.size, MAX_TIMES) if part.size else 0
    copies = [
        mixed(part.astype(np.uint64) | np.uint64(time + 1 << 32)) >> np.uint64(32)
        for time in range(times)
    ]
    return _distinct(np.concatenate([whole, *(copy.astype(np.uint32) for copy in copies)]))


def band_hashes(sketch: Hashes) -> Tokens:
    """Return the bands of a text by its sketch; near texts probably share one."""
    permuted = sketch * _TIMES
    permuted += _PLUS  # in place: another array of this size costs seven times as much
    least = mixed(permuted.min(axis=1).astype(np.uint64)).reshape(BANDS, ROWS)
    hashes = np.zeros(BANDS, np.uint64)
    for row in range(ROWS):
        hashes = hashes * _COMBINE + least[:, row]
    return mixed(hashes)


def similarity(one: Hashes, other: Hashes) -> float:
    """Return the Jaccard similarity of two sets by their sketches."""
    hashes = np.sort(np.concatenate([one, other]))
    repeated = hashes[1:] == hashes[:-1]
    both = hashes[1:][repeated]
    either = hashes.size - both.size
    if max(one.size, other.size) >= SKETCH and either > SKETCH:
        last = np.flatnonzero(np.append(True, ~repeated))[SKETCH - 1]
        either, both = SKETCH, both[both <= hashes[last]]
    return both.size / either if either else 0.0


class Sketches:
    """Sketches and bands of texts in two files, at most 4.2 KB a text; in memory 8 bytes."""

    def __init__(self, hashes: IO[bytes], bands: IO[bytes]) -> None:
        """`hashes`, `bands`: empty files, open for writing and reading."""
        self._files = hashes, bands
        self._ends = [0]

    @property
    def count(self) -> int:
        return len(self._ends) - 1

    def add(self, hashes: Hashes) -> None:
        """Add the shingles of the next text, at least one."""
        sketch = hashes[:SKETCH]
        self._files[0].write(sketch.tobytes())
        self._files[1].write(band_hashes(sketch).tobytes())
        self._ends.append(self._ends[-1] + sketch.size)

    def near(self, keys: Tokens) -> Iterator[tuple[int, int, float]]:
        """Return the numbers of near texts, the lower first, and their similarity.

        `keys`: one a text, distinct; which texts of a large band are compared depends on their
        order, not on that of the texts. Memory: 48 bytes a text, 8 a compared pair.
        """
        if self.count < 2:
            return
        for file in self._files:
            file.flush()
        hashes = np.asarray(np.memmap(self._files[0].name, np.uint32, "r"))
        bands = np.memmap(self._files[1].name, np.uint64, "r").reshape(-1, BANDS)
        by_key = np.argsort(keys)
        compared: Pairs = np.zeros(0, np.int64)
        for band in range(BANDS):
            pairs = np.setdiff1d(candidates(bands[:, band], by_key), compared, assume_unique=True)
            compared = np.union1d(compared, pairs)
            for pair in pairs.tolist():
                one, other = pair >> 32, pair & 0xFFFFFFFF
                likeness = similarity(
                    hashes[self._ends[one] : self._ends[one + 1]],
                    hashes[self._ends[other] : self._ends[other + 1]],
                )
                if likeness >= NEAR:
                    yield one, other, likeness


def candidates(band: Tokens, by_key: Pairs) -> Pairs:
    """Return pairs of texts with the same hash in a band, as `lower << 32 | higher`.

    In large groups, each text is paired with the first by key and with its neighbours only.
    `by_key`: the numbers of all texts in the order of their keys.
    """
    order = by_key[np.argsort(band[by_key], kind="stable")]
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


def stars(pairs: Iterable[tuple[int, int]], order: Tokens | Pairs) -> dict[int, int]:
    """Return text -> representative, itself included, for all texts in a group.

    Each text is near its representative, so that a chain of small differences is not one group.
    Texts with the smallest `order` become representatives first.
    """
    near: dict[int, list[int]] = {}
    for one, other in pairs:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    representatives: dict[int, int] = {}
    for text in sorted(near, key=lambda text: int(order[text])):
        if text not in representatives:
            left = [other for other in near[text] if other not in representatives]
            if left:
                representatives.update(dict.fromkeys([text, *left], text))
    return representatives


def _pairs(
    one: np.ndarray[tuple[int], np.dtype[np.int64]],
    other: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Pairs:
    return np.minimum(one, other) << 32 | np.maximum(one, other)


def _distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes, in order; much faster than `np.unique`."""
    ordered = np.sort(hashes)
    distinct: Hashes = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct
