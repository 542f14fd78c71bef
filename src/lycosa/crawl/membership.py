"""What a worker and its coordinator tell each other, and the lease that comes of it.

A worker pings; the coordinator answers what the worker is to hold. Truth is in the log alone: an answer is an intention, a claim
is a fact. The lease is about politeness: a worker that hears nothing stops fetching before its partitions can be given to another.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lycosa.core.clock import Clock


@dataclass(slots=True, frozen=True)
class Ping:
    """How a worker fares. All of it may be picklable; none of it is trusted to be newer than the log."""

    worker: str  # one life of one worker process: its name, node, process and a random part
    node: str  # the machine it runs on, as the engine names it
    claim: int = 0  # the entry of its claim; 0: it holds none
    partitions: frozenset[int] = frozenset()  # what it holds under that claim
    head: int = 0  # up to this log entry it has read all, and everything there for its partitions is applied and committed
    idle: bool = False  # it has nothing due within `crawl.patience`, in flight, awaiting retry, uncommitted or to be walked again
    granted: Mapping[str, int] = field(default_factory=dict)  # collection -> pages that its claim may add, as it last heard
    added: Mapping[str, int] = field(default_factory=dict)  # collection -> pages that its claim has added, uncommitted ones too
    waiting: Mapping[int, int] = field(default_factory=dict)  # partition -> known URLs that wait there: its load
    progress: Mapping[str, Any] = field(default_factory=dict)  # for people: as `lycosa.app.live` says of one worker


@dataclass(slots=True, frozen=True)
class Answer:
    """What a worker is to do. Where `partitions` differ from what it holds: stop, commit, release, then claim these."""

    partitions: frozenset[int] = frozenset()
    granted: Mapping[str, int] = field(default_factory=dict)  # collection -> pages that its claim may add in all; none: no budget
    stop: bool = False  # commit, release, and end
    lost: bool = False  # another coordinator has taken over, or this one is not sure: does not count as an answer for the lease


class Lease:
    """Whether a worker may start exchanges: within `hold_ms` of *sending* its last answered ping, by its own monotonic clock.

    One thread pings, another fetches: both may ask.
    """

    def __init__(self, clock: Clock, hold_ms: int) -> None:
        self._clock = clock
        self._hold_ms = hold_ms
        self._until = -1
        self._lock = threading.Lock()

    def sending(self) -> int:
        """The time at which a ping is sent (monotonic ms); give it to `answered`."""
        return self._clock.monotonic_ms()

    def answered(self, sent_ms: int) -> None:
        """The ping sent then was answered. Answers may come out of order."""
        with self._lock:
            self._until = max(self._until, sent_ms + self._hold_ms)

    @property
    def holds(self) -> bool:
        """Whether an exchange may start now. When it does not, what is in flight must be aborted."""
        return self._clock.monotonic_ms() < self._until
