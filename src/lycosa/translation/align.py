"""Align the lines of two texts that translate each other, and the sentences of long lines.

The lengths of translations correlate (Gale and Church, "A program for aligning sentences in
bilingual corpora", 1993). Names, numbers and code are the same in both texts and decide where
lengths do not. Lines that are the only ones with the same names, numbers and code are fixed points;
the dynamic program runs over the short stretches between them.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence

from icu4py.breakers import SentenceBreaker

from lycosa.text.difference import unique_anchors
from lycosa.text.segmented import clean

LONG_LINE = 300  # characters; longer lines are split into sentences
MIN_KEY = 4  # characters of names, numbers and code that identify a piece
BAND = 8  # maximum distance of an alignment from the diagonal, in pieces
BEAM = 20.0  # paths that cost this much more than the best one of their row are dropped
MAX_MISMATCH = 6.0  # -log p of the lengths of two pieces up to which equal numbers are pairs
MAX_LINES = 4_000
ANCHOR_WEIGHT = 6.0  # of shared names, numbers and code, in units of -log p
VARIANCE = 6.8  # Gale and Church's, for characters
_COST = {
    (1, 1): -math.log(0.89),
    (1, 0): -math.log(0.005),
    (0, 1): -math.log(0.005),
    (2, 1): -math.log(0.045),
    (1, 2): -math.log(0.045),
}
_STEPS = 16  # in one unit of the squared deviation
# -log of the probability of a larger deviation, by its square
_TAILS = [-math.log(math.erfc(math.sqrt(step / _STEPS / 2))) for step in range(45 * _STEPS)]
_ALIKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@+-]*[A-Za-z0-9]|\d")
_LETTERS = re.compile(r"[^\W\d_].*?[^\W\d_]")  # a piece has at least two
SAME = 0.6  # share of equal words from which a piece is not a translation

Pieces = Sequence[str]


def aligned(one: str, other: str, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Return the pairs of pieces that translate each other, in order."""
    lines, others = _lines(one), _lines(other)
    if not lines or not others:
        return
    for here, there in _align(lines, others):
        if max(len(here), len(there)) < LONG_LINE:
            yield from _usable_pair(here, there)
            continue
        sentences, translated = _sentences(here, source), _sentences(there, target)
        for piece, its in _align(sentences, translated):
            yield from _usable_pair(piece, its)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")[:MAX_LINES] if line.strip()]


def _sentences(line: str, language: str) -> list[str]:
    return [
        sentence.strip() for sentence in SentenceBreaker(clean(line), language) if sentence.strip()
    ]


def _usable_pair(one: str, other: str) -> Iterator[tuple[str, str]]:
    if one == other or not _LETTERS.search(one) or not _LETTERS.search(other):
        return
    words, others = set(one.lower().split()), set(other.lower().split())
    if 2 * len(words & others) < SAME * (len(words) + len(others)):
        yield one, other


def _align(one: Pieces, other: Pieces) -> Iterator[tuple[str, str]]:
    """Return pairs of aligned pieces; several pieces of a text are joined by spaces."""
    start, begin = 0, 0
    for place, its in _fixed(one, other):
        yield from _between(one[start:place], other[begin:its])
        yield one[place], other[its]
        start, begin = place + 1, its + 1
    yield from _between(one[start:], other[begin:])


def _fixed(one: Pieces, other: Pieces) -> list[tuple[int, int]]:
    """Return the positions of pieces that share a key which no other piece has, in order."""
    keys = {place: key for place, piece in enumerate(one) if (key := _key(piece))}
    other_keys = {place: key for place, piece in enumerate(other) if (key := _key(piece))}
    places, other_places = list(keys), list(other_keys)
    anchors = unique_anchors(list(keys.values()), list(other_keys.values()))
    return [(places[first], other_places[second]) for first, second in anchors]


def _between(one: Pieces, other: Pieces) -> Iterator[tuple[str, str]]:
    if not one or not other:
        return
    ratio = sum(map(len, other)) / sum(map(len, one))
    if len(one) == len(other) and all(
        _mismatch(len(piece), len(its), ratio) < MAX_MISMATCH
        for piece, its in zip(one, other, strict=True)
    ):
        yield from zip(one, other, strict=True)
        return
    for (start, count), (begin, its) in _best_path(one, other):
        if count and its:
            yield " ".join(one[start : start + count]), " ".join(other[begin : begin + its])


def _best_path(one: Pieces, other: Pieces) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the beads of least cost: (first piece, number of pieces) of either text."""
    ends = [0, *itertools.accumulate(map(len, one))]
    other_ends = [0, *itertools.accumulate(map(len, other))]
    ratio = other_ends[-1] / max(1, ends[-1])
    marks, other_marks = _windows(one), _windows(other)
    slope, rows, columns = len(other) / len(one), len(one), len(other)
    # for each row: column -> cost of the best path to it, its last step
    best: list[dict[int, tuple[float, tuple[int, int]]]] = [{} for _ in range(rows + 1)]
    best[0][0] = (0.0, (0, 0))
    for row, paths in enumerate(best):
        middle = row * slope
        inside = range(max(0, int(middle - BAND)), min(columns, int(middle + BAND)) + 1)
        costs = (cost for column, (cost, _) in paths.items() if column in inside)
        limit = min(costs, default=0.0) + BEAM
        for column in inside:
            sofar, _ = paths.get(column, (math.inf, None))
            if sofar > limit:
                continue
            for step, base in _COST.items():
                down, right = row + step[0], column + step[1]
                if down > rows or right > columns:
                    continue
                price = sofar + base
                if step[0] and step[1]:
                    price += _mismatch(
                        ends[down] - ends[row], other_ends[right] - other_ends[column], ratio
                    )
                    ours, others = marks[step[0]][row], other_marks[step[1]][column]
                    if len(ours) + len(others) > 2:
                        price -= ANCHOR_WEIGHT * _shared(ours, others)
                if right not in best[down] or price < best[down][right][0]:
                    best[down][right] = (price, step)
    place = (rows, columns)
    beads = []
    while place != (0, 0):
        if place[1] not in best[place[0]]:  # outside of the band, or too costly
            return []
        down, right = best[place[0]][place[1]][1]
        place = place[0] - down, place[1] - right
        beads.append(((place[0], down), (place[1], right)))
    return beads[::-1]


def _mismatch(length: int, its: int, ratio: float) -> float:
    """Return -log of the probability that lengths differ at least so much from the ratio."""
    expected = length * ratio
    squared = (its - expected) ** 2 / ((expected + its) / 2 * VARIANCE)
    return _TAILS[min(int(squared * _STEPS), len(_TAILS) - 1)]


@functools.lru_cache(maxsize=50_000)
def _key(piece: str) -> str:
    """Return the names, numbers and code of a piece; "" if they do not identify it."""
    key = " ".join(_ALIKE.findall(piece))
    return key if len(key) >= MIN_KEY else ""


@functools.lru_cache(maxsize=50_000)
def _marks(piece: str) -> frozenset[str]:
    return frozenset(_ALIKE.findall(piece))


def _windows(pieces: Pieces) -> dict[int, list[frozenset[str]]]:
    """Return the names, numbers and code of each piece (1), and of it with the next one (2)."""
    marks = [_marks(piece) for piece in pieces]
    return {1: marks, 2: [first | second for first, second in itertools.pairwise(marks)]}


def _shared(ours: frozenset[str], others: frozenset[str]) -> float:
    """Return how similar two sets of names, numbers and code are: -0.2 to 0.8."""
    return 2 * len(ours & others) / (len(ours) + len(others)) - 0.2
