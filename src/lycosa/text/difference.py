"""Compare two texts block by block, in bounded time.

The time of difflib is cubic in repeated blocks. Therefore common blocks at both ends are skipped,
then unique blocks in the same order divide the rest (the patience diff of Bram Cohen), and difflib
compares the parts between. A part that is still too large is replaced as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

CONTEXT = 1  # blocks shown around a change
MAX_BLOCKS = 200_000  # of a text; the rest is one block
MAX_SHOWN = 2_000  # maximum blocks in a difference
_MAX_WORK = 4_000_000  # comparisons for one part: about 0.5 s
_MAX_WORK_IN_ALL = 8_000_000
_MAX_PASSES = 20  # over both texts, to find unique blocks

SAME, GONE, CAME = " ", "-", "+"


@dataclass(slots=True, frozen=True)
class Piece:
    """Adjacent blocks: `kind` SAME, GONE (old text) or CAME (new text); positions from 0."""

    kind: str
    old: int
    new: int
    blocks: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Difference:
    """Changes with their context. `gone`, `came`: numbers of blocks. `cut`: incomplete."""

    stretches: tuple[tuple[Piece, ...], ...]
    gone: int
    came: int
    cut: bool = False

    def __bool__(self) -> bool:
        return bool(self.gone or self.came)

    def lines(self) -> Iterator[str]:
        """Return a unified diff, one block a line, without file names."""
        for stretch in self.stretches:
            old, new = _span(stretch, SAME + GONE), _span(stretch, SAME + CAME)
            yield f"@@ -{_range(stretch[0].old, old)} +{_range(stretch[0].new, new)} @@"
            for piece in stretch:
                for block in piece.blocks:
                    yield piece.kind + block


def difference(old: str, new: str) -> Difference:
    """Compare two texts line by line."""
    before, after = _blocks(old), _blocks(new)
    changes = _changes(before, after)
    gone = sum(end - start for start, end, _, _ in changes)
    came = sum(end - start for _, _, start, end in changes)
    stretches: list[tuple[Piece, ...]] = []
    left = MAX_SHOWN
    for group in _grouped(changes):
        if left <= 0:
            break
        pieces, left = _pieces(before, after, group, left)
        stretches.append(pieces)
    shown = sum(
        len(piece.blocks) for stretch in stretches for piece in stretch if piece.kind != SAME
    )
    return Difference(tuple(stretches), gone, came, cut=shown < gone + came)


_Change = tuple[int, int, int, int]
"""old[a:b] became new[c:d]."""


def _blocks(text: str) -> list[str]:
    if not text:
        return []
    return text.split("\n", MAX_BLOCKS)


def _changes(old: Sequence[str], new: Sequence[str]) -> list[_Change]:
    changes: list[_Change] = []
    budget = _MAX_WORK_IN_ALL
    passes = _MAX_PASSES * (len(old) + len(new))
    waiting = [(0, len(old), 0, len(new))]
    while waiting:
        a, b, c, d = waiting.pop()
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if a == b or c == d:
            if a < b or c < d:
                changes.append((a, b, c, d))
            continue
        passes -= b - a + d - c
        anchors = unique_anchors(old[a:b], new[c:d]) if passes > 0 else []
        if anchors:
            anchors = [(a + place, c + other) for place, other in anchors]
            ends = [(a, c), *((place + 1, other + 1) for place, other in anchors)]
            starts = [*anchors, (b, d)]
            waiting += reversed([(s, e, t, f) for (s, t), (e, f) in zip(ends, starts, strict=True)])
            continue
        work = _work(old[a:b], new[c:d])
        if work > min(_MAX_WORK, budget):
            changes.append((a, b, c, d))
            continue
        budget -= work
        opcodes = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False).get_opcodes()
        changes += [(a + i, a + j, c + k, c + m) for tag, i, j, k, m in opcodes if tag != "equal"]
    return changes


def unique_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pair the positions of blocks that occur once in each sequence (patience sorting).

    Returns:
        The longest run of such pairs in the same order in both.
    """
    counts_old, counts_new = Counter(old), Counter(new)
    places = {block: place for place, block in enumerate(new) if counts_new[block] == 1}
    pairs = [
        (place, places[block])
        for place, block in enumerate(old)
        if counts_old[block] == 1 and block in places
    ]
    ends: list[int] = []  # smallest position in `new` at which a run of each length ends
    last: list[int] = []  # the pair there
    before: list[int] = []  # the previous pair of each pair's run; -1: none
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _work(old: Sequence[str], new: Sequence[str]) -> int:
    """Estimate the maximum work of difflib."""
    counts = Counter(new)
    pairs = sum(counts[block] for block in old)
    return (pairs + len(old)) * max(1, min(len(old), len(new), pairs))


def _grouped(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Group changes with overlapping context."""
    group: list[_Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _pieces(
    old: Sequence[str], new: Sequence[str], group: Sequence[_Change], left: int
) -> tuple[tuple[Piece, ...], int]:
    """Return the pieces of a group, with at most `left` changed blocks, and the rest of it."""
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first[0], first[2])
    pieces = [_same(old, first[0] - lead, first[2] - lead, lead)]
    for change, following in [*pairwise(group), (last, None)]:
        a, b, c, d = change
        gone, came = old[a : min(b, a + left)], new[c : min(d, c + max(0, left - (b - a)))]
        pieces += [Piece(GONE, a, c, tuple(gone)), Piece(CAME, b, c, tuple(came))]
        left -= len(gone) + len(came)
        if len(gone) + len(came) < b - a + d - c:
            return tuple(piece for piece in pieces if piece.blocks), 0
        length = following[0] - b if following is not None else min(CONTEXT, len(old) - b)
        pieces.append(_same(old, b, d, length))
    return tuple(piece for piece in pieces if piece.blocks), left


def _same(old: Sequence[str], start: int, other: int, length: int) -> Piece:
    return Piece(SAME, start, other, tuple(old[start : start + length]))


def _span(stretch: Sequence[Piece], kinds: str) -> int:
    return sum(len(piece.blocks) for piece in stretch if piece.kind in kinds)


def _range(start: int, length: int) -> str:
    """Format a range as difflib does: from 1; an empty range starts at the line before."""
    begin = start + 1 if length else start
    return f"{begin}" if length == 1 else f"{begin},{length}"
