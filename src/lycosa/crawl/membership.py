"""Messages between a worker and its coordinator, and the resulting lease.

A worker pings; the coordinator's reply has the partitions of the worker. Only the log is
authoritative: a reply is an assignment, ownership is a claim in the log. The lease ensures
politeness: a worker without replies stops fetching before its partitions can be assigned to
another.

Rules of a worker, so that no two workers ever fetch from a partition (the coordinator has others,
`lycosa.cluster.coordinator`):

- The valid answer is the one to the last sent of the answered pings; `Lease.answered` ignores a
  later answer to an earlier ping. A ping's `acknowledged`, `partitions`, `granted` and `added` are
  read together, after that.
- An exchange starts only while the lease is valid, in a partition of its answer; a claim is made
  only for `Lease.assigned_partitions`.
- `Ping.partitions` has the partitions that the worker holds or is about to claim, from before the
  claim is written until after the release.
- Grants are for one claim: under a new claim `Lease.granted` is 0 until an answer for that claim.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass


@dataclass(slots=True, frozen=True)
class Ping:
    """Status of a worker. Picklable. It may be older than the log."""

    worker: str  # unique per process: name of the slot, node, process ID and a random part
    node: str  # name of its machine in the engine
    claim: int = 0  # the log entry of its claim; 0: it has none
    partitions: frozenset[int] = (
        frozenset()
    )  # its partitions under that claim, or those that it is about to claim
    # log entry up to which it has read the log, and applied and committed all rows for its
    # partitions
    head: int = 0
    # nothing is due within `crawl.patience`, in flight, awaiting retry, uncommitted or to be walked
    # again
    idle: bool = False
    # collection -> pages that its claim may add, as last granted
    granted: Mapping[str, int] = field(default_factory=dict)
    # collection -> pages that its claim has added, uncommitted and in flight too
    added: Mapping[str, int] = field(default_factory=dict)
    # partition -> number of its known, waiting URLs: its load
    waiting: Mapping[int, int] = field(default_factory=dict)
    # for display (`lycosa.crawl.session.worker_status`)
    progress: Mapping[str, Any] = field(default_factory=dict)
    acknowledged: int = 0  # `Lease.acknowledged`: the number of the valid reply
    # its claim has replayed the readable exchanges that earlier claims archived in its partitions
    ready: bool = False
    # collection -> pages that its claim has committed (`Claim.counted`)
    committed: Mapping[str, int] = field(default_factory=dict)
    leaving: bool = False  # about to end: receives `stop` and no partitions
    fetched: int = 0  # pages that this process has fetched, under all its claims
    # all its seeds failed, and it is idle except for URLs that are due in more than 30 s
    seeds_failed: bool = False


@dataclass(slots=True, frozen=True)
class PingReply:
    """The instructions for a worker.

    If `partitions` differ from the held ones: stop, commit, release, then claim these.
    """

    partitions: frozenset[int] = frozenset()
    # collection -> pages that its claim may add in all; none: no budget
    granted: Mapping[str, int] = field(default_factory=dict)
    stop: bool = False  # commit, release, and end
    # another coordinator leads, or this one has no acknowledgement of the worker yet: not valid for
    # the lease, only `number` is
    lost: bool = False
    number: int = 0  # later answers have higher numbers, across coordinators
    claim: int = 0  # the claim of `granted`
    soon: bool = False  # a change is expected: ping again after a tenth of `ping_interval`
    # number of workers with work, which share a collection's and an address's connections equally
    among: int = 1


class Lease:
    """Whether a worker may start exchanges.

    It may within `hold_ms` of *sending* its last answered ping, by its own monotonic clock. All
    threads may read the lease; one thread pings.
    """

    def __init__(self, clock: Clock, hold_ms: int) -> None:
        self._clock = clock
        self._hold_ms = hold_ms
        self._until = -1
        self._sent = (-1, -1)  # of the ping with the valid reply: time, and number of the reply
        self.answer = PingReply()  # the valid reply; an empty one before the first
        # for `Ping.acknowledged`: read it before the other fields of the ping
        self.acknowledged = 0
        self._lock = threading.Lock()

    def sending(self) -> int:
        """Return the time of sending a ping (monotonic ms), for `answered`."""
        return self._clock.monotonic_ms()

    def answered(self, sent_ms: int, answer: PingReply) -> None:
        """Record the answer to a ping. Answers may arrive out of order."""
        with self._lock:
            if (sent_ms, answer.number) <= self._sent:
                return
            if answer.number:
                self._sent = (sent_ms, answer.number)
                self.acknowledged = answer.number
            if not answer.lost:
                self.answer = answer
                self._until = max(self._until, sent_ms + self._hold_ms)

    @property
    def holds(self) -> bool:
        """Whether an exchange may start; if not, those in flight must be aborted."""
        return self._clock.monotonic_ms() < self._until

    @property
    def assigned_partitions(self) -> frozenset[int] | None:
        """The partitions that the worker must hold; None without a valid lease.

        Without a valid lease the worker keeps its claim, makes no new one, and fetches nothing.
        """
        answer = self.answer
        if not self.holds:
            return None
        return frozenset() if answer.stop else answer.partitions

    def granted(self, claim: int) -> Mapping[str, int]:
        """Return collection -> pages that this claim may add in all.

        The number is 0 for collections with a budget until pages are granted to this claim.
        """
        answer = self.answer
        return (
            answer.granted if claim and answer.claim == claim else dict.fromkeys(answer.granted, 0)
        )
