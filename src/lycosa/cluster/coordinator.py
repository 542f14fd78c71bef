"""Assigns partitions to workers. Pure logic over pings, a view of the log and a clock.

All state can be rebuilt from the log and the pings, so a restarted coordinator takes over without
further data: each `Ping` reports the partitions that a worker holds or is about to claim.
Guarantees, together with `lycosa.store.coordination.leadership` and `lycosa.crawl.membership`:

- **A partition has one owner.** It is reassigned only after one of these events for each worker
  that might hold it. Either a ping that acknowledges a later reply than the last one with this
  partition reports that the worker does not hold it. Or the worker has been silent for `reassign`
  since its last answered ping. Or it is a process of this machine that has certainly ended.
- **Reports of a worker count once it has acknowledged a number of this coordinator.** Until then
  the reply is `lost`. So all its reports were sent after the last reply of the former coordinator.
- **A new coordinator moves nothing at first**: partitions are reassigned only `reassign` after its
  start.
- **A living claim is never superseded**: a claim is lost as a whole when another takes part of it.

A crawl ends when all partitions are held, all their workers reported that they are idle at the same
entry, and it is still the head of the log when the log is read again
(docs/explanation/protocol.md); or when a page quota is committed in full; or on request.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lycosa.cluster.member_state import MemberState
from lycosa.cluster.placement import distribute, moves, weights
from lycosa.cluster.quota_leases import PageBudget, QuotaLeases
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import Clock
from lycosa.crawl.membership import Ping, PingReply
from lycosa.store.coordination.leadership import Leadership
from lycosa.store.log.entry import Entry
from lycosa.store.log.state import LogState

SETTLE_MS = 10_000
"""Maximum wait for the expected workers before partitions are assigned for the first time."""

_MOVES_APART = 4
"""The next rebalancing follows after a quarter of the time since the first assignment: early on
loads are uncertain and moves are cheap.
"""

_NUMBERS = 10**9  # replies in one epoch
_ADVANCES = 10
"""Maximum placements per ping interval apart from ticks, to limit the cost."""


@dataclass(slots=True, frozen=True)
class CoordinatorPlan:
    """Settings of a cluster. `expected`: number of workers; `ends`: stop when all are idle."""

    expected: int = 1
    budgets: Sequence[PageBudget] = ()
    ends: bool = False


class Coordinator:
    """Assigns partitions and page quotas to workers, see the module.

    `ping` may be called from any thread and never reads storage. Call `tick` from one thread,
    several times a second.
    """

    def __init__(
        self,
        state: LogState,
        partitions: int,
        settings: ClusterSettings,
        clock: Clock,
        leadership: Leadership,
        plan: CoordinatorPlan,
    ) -> None:
        self._state = state
        self._partitions = partitions
        self._settings = settings
        self._clock = clock
        self._leadership = leadership
        self._expected = plan.expected
        self._ends = plan.ends
        self._lock = threading.Lock()
        self._number = leadership.epoch * _NUMBERS
        self._assigns_from = leadership.assigns_from
        self._advanced_at = clock.monotonic_ms()
        self._distributed = not leadership.clean  # else workers have had `reassign` to report
        self._first_join: int | None = None
        self._distributed_at = clock.monotonic_ms()
        self._next_move = 0
        # partition that is being moved -> its next owner, and since when
        self._reserved: dict[int, tuple[str, int]] = {}
        self._loads: dict[int, int] = {}
        self._quotas = QuotaLeases(plan.budgets, partitions)
        self.members: dict[str, MemberState] = {}
        self._has_pages = False  # any worker has fetched one
        self._working = 0  # members with something to fetch
        self.head = 0
        self.holders: dict[int, int] = {}
        self.ended = ""  # reason to stop: finished, max_pages, or the argument of `stop`
        self._read(self._state.refresh())

    # -- reports of workers and the engine
    # ------------------------------------------------------------

    def ping(self, ping: Ping) -> PingReply:
        """Record a report and return the assignment.

        Only the number of a `lost` reply is valid.
        """
        with self._lock:
            now = self._clock.monotonic_ms()
            if not self._leadership.holds or now < self._leadership.answers_from:
                return PingReply(lost=True, soon=True)
            self._number += 1
            if ping.acknowledged // _NUMBERS != self._leadership.epoch:
                return PingReply(lost=True, number=self._number, soon=True)
            member = self._record_ping(ping, now)
            if now - self._advanced_at >= self._settings.ping_interval // _ADVANCES:
                self._advance(now)
            return self._answer(member)

    def worker_died(self, worker: str, certain: bool = False) -> None:
        """Record that a worker is dead. Its partitions wait for `reassign` unless `certain`."""
        with self._lock:
            member = self.members.get(worker)
            if member is not None:
                member.mark_dead()
                self._dismiss(member)
                if certain:
                    self._forget(member)

    def stop(self, reason: str) -> None:
        """Have every worker commit, release and end."""
        with self._lock:
            self.ended = self.ended or reason

    @property
    def done(self) -> bool:
        """Whether all workers have been stopped and no partition is held."""
        with self._lock:
            return bool(self.ended) and all(
                each.dead or not (each.exposed or each.ping.claim) for each in self.members.values()
            )

    def status(self) -> dict[str, Any]:
        """Return the state of workers and partitions for `run/cluster.json`."""
        with self._lock:
            now = self._clock.monotonic_ms()
            return {
                "log_head": self.head,
                "ended": bool(self.ended),
                "workers": [
                    {
                        "worker": each.worker,
                        "node": each.node,
                        "claim": each.ping.claim,
                        "partitions": len(each.ping.partitions),
                        "idle": each.ping.idle,
                        "last_ping_ms_ago": now - each.answered_at,
                        "lag_entries": max(0, self.head - each.ping.head) if each.ping.claim else 0,
                        "waiting": sum(each.ping.waiting.values()),
                        "progress": dict(each.ping.progress),
                    }
                    for each in sorted(self.members.values(), key=lambda each: each.worker)
                ],
                "unassigned": self._partitions
                - len(set().union(*(each.assigned for each in self.members.values()))),
                "partitions": self._partitions,
                "granted": self._quotas.granted(),
            }

    # -- time
    # ------------------------------------------------------------

    def tick(self) -> None:
        """Read new log entries and reassign partitions. May be retried after an error."""
        with self._lock:
            self._quotas.before_reading()
        before = self._state.head
        entries = self._state.catch_up()
        changed = self._state.head != before
        with self._lock:
            # Workers that are idle were so before this reading of the log; if it has no new entry,
            # no work is in transit.
            finished = self._ends and not changed and self._all_idle()
            self._read(entries)
            if finished and self._leadership.holds:
                self.ended = self.ended or "finished"
            self._advance(self._clock.monotonic_ms())

    def _read(self, entries: Sequence[Entry]) -> None:
        state = self._state
        self.head, self.holders = state.head, dict(state.holders)
        if not self._quotas:
            return
        self._quotas.read(entries, state.counters, state.holders)
        if self._quotas.used_up() and self._ends:
            self.ended = self.ended or "max_pages"

    def _advance(self, now: int) -> None:
        """Remove silent workers, then place partitions. `now`: monotonic ms."""
        if not self._leadership.holds or now - self._advanced_at > self._settings.hold // 2:
            # This process was suspended: living workers need time to report.
            self._assigns_from = max(self._assigns_from, now + self._settings.hold)
        self._advanced_at = now
        self._working = sum(each.working for each in self.members.values())
        for member in [
            each
            for each in self.members.values()
            if now - each.answered_at >= self._settings.reassign
        ]:
            self._dismiss(member)
            self._forget(member)
        if not self.ended and self._leadership.holds and now >= self._assigns_from:
            self._place(now)

    # -- members
    # ------------------------------------------------------------

    def _record_ping(self, ping: Ping, now: int) -> MemberState:
        member = self.members.get(ping.worker)
        if member is None:
            if self._first_join is None:
                self._first_join = now
            member = self.members[ping.worker] = MemberState(ping.worker, ping.node, ping, now)
            free = (each for each in ping.partitions if not self._is_occupied(each, ping.worker))
            member.assign(set(free))
            self._restart_counts()
        member.answer(now)
        for partition in ping.partitions:
            member.exposed.setdefault(partition, 0)
        for partition, number in list(member.exposed.items()):
            if (
                partition not in member.assigned
                and partition not in ping.partitions
                and ping.acknowledged > number
            ):
                del member.exposed[partition]
        if ping.acknowledged >= member.ping.acknowledged:
            if member.ping.claim != ping.claim:
                self._quotas.end(member.ping.claim)
            member.record(ping)
            self._quotas.record_usage(ping)
            self._has_pages = self._has_pages or ping.fetched > 0
            if ping.claim and (ping.ready or ping.waiting):
                self._loads.update(
                    {partition: ping.waiting.get(partition, 0) for partition in ping.partitions}
                )
        if ping.leaving:
            self._dismiss(member)
        return member

    def _answer(self, member: MemberState) -> PingReply:
        stop = bool(self.ended) or (member.ping.leaving and not member.dead)
        if stop:
            self._dismiss(member)
        for partition in member.assigned:
            member.exposed[partition] = self._number
        waits = any(taker == member.worker for taker, _ in self._reserved.values())
        return PingReply(
            partitions=frozenset(member.assigned),
            granted=self._quotas.answer(member.ping.claim, self._number),
            stop=stop,
            number=self._number,
            claim=member.ping.claim,
            among=max(1, self._working + (not member.working)),
            soon=not stop
            and (
                waits
                or not (self._distributed and member.settled)
                or (bool(self._quotas) and not member.ping.ready)
                or (self._ends and self._is_idle(member))  # the crawl may be about to end
            ),
        )

    def _forget(self, member: MemberState) -> None:
        """Remove a worker; its partitions become free."""
        self._quotas.end(member.ping.claim)
        del self.members[member.worker]
        self._restart_counts()

    def _dismiss(self, member: MemberState) -> None:
        """Withdraw all assignments and reservations of a worker."""
        member.assigned.clear()
        self._reserved = {
            partition: (taker, since)
            for partition, (taker, since) in self._reserved.items()
            if taker != member.worker
        }

    def _is_occupied(self, partition: int, but: str) -> bool:
        """Return whether another worker might hold a partition, or is assigned to it."""
        return partition in self._reserved or any(
            partition in each.exposed or partition in each.assigned
            for each in self.members.values()
            if each.worker != but
        )

    def _all_idle(self) -> bool:
        """Return whether every partition is held by a worker that is idle at the log's head."""
        claims = {
            each.ping.claim: each
            for each in self.members.values()
            if each.settled and not each.dead
        }
        for partition in range(self._partitions):
            member = claims.get(self.holders.get(partition, -1))
            if (
                member is None
                or partition not in member.ping.partitions
                or not (self._is_idle(member) and member.ping.head == self.head)
            ):
                return False
        return True

    def _is_idle(self, member: MemberState) -> bool:
        return member.ping.idle or (member.ping.seeds_failed and not self._has_pages)

    def _restart_counts(self) -> None:
        """Restart the fetch counts that balancing compares; a new worker need not catch up."""
        for each in self.members.values():
            each.mark_fetched()

    # -- placement
    # ------------------------------------------------------------

    def _place(self, now: int) -> None:
        active = {
            each.worker: each
            for each in self.members.values()
            if not each.dead
            and not each.ping.leaving
            and now - each.answered_at < self._settings.hold
        }
        if not active:
            return
        if not self._distributed:
            first = self._first_join if self._first_join is not None else now
            if len(active) < self._expected and now - first < SETTLE_MS:
                return
            self._distributed, self._distributed_at = True, now
        self._deliver(active, now)
        occupied = set(self._reserved).union(
            *(each.exposed.keys() | each.assigned for each in self.members.values())
        )
        if len(occupied) < self._partitions:
            free = [partition for partition in range(self._partitions) if partition not in occupied]
            weight = weights(self._loads, self._partitions)
            loads = {
                worker: sum(weight[partition] for partition in self._future(worker))
                for worker in active
            }
            for worker, partitions in distribute(free, weight, loads).items():
                active[worker].assigned |= partitions
        self._balance(active, now)

    def _deliver(self, active: dict[str, MemberState], now: int) -> None:
        """Assign moved partitions that their former owners have released.

        A worker gets all of its partitions at once; after `hold`, those that are free.
        """
        for worker in {taker for taker, _ in self._reserved.values()}:
            mine = {
                partition: since
                for partition, (taker, since) in self._reserved.items()
                if taker == worker
            }
            clear = {
                partition
                for partition in mine
                if not any(partition in each.exposed for each in self.members.values())
            }
            if (
                clear
                and worker in active
                and (len(clear) == len(mine) or now - min(mine.values()) >= self._settings.hold)
            ):
                active[worker].assigned |= clear
                for partition in clear:
                    del self._reserved[partition]

    def _balance(self, active: dict[str, MemberState], now: int) -> None:
        """Move partitions to even out loads, once all workers have followed their assignments."""
        if self._reserved or not all(each.settled for each in active.values()):
            return
        empty = [worker for worker, each in active.items() if not each.assigned]
        without_work = [worker for worker, each in active.items() if each.ping.idle]
        if now < self._next_move and not empty:
            return
        weight = weights(self._loads, self._partitions)
        loads = {
            worker: {partition: weight[partition] for partition in each.assigned}
            for worker, each in active.items()
        }
        done = (
            {
                worker: float(each.ping.fetched - each.fetched_before)
                for worker, each in active.items()
            }
            if self._ends
            else None
        )
        chosen = moves(
            loads, [*empty, *without_work] if len(without_work) < len(active) else empty, done
        )
        if not chosen:
            return
        longest = self._settings.hold if without_work else 2 * self._settings.hold
        self._next_move = now + min(
            max((now - self._distributed_at) // _MOVES_APART, 2 * self._settings.ping_interval),
            longest,
        )
        for partition, taker in chosen.items():
            for each in active.values():
                each.assigned.discard(partition)
            self._reserved[partition] = (taker, now)

    def _future(self, worker: str) -> set[int]:
        """Return the partitions of a worker after all moves."""
        return self.members[worker].assigned | {
            partition for partition, (taker, _) in self._reserved.items() if taker == worker
        }
