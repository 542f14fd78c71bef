"""How a worker stands, as others ask about it from threads of their own: a picture that the worker's loop renews each second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lycosa.crawl.territory import Territory
from lycosa.frontier.directory import HostDirectory
from lycosa.frontier.frontier import Frontier


@dataclass(slots=True, frozen=True)
class Standing:
    """`idle` is true up to the log's entry `head`. `waiting`: known URLs by partition."""

    idle: bool = False
    head: int = 0
    waiting: dict[int, int] = field(default_factory=dict)


def waiting_by_partition(directory: HostDirectory, frontier: Frontier, territory: Territory) -> dict[int, int]:
    """Known URLs that wait in each held partition: resting hosts as the directory counts them, active ones as their rows do."""
    used = slice(0, len(directory))
    resting = np.where(directory.active[used], 0, directory.waiting[used])
    counts = np.bincount(directory.partition[used], weights=resting, minlength=territory.total).astype(np.int64)
    for queue in frontier.hosts.values():
        counts[queue.row.partition] += queue.row.known
    held = range(territory.total) if territory.held is None else territory.held
    return {partition: int(counts[partition]) for partition in held if counts[partition]}
