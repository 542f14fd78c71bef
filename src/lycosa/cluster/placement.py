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
"""Worker -> partition -> weight, of the partitions that it is to hold."""

_UNEVEN = 1.25
"""Nothing is moved while the fullest worker has less than this many times the mean, and the
emptiest more than the mean over this.
"""

_UNEVEN_IN_ALL = 1.12  # the same where completed work counts: it cannot be rebalanced
# a rebalancing that has begun continues down to this
_EVEN = 1.08
_WORTH = 100  # difference in waiting URLs below which nothing moves to a worker with work
# share of the difference of two workers: more would only make the receiver the fuller one
_GAIN = 0.8
_LEAST = _WORTH / 4  # least load moved at once to a worker with work
# share of the mean: beyond this lead a worker gives away even a partition that cannot be
# divided
_AHEAD = 0.1
_BASE = 1 / 8  # of the mean load: an empty partition weighs so much, since it may fill


def weights(waiting: Mapping[int, int], partitions: int) -> dict[int, float]:
    """Return the weight of each partition by its waiting URLs; a partition without figures has the
    mean.
    """
    waiting_counts = [waiting[partition] for partition in waiting]
    mean = max(1.0, sum(waiting_counts) / len(waiting_counts)) if waiting_counts else 1.0
    return {
        partition: waiting.get(partition, mean) + _BASE * mean for partition in range(partitions)
    }


def deal(
    free: Iterable[int], weight: Mapping[int, float], loads: Mapping[str, float]
) -> dict[str, set[int]]:
    """Give each free partition to the worker that is least loaded then, the heaviest first.
    `loads`: worker -> what it has now.
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
    """Return which partitions should move to which worker, to balance the load; none if that gains
    too little.

    `done`: what each worker has done already, if that is balanced too. `without_work`: workers that
    get a partition whenever another has two with work.
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
    """Return the heaviest partition of the worker that has done most, if that is more than `enough`
    and the move gains enough.
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
    """Return the partition of the most loaded worker whose move makes it and the receiver most
    equal.
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
