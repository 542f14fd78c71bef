"""The coordinator: which worker is to hold which partitions. Pure logic over pings, a view of the
log, and a clock.

It has no state that the log and the pings cannot give back: one that is killed is followed by one
that asks (`Ping` says what a worker holds, or is about to claim). What it promises, with
`lycosa.store.coordination.leadership` and `lycosa.crawl.membership`:

- **No partition is told to two.** A partition goes to another only when everybody who might hold it
  either said that it does not, in a ping by an answer later than the last one that told it to, or
  was silent for `reassign` since its last answered ping, or is a process of this machine that has
  certainly ended.
- **A worker is believed once it has heard a number of this life.** Until then it is answered
  `lost`. So what it says it says after the former coordinator fell silent.
- **What a worker holds it keeps**, when the coordinator is another: partitions go to others only
  `reassign` after its start.
- **A living claim is never outranked**: a claim is lost as a whole when another takes part of it.

A crawl ends when all partitions are held, all their workers said that they are idle at the same
entry, and it is the log's head still when the log is read again (docs/protocol.md); or when a
page quota is committed in full; or on request.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lycosa.cluster.member_state import MemberState
from lycosa.cluster.placement import deal, moves, weights
from lycosa.cluster.quota_leases import Grants, PageBudget
from lycosa.config.settings import ClusterSettings
from lycosa.core.clock import Clock
from lycosa.crawl.membership import Ping, PingReply
from lycosa.store.coordination.leadership import Leadership
from lycosa.store.log.entry import Entry
from lycosa.store.log.log import EntriesGone
from lycosa.store.log.state import LogState

SETTLE_MS = 10_000
"""How long the first workers wait for those that are expected, before the partitions are dealt."""

_MOVES_APART = 4
"""Partitions are moved again when a quarter more time has passed: at first little is known, and a
hand-over costs little.
"""

_NUMBERS = 10**9  # of answers in one epoch


@dataclass(slots=True, frozen=True)
class CoordinatorPlan:
    """What a cluster is to do. `expected`: number of workers; `ends`: stop when all are idle."""

    expected: int = 1
    budgets: Sequence[PageBudget] = ()
    ends: bool = False
    settle_ms: int = SETTLE_MS


class Coordinator:
    """`ping` may be called from any threads, and never touches storage; `tick` from one, every
    fraction of a second.
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
        self._settle_ms = plan.settle_ms
        self._lock = threading.Lock()
        self._number = leadership.epoch * _NUMBERS
        self._gives_from = leadership.assigns_from
        self._advanced_at = clock.monotonic_ms()
        self._dealt = not leadership.clean  # whoever is there had `reassign` to say so
        self._first_join: int | None = None
        self._dealt_at = clock.monotonic_ms()
        self._next_move = 0
        # partition on its way -> its taker, and since when
        self._reserved: dict[int, tuple[str, int]] = {}
        self._loads: dict[int, int] = {}
        self._grants = Grants(plan.budgets, partitions)
        self.members: dict[str, MemberState] = {}
        self.head = 0
        self.holders: dict[int, int] = {}
        self.ended = ""  # why all are told to stop: finished, max_pages, or what `stop` was given
        self._read(self._state.refresh())

    # -- what workers and the engine say
    # ------------------------------------------------------------

    def ping(self, ping: Ping) -> PingReply:
        """What this worker is to do. An answer that is `lost` counts for nothing but its number."""
        with self._lock:
            now = self._clock.monotonic_ms()
            if not self._leadership.holds or now < self._leadership.answers_from:
                return PingReply(lost=True, soon=True)
            self._number += 1
            if ping.acknowledged // _NUMBERS != self._leadership.epoch:
                return PingReply(lost=True, number=self._number, soon=True)
            member = self._record_ping(ping, now)
            self._advance(now)
            return self._answer(member)

    def gone(self, worker: str, certain: bool = False) -> None:
        """The engine says that a worker's process is dead. Its partitions wait for `reassign`
        unless that is certain.
        """
        with self._lock:
            member = self.members.get(worker)
            if member is not None:
                member.die()
                self._dismiss(member)
                if certain:
                    self._forget(member)

    def stop(self, reason: str) -> None:
        """Have every worker commit, release and end."""
        with self._lock:
            self.ended = self.ended or reason

    @property
    def done(self) -> bool:
        """Whether all were told to stop, and nobody holds anything any more."""
        with self._lock:
            return bool(self.ended) and all(
                each.gone or not (each.exposed or each.ping.claim) for each in self.members.values()
            )

    def status(self) -> dict[str, Any]:
        """What `run/cluster.json` says of workers and partitions."""
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
                "unassigned": sum(
                    not any(partition in each.assigned for each in self.members.values())
                    for partition in range(self._partitions)
                ),
                "partitions": self._partitions,
                "granted": self._grants.granted(),
            }

    # -- time
    # ------------------------------------------------------------

    def tick(self) -> None:
        """Read the log on, and do what is due. Raises what reading the log raises; call it
        again.
        """
        with self._lock:
            self._grants.before_reading()
        news = True
        try:
            entries = self._state.refresh()
            news = bool(entries)
        except EntriesGone:  # we slept for days
            self._state = LogState(self._state.log)
            entries = self._state.refresh()
        with self._lock:
            # Whoever is idle was so before this reading of the log: if it brought nothing new,
            # nothing is under way.
            finished = self._ends and not news and self._all_idle()
            self._read(entries)
            if finished and self._leadership.holds:
                self.ended = self.ended or "finished"
            self._advance(self._clock.monotonic_ms())

    def _read(self, entries: Sequence[Entry]) -> None:
        state = self._state
        self.head, self.holders = state.head, dict(state.holders)
        if not self._grants:
            return
        self._grants.read(entries, state.counters, state.holders)
        if self._grants.used_up() and self._ends:
            self.ended = self.ended or "max_pages"

    def _advance(self, now: int) -> None:
        """Do what is due at `now`."""
        if not self._leadership.holds or now - self._advanced_at > self._settings.hold // 2:
            # We were silent, or slept: who is alive has to have time to say so.
            self._gives_from = max(self._gives_from, now + self._settings.hold)
        self._advanced_at = now
        for member in [
            each
            for each in self.members.values()
            if now - each.answered_at >= self._settings.reassign
        ]:
            self._dismiss(member)
            self._forget(member)
        if not self.ended and self._leadership.holds and now >= self._gives_from:
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
            self._begin_anew()
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
                self._grants.end(member.ping.claim)
            member.record(ping)
            self._grants.record_usage(ping)
            if ping.claim and (ping.ready or ping.waiting):
                self._loads.update(
                    {partition: ping.waiting.get(partition, 0) for partition in ping.partitions}
                )
        if ping.leaving:
            self._dismiss(member)
        return member

    def _answer(self, member: MemberState) -> PingReply:
        stop = bool(self.ended) or (member.ping.leaving and not member.gone)
        if stop:
            self._dismiss(member)
        for partition in member.assigned:
            member.exposed[partition] = self._number
        waits = any(taker == member.worker for taker, _ in self._reserved.values())
        return PingReply(
            partitions=frozenset(member.assigned),
            granted=self._grants.answer(member.ping.claim, self._number),
            stop=stop,
            number=self._number,
            claim=member.ping.claim,
            among=1
            + sum(
                1
                for each in self.members.values()
                if each is not member and each.ping.claim and not (each.ping.idle or each.gone)
            ),
            soon=not stop
            and (
                waits
                or not (self._dealt and member.settled)
                or (bool(self._grants) and not member.ping.ready)
                or (self._ends and member.ping.idle)  # the crawl is perhaps about to end
            ),
        )

    def _forget(self, member: MemberState) -> None:
        """It acts on nothing any more: what it might hold is free."""
        self._grants.end(member.ping.claim)
        del self.members[member.worker]
        self._begin_anew()

    def _dismiss(self, member: MemberState) -> None:
        """It is to hold nothing."""
        member.assigned.clear()
        self._reserved = {
            partition: (taker, since)
            for partition, (taker, since) in self._reserved.items()
            if taker != member.worker
        }

    def _is_occupied(self, partition: int, but: str) -> bool:
        """Whether somebody else might hold a partition, or is to hold it."""
        return partition in self._reserved or any(
            partition in each.exposed or partition in each.assigned
            for each in self.members.values()
            if each.worker != but
        )

    def _all_idle(self) -> bool:
        """Whether every partition is held by a worker that was idle at the log's head, as the last
        view showed it.
        """
        claims = {
            each.ping.claim: each
            for each in self.members.values()
            if each.settled and not each.gone
        }
        for partition in range(self._partitions):
            member = claims.get(self.holders.get(partition, -1))
            if (
                member is None
                or partition not in member.ping.partitions
                or not (member.ping.idle and member.ping.head == self.head)
            ):
                return False
        return True

    def _begin_anew(self) -> None:
        """Somebody came or went: what is fetched from now on is to come out even. A newcomer need
        not make good what others did before.
        """
        for each in self.members.values():
            each.mark_fetched()

    # -- placement
    # ------------------------------------------------------------

    def _place(self, now: int) -> None:
        active = {
            each.worker: each
            for each in self.members.values()
            if not each.gone
            and not each.ping.leaving
            and now - each.answered_at < self._settings.hold
        }
        if not active:
            return
        if not self._dealt:
            first = self._first_join if self._first_join is not None else now
            if len(active) < self._expected and now - first < self._settle_ms:
                return
            self._dealt, self._dealt_at = True, now
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
            for worker, partitions in deal(free, weight, loads).items():
                active[worker].assigned |= partitions
        self._balance(active, now)

    def _deliver(self, active: dict[str, MemberState], now: int) -> None:
        """Give what was on its way to those who were to get it, all at once unless some of it takes
        long.
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
        """Move partitions where that is worth it, when everybody has done what it was told."""
        if self._reserved or not all(each.settled for each in active.values()):
            return
        empty = [worker for worker, each in active.items() if not each.assigned]
        hungry = [worker for worker, each in active.items() if each.ping.idle]
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
        chosen = moves(loads, [*empty, *hungry] if len(hungry) < len(active) else empty, done)
        if not chosen:
            return
        longest = self._settings.hold if hungry else 2 * self._settings.hold
        self._next_move = now + min(
            max((now - self._dealt_at) // _MOVES_APART, 2 * self._settings.ping_interval), longest
        )
        for partition, taker in chosen.items():
            for each in active.values():
                each.assigned.discard(partition)
            self._reserved[partition] = (taker, now)

    def _future(self, worker: str) -> set[int]:
        """What a worker is to hold when everything on its way has arrived."""
        return self.members[worker].assigned | {
            partition for partition, (taker, _) in self._reserved.items() if taker == worker
        }
