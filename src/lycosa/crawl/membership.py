"""Messages between a worker and its coordinator, and the resulting lease.

A worker pings; the coordinator's reply has the partitions of the worker. Only the log is
authoritative: a reply is an intention, a claim is a fact. The lease ensures politeness: a worker
without replies stops fetching before its partitions can be assigned to another.

Rules of a worker, so that no two workers ever fetch from a partition (the coordinator has others,
`lycosa.cluster.coordinator`):

- It acts by the answer to the ping that it sent last, of those that were answered; an answer to an
  earlier ping that comes later is ignored (by `Lease.answered`). A ping's `acknowledged`,
  `partitions`, `granted` and `added` are read together, after that.
- An exchange starts only while the lease holds, in a partition that its answer names; a claim is
  made only for `Lease.assigned_partitions`.
- `Ping.partitions` names what it holds and what it is about to claim, from before the claim is
  written until after the release.
- Grants are of one claim: under a new claim `Lease.granted` is 0 until an answer names that claim.
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
    """Status of a worker.

    All of it may be picklable; none of it is trusted to be newer than the log.
    """

    worker: str  # one life of one worker process: its name, node, process and a random part
    node: str  # the machine it runs on, as the engine names it
    claim: int = 0  # the entry of its claim; 0: it holds none
    partitions: frozenset[int] = (
        frozenset()
    )  # its partitions under that claim, or those that it is about to claim
    # up to this log entry it has read all, and everything there for its partitions is applied and
    # committed
    head: int = 0
    # it has nothing due within `crawl.patience`, in flight, awaiting retry, uncommitted or to be
    # walked again
    idle: bool = False
    # collection -> pages that its claim may add, as last granted
    granted: Mapping[str, int] = field(default_factory=dict)
    # collection -> pages that its claim has added, uncommitted and in flight too
    added: Mapping[str, int] = field(default_factory=dict)
    # partition -> known URLs that wait there: its load
    waiting: Mapping[int, int] = field(default_factory=dict)
    # for display (`lycosa.crawl.session.worker_status`)
    progress: Mapping[str, Any] = field(default_factory=dict)
    acknowledged: int = 0  # `Lease.acknowledged`: the number of the reply in force
    # its claim has replayed what earlier claims had archived in its partitions, as far as
    # possible
    ready: bool = False
    # collection -> pages that its claim has committed (`Claim.counted`)
    committed: Mapping[str, int] = field(default_factory=dict)
    leaving: bool = False  # about to end: receives `stop` and gets no partitions
    fetched: int = 0  # pages that this life of the worker has fetched, under all its claims


@dataclass(slots=True, frozen=True)
class PingReply:
    """What a worker is to do. Where `partitions` differ from what it holds: stop, commit, release,
    then claim these.
    """

    partitions: frozenset[int] = frozenset()
    # collection -> pages that its claim may add in all; none: no budget
    granted: Mapping[str, int] = field(default_factory=dict)
    stop: bool = False  # commit, release, and end
    # another coordinator leads, or this one does not know the worker yet: not valid for the lease,
    # only `number` counts
    lost: bool = False
    number: int = 0  # later answers have higher ones, whichever coordinator gave them
    claim: int = 0  # the claim that `granted` is for
    soon: bool = False  # more is to come: ping again at once, in a tenth of `ping_interval`
    # workers that have something to do: each may use this part of a collection's and of an
    # address's connections
    among: int = 1


class Lease:
    """Whether a worker may start exchanges: within `hold_ms` of *sending* its last answered ping,
    by its own monotonic clock.

    One thread pings, others fetch and claim: all may ask.
    """

    def __init__(self, clock: Clock, hold_ms: int) -> None:
        self._clock = clock
        self._hold_ms = hold_ms
        self._until = -1
        self._sent = (-1, -1)  # of the ping with the valid reply: time, and number of the reply
        self.answer = PingReply()  # in force; an empty one before the first
        # for `Ping.acknowledged`: read it before the other fields of the ping
        self.acknowledged = 0
        self._lock = threading.Lock()

    def sending(self) -> int:
        """Return the time at which a ping is sent (monotonic ms), for `answered`."""
        return self._clock.monotonic_ms()

    def answered(self, sent_ms: int, answer: PingReply) -> None:
        """Record the answer to a ping. Answers may come out of order."""
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
        """Whether an exchange may start now. When it does not, what is in flight must be
        aborted.
        """
        return self._clock.monotonic_ms() < self._until

    @property
    def assigned_partitions(self) -> frozenset[int] | None:
        """The partitions that the worker must hold. None while the lease is invalid: it keeps its
        claim, makes no new one, and fetches nothing.
        """
        answer = self.answer
        if not self.holds:
            return None
        return frozenset() if answer.stop else answer.partitions

    def granted(self, claim: int) -> Mapping[str, int]:
        """Collection -> pages that this claim may add in all; 0 for those that have a budget while
        none was granted to this claim.
        """
        answer = self.answer
        return (
            answer.granted if claim and answer.claim == claim else dict.fromkeys(answer.granted, 0)
        )
