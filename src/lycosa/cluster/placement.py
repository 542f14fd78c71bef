"""Who is to hold which partition: the least loaded first, with few moves. Pure functions over
loads.

A move costs two workers a few seconds (stop, commit, release, claim, load), so it must be worth
that.

A crawl that ends is shared out by what each worker has done and what waits for it, together. How
large a site is shows only while it is fetched, and one host is asked for a page at a time: what
waits says little at first, and whoever holds the largest site to its end does too much whatever
else it gives away. So it gives that away too, once it has done more than another will ever have
done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Loads = Mapping[str, Mapping[int, float]]
"""Worker -> partition -> weight, of those it is to hold."""

_UNEVEN = 1.25
"""Nobody is moved while the fullest worker has less than this many times the mean, and the emptiest
more than the mean over this.
"""

_UNEVEN_IN_ALL = 1.12  # the same where what was done counts, too, and can never be made good again
# a rebalancing that has begun goes on until this; some 15 % of the mean were asked for
_EVEN = 1.08
_WORTH = 100  # waiting URLs of difference, below which nothing is moved to who has something
# of the difference of two workers: what weighs more would only make the taker the fuller one of the
# two
_GAIN = 0.8
_LEAST = _WORTH / 4  # of what a worker that has something is given at once
# of the mean: who has done so much more than another will have done gives it even what it cannot
# share
_AHEAD = 0.1
_BASE = 1 / 8  # of the mean load: an empty partition weighs so much, since it may fill


def weights(waiting: Mapping[int, int], partitions: int) -> dict[int, float]:
    """The weight of each partition by the URLs that wait there; one of which nothing is known
    weighs as much as the mean.
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
    loads: Loads, hungry: Iterable[str] = (), done: Mapping[str, float] | None = None
) -> dict[int, str]:
    """Which partitions are to go to which worker so that loads become even; none where it is not
    worth it.

    `done`: what each worker has done already, where that is to come out even together with what is
    to come. `hungry`: workers that have nothing to do; they get something whenever another has two
    partitions with work.
    """
    held = {worker: dict(partitions) for worker, partitions in loads.items()}
    if len(held) < 2:
        return {}
    uneven = _UNEVEN if done is None else _UNEVEN_IN_ALL
    done = done or dict.fromkeys(held, 0.0)
    total = {worker: sum(partitions.values()) + done[worker] for worker, partitions in held.items()}
    mean = sum(total.values()) / len(total)
    empty = {worker for worker, partitions in held.items() if not partitions}
    starved = set(hungry) | empty
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
    # Who has done less than the others and finds nothing left to do is no reason to hand empty
    # partitions over.
    return {
        partition: taker
        for partition, taker in moved.items()
        if taker in empty or gained[taker] >= _LEAST
    }


def _last(
    held: Mapping[str, Mapping[int, float]], done: Mapping[str, float], enough: float
) -> int | None:
    """Of the worker that has done most, if that is more than `enough`: its heaviest partition, if
    that is worth a move.
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
    """Of the fullest worker that can give something: what makes it and the taker most equal."""
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
