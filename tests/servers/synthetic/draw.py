"""Chance without state: numbers that are pure functions of what they are for, and Poisson processes
that can be asked at any time.

A process over the horizon is a total, split again and again in two halves (given n events in an
interval, those of its first half are Binomial(n, 1/2): Kingman, "Poisson Processes", 1993, section
2.4), until few are left, whose times are drawn. So how many events there were until any time costs
some twenty draws, not a walk through all of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from statistics import NormalDist
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

DAY_MS = 86_400_000
HORIZON_MS = 2**38
"""Nearly nine years: after it nothing happens any more."""

_LEAF = 8  # events of an interval that are drawn instead of split further
# events up to which the Binomial is drawn bit by bit; above, the normal distribution is as good
_EXACT = 512
_EXACT_MEAN = 40.0
_NORMAL = NormalDist()


def draw(*parts: object) -> int:
    """An unsigned 64-bit number that depends on nothing but the parts."""
    return xxh3_64_intdigest("\x1f".join(map(str, parts)).encode())


def unit(*parts: object) -> float:
    """Uniform in [0, 1)."""
    return (draw(*parts) >> 11) * 2.0**-53


def lognormal(median: float, spread: float, *parts: object) -> float:
    """`spread` is the standard deviation of the logarithm."""
    return median * math.exp(spread * _normal(*parts))


def power_law(least: int, most: int, exponent: float, *parts: object) -> int:
    """A whole number from `least` to `most` with density proportional to x**-exponent (exponent
    above 1).
    """
    low, high = least ** (1 - exponent), (most + 1) ** (1 - exponent)
    return min(int((low + unit(*parts) * (high - low)) ** (1 / (1 - exponent))), most)


class Span(NamedTuple):
    """`version`: events until now; it has stood since `since_ms` and will until `until_ms` (both
    counted from the beginning).
    """

    version: int
    since_ms: int
    until_ms: int


def span(key: int, per_day: float, at_ms: int) -> Span:
    """The state of the process `key` at a time counted from its beginning; version 0 stands since
    0.
    """
    if per_day <= 0:
        return Span(0, 0, HORIZON_MS)
    total = _poisson(per_day * HORIZON_MS / DAY_MS, key)
    version = _count(key, total, at_ms)
    since = _time_of(key, total, version) if version else 0
    return Span(
        version, since, _time_of(key, total, version + 1) if version < total else HORIZON_MS
    )


def event_time(key: int, per_day: float, number: int) -> int:
    """When event `number` (from 1) happens; the horizon if it never does."""
    total = _poisson(per_day * HORIZON_MS / DAY_MS, key) if per_day > 0 else 0
    return _time_of(key, total, number) if number <= total else HORIZON_MS


def events(key: int, per_day: float, at_ms: int) -> int:
    """How many events there were until a time."""
    return _count(key, _poisson(per_day * HORIZON_MS / DAY_MS, key), at_ms) if per_day > 0 else 0


def _count(key: int, total: int, at_ms: int) -> int:
    if at_ms < 0:
        return 0
    node, start, length, number, before = 1, 0, HORIZON_MS, total, 0
    while number > _LEAF and length > 1:
        left = _left(key, node, number)
        length //= 2
        node *= 2
        if at_ms < start + length:
            number = left
        else:
            before += left
            number -= left
            node += 1
            start += length
    return before + bisect_right(_times(key, node, start, length, number), at_ms)


def _time_of(key: int, total: int, requested: int) -> int:
    node, start, length, number = 1, 0, HORIZON_MS, total
    while number > _LEAF and length > 1:
        left = _left(key, node, number)
        length //= 2
        node *= 2
        if requested <= left:
            number = left
        else:
            requested -= left
            number -= left
            node += 1
            start += length
    return _times(key, node, start, length, number)[requested - 1]


def _times(key: int, node: int, start: int, length: int, number: int) -> list[int]:
    return sorted(start + draw(key, node, index) % length for index in range(number))


def _left(key: int, node: int, number: int) -> int:
    """How many of an interval's events lie in its first half."""
    if number > _EXACT:
        guess = number / 2 + _normal(key, node, "half") * math.sqrt(number) / 2
        return min(max(round(guess), 0), number)
    actual = 0
    for index in range(0, number, 64):
        actual += (
            draw(key, node, "bits", index) & ((1 << min(number - index, 64)) - 1)
        ).bit_count()
    return actual


def _normal(*parts: object) -> float:
    return _NORMAL.inv_cdf(max(unit(*parts), 2.0**-53))


def _poisson(mean: float, key: int) -> int:
    if mean > _EXACT_MEAN:
        return max(round(mean + _normal(key, "total") * math.sqrt(mean)), 0)
    left, number = unit(key, "total"), 0
    share = math.exp(-mean)
    while left > share and number < 10 * _EXACT_MEAN:
        left -= share
        number += 1
        share *= mean / number
    return number
