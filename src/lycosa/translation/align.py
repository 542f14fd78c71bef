"""Two texts that are translations of each other, cut into pieces that are: first lines, then
sentences within long lines.

Lengths of translations go together (Gale and Church, "A program for aligning sentences in bilingual
corpora", 1993); names, numbers and code stand in both alike, and hold the alignment where lengths
leave it open. Lines that have the same of these, and are the only ones that do, are fixed points,
so that the dynamic program runs over the short stretches between them.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from icu4py.breakers import SentenceBreaker

from lycosa.text.segmented import clean

LONG_LINE = 300  # characters from which a line is cut into sentences
MIN_KEY = 4  # characters of names, numbers and code by which pieces are recognised
BAND = 20  # pieces that an alignment may stray from the straight way
MAX_LINES = 4_000
SHORTEST = 2  # letters of a piece
# of what two pieces have in common, in units of -log p; half and twice as much change no site's
# result by .01
ANCHOR_WEIGHT = 6.0
VARIANCE = 6.8  # Gale and Church's, for characters
_COST = {
    (1, 1): -math.log(0.89),
    (1, 0): -math.log(0.005),
    (0, 1): -math.log(0.005),
    (2, 1): -math.log(0.045),
    (1, 2): -math.log(0.045),
}
_ALIKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@+-]*[A-Za-z0-9]|\d")
SAME = 0.6  # of the words of two pieces that are equal: then one is no translation of the other

Pieces = Sequence[str]


def aligned(one: str, other: str, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Pairs of pieces that translate each other, in order; what has no counterpart, and what was
    not translated, is left out.
    """
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
    if (
        one == other
        or sum(map(str.isalpha, one)) < SHORTEST
        or sum(map(str.isalpha, other)) < SHORTEST
    ):
        return
    words, others = Counter(one.lower().split()), Counter(other.lower().split())
    if 2 * (words & others).total() < SAME * (words.total() + others.total()):
        yield one, other


def _align(one: Pieces, other: Pieces) -> Iterator[tuple[str, str]]:
    """Pieces of one joined by spaces with those of the other that they stand for."""
    start, begin = 0, 0
    for place, its in _fixed(one, other):
        yield from _between(one[start:place], other[begin:its])
        yield one[place], other[its]
        start, begin = place + 1, its + 1
    yield from _between(one[start:], other[begin:])


def _fixed(one: Pieces, other: Pieces) -> list[tuple[int, int]]:
    """Places of pieces with the same marks that stand once in each: the longest run that is in
    order in both (patience sorting).
    """
    keys, its_keys = [_key(piece) for piece in one], [_key(piece) for piece in other]
    counted, others = Counter(keys), Counter(its_keys)
    where = {key: place for place, key in enumerate(its_keys)}
    common = [
        (place, where[key])
        for place, key in enumerate(keys)
        if key and counted[key] == 1 and others.get(key) == 1
    ]
    tops: list[int] = []  # the number in `common` of the smallest end of a run of each length
    before: list[int] = []
    for number, (_, its) in enumerate(common):
        low, high = 0, len(tops)
        while low < high:
            middle = (low + high) // 2
            if common[tops[middle]][1] < its:
                low = middle + 1
            else:
                high = middle
        before.append(tops[low - 1] if low else -1)
        tops[low : low + 1] = [number]
    fixed = []
    number = tops[-1] if tops else -1
    while number >= 0:
        fixed.append(common[number])
        number = before[number]
    return fixed[::-1]


def _between(one: Pieces, other: Pieces) -> Iterator[tuple[str, str]]:
    if not one or not other:
        return
    if len(one) == len(other) == 1:
        yield one[0], other[0]
        return
    for (start, count), (begin, its) in _best_way(one, other):
        if count and its:
            yield " ".join(one[start : start + count]), " ".join(other[begin : begin + its])


def _best_way(one: Pieces, other: Pieces) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the beads of least cost: (first piece, number of pieces) of either text."""
    ends = [0, *itertools.accumulate(map(len, one))]
    other_ends = [0, *itertools.accumulate(map(len, other))]
    ratio = other_ends[-1] / max(1, ends[-1])
    marks, other_marks = [_marks(piece) for piece in one], [_marks(piece) for piece in other]
    slope, rows, columns = len(other) / len(one), len(one), len(other)
    cost: dict[tuple[int, int], float] = {(0, 0): 0.0}
    came: dict[tuple[int, int], tuple[int, int]] = {}
    mismatch = functools.cache(_mismatch)
    for row in range(rows + 1):
        middle = row * slope
        for column in range(max(0, int(middle - BAND)), min(columns, int(middle + BAND)) + 1):
            sofar = cost.get((row, column))
            if sofar is None:
                continue
            for step, base in _COST.items():
                down, right = row + step[0], column + step[1]
                if down > rows or right > columns:
                    continue
                price = sofar + base
                if step[0] and step[1]:
                    price += mismatch(
                        ends[down] - ends[row], other_ends[right] - other_ends[column], ratio
                    )
                    ours, others = marks[row:down], other_marks[column:right]
                    if any(ours) or any(others):
                        price -= ANCHOR_WEIGHT * _shared(ours, others)
                if price < cost.get((down, right), math.inf):
                    cost[down, right] = price
                    came[down, right] = step
    place = (rows, columns)
    beads = []
    while place != (0, 0):
        last = came.get(place)
        if last is None:  # outside of the band
            return []
        place = place[0] - last[0], place[1] - last[1]
        beads.append(((place[0], last[0]), (place[1], last[1])))
    return beads[::-1]


def _mismatch(length: int, its: int, ratio: float) -> float:
    """-log of the chance that lengths differ so much or more, translations of each other being
    normally distributed about the ratio.
    """
    if not length and not its:
        return 0.0
    expected = length * ratio
    delta = abs(its - expected) / math.sqrt(max(1.0, (expected + its) / 2) * VARIANCE)
    return min(25.0, -math.log(max(1e-12, math.erfc(delta / math.sqrt(2)))))


@functools.lru_cache(maxsize=50_000)
def _key(piece: str) -> str:
    """What must be equal for two pieces to be a fixed point: enough that stays the same in
    translation. "" if there is not enough.
    """
    key = " ".join(_ALIKE.findall(piece))
    return key if len(key) >= MIN_KEY else ""


@functools.lru_cache(maxsize=50_000)
def _marks(piece: str) -> frozenset[str]:
    return frozenset(_ALIKE.findall(piece))


def _shared(some: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> float:
    """What pieces have in common of what stays the same in translation: up to .8; below 0 where one
    has much of it and the other none.
    """
    one = some[0] if len(some) == 1 else some[0] | some[1]
    other = others[0] if len(others) == 1 else others[0] | others[1]
    total = len(one) + len(other)
    return 2 * len(one & other) / total - 0.2 if total > 2 else 0.0
