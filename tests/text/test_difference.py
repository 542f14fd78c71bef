"""The difference of two texts: right where difflib is, bounded where it is not."""

from __future__ import annotations

import random
import time
from difflib import unified_diff

import pytest

from lycosa.text.difference import CAME, GONE, MAX_SHOWN, SAME, Difference, difference


def patched(old: str, result: Difference) -> str:
    """The new text, from the old one and the difference."""
    before = old.split("\n") if old else []
    made: list[str] = []
    place = 0
    for piece in (piece for stretch in result.stretches for piece in stretch):
        if piece.kind in (SAME, GONE):
            assert tuple(before[piece.old : piece.old + len(piece.blocks)]) == piece.blocks
            made += before[place : piece.old]
            place = piece.old + len(piece.blocks)
        if piece.kind in (SAME, CAME):
            made += before[place : piece.old] if piece.kind == CAME else []
            place = max(place, piece.old) if piece.kind == CAME else place
            assert len(made) == piece.new
            made += piece.blocks
    return "\n".join(made + before[place:])


@pytest.mark.parametrize("seed", range(40))
def test_a_difference_leads_from_the_old_text_to_the_new(seed: int) -> None:
    generator = random.Random(seed)
    words = [f"block {number}" for number in range(generator.choice((2, 5, 40, 400)))]
    old = generator.choices(words, k=generator.randrange(0, 120))
    new = [block for block in old if generator.random() > 0.2]
    for _ in range(generator.randrange(0, 20)):
        new.insert(generator.randrange(0, len(new) + 1), generator.choice(words))
    before, after = "\n".join(old), "\n".join(new)
    result = difference(before, after)
    assert patched(before, result) == after
    assert (bool(result), len(new) - len(old)) == (before != after, result.came - result.gone)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nx\nc"),
        ("", "a"),
        ("a", ""),
        ("a\nb\nc\nd\ne\nf\ng", "a\nb\nC\nd\ne\nf\nG"),
        ("a", "a"),
    ],
)
def test_written_as_difflib_writes_it(old: str, new: str) -> None:
    expected = list(
        unified_diff(
            old.split("\n") if old else [], new.split("\n") if new else [], lineterm="", n=1
        )
    )[2:]
    assert list(difference(old, new).lines()) == expected


def _alternating(count: int) -> tuple[str, str]:
    return "\n".join("ab"[number % 2] for number in range(count)), "\n".join(
        "ba"[number % 3 % 2] for number in range(count)
    )


def _shuffled(count: int) -> tuple[str, str]:
    lines = [str(number) for number in range(count)]
    return "\n".join(lines), "\n".join(random.Random(1).sample(lines, count))


def _nested(count: int) -> tuple[str, str]:
    """Only one block at a time divides what is left: each stands once only when those around it are
    gone.
    """
    old = [str(number // 2) for number in range(count)]
    return "\n".join(old), "\n".join(old[::-1])


@pytest.mark.parametrize("make", [_alternating, _shuffled, _nested])
def test_time_is_bounded(make: object) -> None:
    """Ten times the blocks may not take a hundred times as long, whatever they are."""
    assert callable(make)
    took = []
    for count in (8_000, 80_000):
        old, new = make(count)
        begin = time.process_time()
        result = difference(old, new)
        took.append(time.process_time() - begin)
        assert result
        assert (
            sum(
                len(piece.blocks)
                for stretch in result.stretches
                for piece in stretch
                if piece.kind != SAME
            )
            <= MAX_SHOWN
        )
        assert result.cut
    assert took[1] < 40 * took[0] + 2.0
