"""Random numbers without state, as pure functions of a key, and Poisson processes of them.

The total number of events of a process is drawn first. Then intervals are halved: with n events in
an interval, the number in the first half is Binomial(n, 1/2) (Kingman, "Poisson Processes", 1993,
section 2.4). The times of the last few events are drawn. So counting the events until a time takes
about 20 draws, independent of their number.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from statistics import NormalDist
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

DAY_MS = 86_400_000
HORIZON_MS = 2**38
"""End of all processes, almost nine years."""

_MAX_LEAF_EVENTS = 8  # intervals with more events are halved
# with more events, the normal distribution replaces the binomial and the Poisson distribution
_MAX_EXACT_EVENTS = 512
_MAX_EXACT_MEAN = 40.0
_NORMAL = NormalDist()


def draw(*parts: object) -> int:
    """Return an unsigned 64-bit number that depends on the parts only."""
    return xxh3_64_intdigest("\x1f".join(map(str, parts)).encode())


def uniform(*parts: object) -> float:
    """Return a number uniform in [0, 1)."""
    return (draw(*parts) >> 11) * 2.0**-53


def lognormal(median: float, spread: float, *parts: object) -> float:
    """Return a log-normal number; `spread` is the standard deviation of the logarithm."""
    return median * math.exp(spread * _normal(*parts))


def power_law(least: int, most: int, exponent: float, *parts: object) -> int:
    """Return an integer from `least` to `most` with density proportional to x**-exponent.

    The exponent is greater than 1.
    """
    low, high = least ** (1 - exponent), (most + 1) ** (1 - exponent)
    return min(int((low + uniform(*parts) * (high - low)) ** (1 / (1 - exponent))), most)


class Interval(NamedTuple):
    """The interval between two events.

    `version`: number of events before it. `since_ms` and `until_ms`: its start and end, from the
    start of the process.
    """

    version: int
    since_ms: int
    until_ms: int


def interval_at(key: int, per_day: float, at_ms: int) -> Interval:
    """Return the interval of the process `key` that contains a time since its start."""
    if per_day <= 0:
        return Interval(0, 0, HORIZON_MS)
    total = _poisson(per_day * HORIZON_MS / DAY_MS, key)
    version = _count(key, total, at_ms)
    since = _time_of(key, total, version) if version else 0
    return Interval(
        version, since, _time_of(key, total, version + 1) if version < total else HORIZON_MS
    )


def event_time(key: int, per_day: float, number: int) -> int:
    """Return the time of event `number` (from 1), or the horizon if there are fewer events."""
    total = _poisson(per_day * HORIZON_MS / DAY_MS, key) if per_day > 0 else 0
    return _time_of(key, total, number) if number <= total else HORIZON_MS


def count_events(key: int, per_day: float, at_ms: int) -> int:
    """Return the number of events until a time."""
    return _count(key, _poisson(per_day * HORIZON_MS / DAY_MS, key), at_ms) if per_day > 0 else 0


def _count(key: int, total: int, at_ms: int) -> int:
    if at_ms < 0:
        return 0
    node, start, length, number, before = 1, 0, HORIZON_MS, total, 0
    while number > _MAX_LEAF_EVENTS and length > 1:
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


def _time_of(key: int, total: int, event: int) -> int:
    node, start, length, number = 1, 0, HORIZON_MS, total
    while number > _MAX_LEAF_EVENTS and length > 1:
        left = _left(key, node, number)
        length //= 2
        node *= 2
        if event <= left:
            number = left
        else:
            event -= left
            number -= left
            node += 1
            start += length
    return _times(key, node, start, length, number)[event - 1]


def _times(key: int, node: int, start: int, length: int, number: int) -> list[int]:
    return sorted(start + draw(key, node, index) % length for index in range(number))


def _left(key: int, node: int, number: int) -> int:
    """Return how many of an interval's events are in its first half."""
    if number > _MAX_EXACT_EVENTS:
        estimate = number / 2 + _normal(key, node, "half") * math.sqrt(number) / 2
        return min(max(round(estimate), 0), number)
    count = 0
    for index in range(0, number, 64):
        mask = (1 << min(number - index, 64)) - 1
        count += (draw(key, node, "bits", index) & mask).bit_count()
    return count


def _normal(*parts: object) -> float:
    return _NORMAL.inv_cdf(max(uniform(*parts), 2.0**-53))


def _poisson(mean: float, key: int) -> int:
    if mean > _MAX_EXACT_MEAN:
        return max(round(mean + _normal(key, "total") * math.sqrt(mean)), 0)
    left, number = uniform(key, "total"), 0
    share = math.exp(-mean)
    while left > share and number < 10 * _MAX_EXACT_MEAN:
        left -= share
        number += 1
        share *= mean / number
    return number
