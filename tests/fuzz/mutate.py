"""Inputs for a target, out of its seeds: the same for the same number, on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target

CASES = Path(__file__).parent / "cases"
"""Inputs that once broke something, in a folder a target: they are tried first, always."""

_MOST = 100_000  # bytes of an input


def cases(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CASES / name).glob("*"))]


def made(target: Target, number: int) -> bytes:
    """Input `number`: one to eight changes of a seed."""
    chance = random.Random(number)
    data = bytearray(chance.choice(target.seeds))
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8))):
        _change(data, target, chance)
    return bytes(data[:_MOST])


def attack(name: str, numbers: Sequence[int]) -> None:
    """Try the cases, the seeds and these inputs. What fails says how to make it again."""
    target = TARGETS[name]
    for data in (*cases(name), *target.seeds):
        target.check(data)
    for number in numbers:
        data = made(target, number)
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"made(TARGETS[{name!r}], {number}) = {data[:2_000]!r}")
            raise


def _change(data: bytearray, target: Target, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    some = chance.choice((1, 2, 4, 16, 200))
    match chance.randrange(9):
        case 0:
            data[at:at] = chance.choice(target.pieces)
        case 1:
            data[at : at + some] = chance.choice(target.pieces)
        case 2:
            del data[at : at + some]
        case 3:
            data[at:at] = data[max(0, at - some) : at] * chance.choice((1, 2, 50))
        case 4:
            data[at : at + 1] = bytes((chance.randrange(256),))
        case 5:
            if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
        case 6:
            other = chance.choice(target.seeds)
            data[at:] = other[chance.randrange(len(other) + 1) :]
        case 7:
            del data[at:]
        case _:
            data[at:at] = chance.randbytes(some)
