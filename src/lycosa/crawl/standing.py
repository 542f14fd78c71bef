"""How a worker stands, as others ask about it from threads of their own: a picture that the worker's loop renews each second."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lycosa.crawl.ledger import Ledger
from lycosa.crawl.territory import Territory
from lycosa.frontier.directory import HostDirectory
from lycosa.frontier.frontier import Frontier

_COUNT_MS, _COUNT_SHARE = 1_000, 50  # what waits is counted so often, and takes at most that part of the time


@dataclass(slots=True, frozen=True)
class Standing:
    """`idle` is true up to the log's entry `head`. `waiting`: known URLs by partition."""

    idle: bool = False
    head: int = 0
    waiting: dict[int, int] = field(default_factory=dict)


class Standings:
    """Keeps the latest picture, which any thread may read."""

    def __init__(self, ledger: Ledger) -> None:
        self.latest = Standing()
        self._ledger = ledger
        self._next_count = 0

    def renew(self, *, idle: bool, head: int) -> None:
        """Everything up to entry `head` is applied."""
        ledger, clock = self._ledger, self._ledger.clock
        now = clock.monotonic_ms()
        waiting = self.latest.waiting
        if now >= self._next_count:
            waiting = waiting_by_partition(ledger.reserve.directory, ledger.frontier, ledger.territory)
            self._next_count = now + _COUNT_MS + _COUNT_SHARE * (clock.monotonic_ms() - now)
        self.latest = Standing(idle, head, waiting)


def waiting_by_partition(directory: HostDirectory, frontier: Frontier, territory: Territory) -> dict[int, int]:
    """Known URLs that wait in each held partition: resting hosts as the directory counts them, active ones as their rows do."""
    used = slice(0, len(directory))
    resting = np.where(directory.active[used], 0, directory.waiting[used])
    counts = np.bincount(directory.partition[used], weights=resting, minlength=territory.total).astype(np.int64)
    for queue in frontier.hosts.values():
        counts[queue.row.partition] += queue.row.known
    held = range(territory.total) if territory.held is None else territory.held
    return {partition: int(counts[partition]) for partition in held if counts[partition]}
