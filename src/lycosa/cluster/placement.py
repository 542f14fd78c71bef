"""Assignment of partitions to workers.

The least loaded first, with few moves. Pure functions over loads.

A move costs two workers a few seconds (stop, commit, release, claim, load), so it must gain more.

In a crawl that ends, load is the work that each worker has done plus its waiting URLs. The size of
a site shows only while it is fetched, and one host gets one request at a time: waiting URLs are a
poor estimate at first, and the worker with the largest site has too much work even without its
other sites. So that site moves too, once its worker has done more than another will ever have done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Loads = Mapping[str, Mapping[int, float]]
"""Worker -> partition -> weight, for the assigned partitions."""

_UNEVEN = 1.25
"""Ratio of a worker's load to the mean load that causes a rebalancing."""

_UNEVEN_IN_ALL = 1.12  # the same where completed work counts: it cannot be rebalanced
# a rebalancing that has begun continues until the loads differ by less than this factor
_EVEN = 1.08
_WORTH = 100  # difference in waiting URLs below which nothing moves to a worker with work
# share of the difference of two workers: more would only make the receiver the more loaded one
_GAIN = 0.8
_LEAST = _WORTH / 4  # least load moved at once to a worker with work
# share of the mean load: with a larger lead, a worker gives away even its largest partition
_AHEAD = 0.1
_BASE = 1 / 8  # weight of an empty partition, as a share of the mean load: URLs may be added


def weights(waiting: Mapping[int, int], partitions: int) -> dict[int, float]:
    """Return the weight of each partition by its number of waiting URLs.

    A partition without a number gets the mean.
    """
    waiting_counts = [waiting[partition] for partition in waiting]
    mean = max(1.0, sum(waiting_counts) / len(waiting_counts)) if waiting_counts else 1.0
    return {
        partition: waiting.get(partition, mean) + _BASE * mean for partition in range(partitions)
    }


def distribute(
    free: Iterable[int], weight: Mapping[int, float], loads: Mapping[str, float]
) -> dict[str, set[int]]:
    """Give each free partition to the least loaded worker, heaviest first.

    `loads`: worker -> its current load.
    """
    now = dict(loads)
    shares: dict[str, set[int]] = {worker: set() for worker in loads}
    for partition in sorted(free, key=lambda each: (-weight[each], each)):
        worker = min(now, key=lambda each: (now[each], len(shares[each]), each))
        shares[worker].add(partition)
        now[worker] += weight[partition]
    return {worker: partitions for worker, partitions in shares.items() if partitions}


def moves(
    loads: Loads, without_work: Iterable[str] = (), done: Mapping[str, float] | None = None
) -> dict[int, str]:
    """Return partition -> new worker for the moves that balance the load.

    Empty if moves would gain too little. `done`: completed work of each worker, if that is balanced
    too. `without_work`: workers that get a partition whenever another has two with work.
    """
    held = {worker: dict(partitions) for worker, partitions in loads.items()}
    if len(held) < 2:
        return {}
    uneven = _UNEVEN if done is None else _UNEVEN_IN_ALL
    done = done or dict.fromkeys(held, 0.0)
    total = {worker: sum(partitions.values()) + done[worker] for worker, partitions in held.items()}
    mean = sum(total.values()) / len(total)
    empty = {worker for worker, partitions in held.items() if not partitions}
    starved = set(without_work) | empty
    if not starved and max(total.values()) < mean * uneven and min(total.values()) > mean / uneven:
        return {}
    moved: dict[int, str] = {}
    gained = dict.fromkeys(held, 0.0)
    taker = min(total, key=lambda worker: (total[worker], worker))
    last = _last(held, done, total[taker] + mean * _AHEAD)
    if last is not None:
        return {last: taker}
    while True:
        taker = min(total, key=lambda worker: (total[worker], worker))
        best_move = _best(held, total, taker, moved)
        if best_move is None or (
            total[taker] >= mean / _EVEN and max(total.values()) <= mean * _EVEN
        ):
            break
        donor, partition = best_move
        if taker not in empty and total[donor] - total[taker] < _WORTH:
            break
        weight = held[donor].pop(partition)
        held[taker][partition] = weight
        total[donor] -= weight
        total[taker] += weight
        gained[taker] += weight
        moved[partition] = taker
    # A worker that has done less than the others but has no more work is no reason to move
    # empty partitions.
    return {
        partition: taker
        for partition, taker in moved.items()
        if taker in empty or gained[taker] >= _LEAST
    }


def _last(
    held: Mapping[str, Mapping[int, float]], done: Mapping[str, float], enough: float
) -> int | None:
    """Return the heaviest partition of the worker with most completed work.

    None if no worker has completed more than `enough` and has a partition worth a move.
    """
    for donor in sorted(held, key=lambda worker: (-done[worker], worker)):
        choices = [partition for partition, weight in held[donor].items() if weight >= _WORTH]
        if done[donor] <= enough:
            return None
        if choices:
            return max(choices, key=lambda partition: (held[donor][partition], -partition))
    return None


def _best(
    held: Mapping[str, Mapping[int, float]],
    total: Mapping[str, float],
    taker: str,
    moved: Mapping[int, str],
) -> tuple[str, int] | None:
    """Return the best move to `taker`: the donor and the partition.

    The donor is the most loaded worker with a suitable partition; the move makes both loads as
    equal as possible.
    """
    for donor in sorted(total, key=lambda worker: (-total[worker], worker)):
        gap = total[donor] - total[taker]
        choices = [
            partition
            for partition, weight in held[donor].items()
            if 0 < weight < _GAIN * gap and partition not in moved
        ]
        if choices and len(held[donor]) > 1:
            return donor, min(
                choices, key=lambda partition: (abs(held[donor][partition] - gap / 2), partition)
            )
    return None
