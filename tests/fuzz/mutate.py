"""Generate inputs of a target from its seeds, reproducible by number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target

CASES = Path(__file__).parent / "cases"
"""Inputs that once failed, one folder per target. Always checked first."""

_MAX_BYTES = 100_000  # length of an input


def cases(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CASES / name).glob("*"))]


def mutated(target: Target, number: int) -> bytes:
    """Return input `number`: a seed with 1 to 8 mutations."""
    generator = random.Random(number)
    data = bytearray(generator.choice(target.seeds))
    for _ in range(generator.choice((1, 1, 2, 3, 5, 8))):
        _mutate(data, target, generator)
    return bytes(data[:_MAX_BYTES])


def run_inputs(name: str, numbers: Sequence[int]) -> None:
    """Check the cases, the seeds and these inputs.

    Errors have a note with the input.
    """
    target = TARGETS[name]
    for data in (*cases(name), *target.seeds):
        target.check(data)
    for number in numbers:
        data = mutated(target, number)
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"mutated(TARGETS[{name!r}], {number}) = {data[:2_000]!r}")
            raise


def _mutate(data: bytearray, target: Target, generator: random.Random) -> None:
    at = generator.randrange(len(data) + 1)
    length = generator.choice((1, 2, 4, 16, 200))
    match generator.randrange(9):
        case 0:
            data[at:at] = generator.choice(target.tokens)
        case 1:
            data[at : at + length] = generator.choice(target.tokens)
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = data[max(0, at - length) : at] * generator.choice((1, 2, 50))
        case 4:
            data[at : at + 1] = bytes((generator.randrange(256),))
        case 5:
            if at < len(data):
                data[at] ^= 1 << generator.randrange(8)
        case 6:
            other = generator.choice(target.seeds)
            data[at:] = other[generator.randrange(len(other) + 1) :]
        case 7:
            del data[at:]
        case _:
            data[at:at] = generator.randbytes(length)
