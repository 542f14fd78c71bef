"""Page quotas over several workers: a lease of pages for each claim.

No quota is exceeded. Invariant, by one view of the log: the quota is at least the sum of the
committed pages, the pages that living claims may still add, and the pages that ended claims might
have archived without committing. The last part is released only when the partitions of the ended
claim are claimed again and their new owners report that they have replayed the archive
(`Ping.ready`). Replayed pages count as added by the new claim, within the old lease; so a kill
never frees quota twice.

Leases are not in the log. A new coordinator grants nothing until the owner of every partition has
reported that it is ready: then no earlier claim is outstanding, and living claims report their own
leases.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lycosa.core.errors import UsageError
from lycosa.crawl.membership import Ping
from lycosa.store.log.entry import COMMIT, Entry

# a claim with this many times its share returns quota, if another has less than half of its own
_SHRINK = 1.5


@dataclass(slots=True, frozen=True)
class PageBudget:
    """A limit on the pages of a collection, by the counter `counter` of the log.

    `--max-pages` is one, too: the pages committed before the call plus the limit.
    """

    collection: str
    pages: int
    ends: bool = True  # a crawl ends when it is used up; false where pages are fetched again
    counter: str = ""  # "": pages.COLLECTION

    @property
    def name(self) -> str:
        return self.counter or f"pages.{self.collection}"


@dataclass(slots=True)
class _Lease:
    """Pages that a claim may add in all, by collection.

    `granted`: by the last reply; `most`: the highest number that its worker may have received.
    """

    partitions: frozenset[int]
    most: dict[str, int]
    granted: dict[str, int]
    number: int = 0  # of the last reply
    ready: bool = False
    has_work: bool = True
    added: Mapping[str, int] = field(default_factory=dict)

    def record(self, ping: Ping, reported: Mapping[str, int]) -> None:
        """Update from a ping. `reported`: pages that the worker may add."""
        confirmed = self.granted if ping.acknowledged >= self.number else self.most
        self.most = {name: max(reported[name], confirmed[name]) for name in reported}
        self.observe(ping)

    def observe(self, ping: Ping) -> None:
        self.ready = self.ready or ping.ready
        self.has_work = not ping.idle and not ping.leaving
        self.added = dict(ping.added)

    def give(self, granted: dict[str, int], number: int) -> None:
        """Record the pages that the reply `number` grants."""
        self.granted, self.number = granted, number
        self.most = {name: max(self.most[name], granted[name]) for name in granted}


class QuotaLeases:
    """The page leases of all claims. Call with the coordinator's lock held."""

    def __init__(self, budgets: Sequence[PageBudget], partitions: int) -> None:
        if len({budget.collection for budget in budgets}) != len(budgets):
            raise UsageError(
                "a collection can have only one page quota per crawl: specify the smaller one"
            )
        self._budgets = {budget.collection: budget for budget in budgets}
        self._living: dict[int, _Lease] = {}
        # claim -> partitions that are not replayed yet, and its lease
        self._ended: dict[int, tuple[set[int], _Lease]] = {}
        # partitions without a report to this coordinator that their owner is ready
        self._unconfirmed = set(range(partitions))
        self._committed: Counter[str] = Counter()  # by collection
        # claim -> collection -> committed pages by the log
        self._used: dict[int, Counter[str]] = defaultdict(Counter)
        self._holders: Mapping[int, int] = {}
        # claim -> committed pages that its worker has reported since the log was read
        self._reported: dict[int, Mapping[str, int]] = {}
        self._due: dict[int, Mapping[str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def before_reading(self) -> None:
        """Call before the log is read: it will contain all commits reported so far."""
        self._due, self._reported = self._reported, {}

    def read(
        self, entries: Iterable[Entry], counters: Mapping[str, int], holders: Mapping[int, int]
    ) -> None:
        """Apply new log entries, with the counters and holders after them."""
        for entry in entries:
            if entry.kind == COMMIT:
                self._used[entry.claim].update(
                    {
                        name: entry.counters.get(budget.name, 0)
                        for name, budget in self._budgets.items()
                    }
                )
        # a restarted coordinator may have missed entries of a claim
        for claim, reported in self._due.items():
            self._used[claim].update(
                {
                    name: max(0, reported.get(name, 0) - self._used[claim][name])
                    for name in self._budgets
                }
            )
        self._due = {}
        self._committed = Counter(
            {name: counters.get(budget.name, 0) for name, budget in self._budgets.items()}
        )
        self._holders = dict(holders)
        self._settle()

    def record_usage(self, ping: Ping) -> None:
        """Record the ping of a worker that holds a claim."""
        if not self._budgets or not ping.claim:
            return
        if ping.claim in self._ended:  # it was silent for long, but not superseded
            self._living[ping.claim] = self._ended.pop(ping.claim)[1]
        lease = self._living.get(ping.claim)
        was_ready = lease is not None and lease.ready
        reported = {
            name: max(ping.granted.get(name, 0), ping.added.get(name, 0)) for name in self._budgets
        }
        if lease is None:
            lease = self._living[ping.claim] = _Lease(
                ping.partitions, dict(reported), dict(reported)
            )
            lease.observe(ping)
        else:
            lease.record(ping, reported)
        self._reported[ping.claim] = dict(ping.committed)
        if ping.ready and not was_ready:
            self._settle()

    def end(self, claim: int) -> None:
        """End a claim: released, superseded, or its worker is dead. Unknown ones are ignored."""
        lease = self._living.pop(claim, None)
        if lease is not None:
            self._ended[claim] = (set(lease.partitions), lease)
            self._settle()

    def answer(self, claim: int, number: int) -> dict[str, int]:
        """Return the pages that a claim may add in all, by collection, for the reply `number`."""
        lease = self._living.get(claim)
        if lease is None:
            return dict.fromkeys(self._budgets, 0)
        granted = (
            {name: self._share(claim, lease, name) for name in self._budgets}
            if lease.ready and not self._unconfirmed
            else dict(lease.granted)
        )
        lease.give(granted, number)
        return dict(granted)

    def used_up(self) -> bool:
        """Return whether a quota that ends the crawl is committed in full."""
        return any(
            budget.ends and self._committed[name] >= budget.pages
            for name, budget in self._budgets.items()
        )

    def granted(self) -> dict[str, int]:
        """Return collection -> pages that living claims may still add."""
        return {
            name: sum(self._open(claim, lease.most, name) for claim, lease in self._living.items())
            for name in self._budgets
        }

    def bound(self, name: str) -> int:
        """Return the highest number of pages that can be committed under all leases."""
        ended = sum(
            self._open(claim, lease.most, name) for claim, (_, lease) in self._ended.items()
        )
        return (
            self._committed[name]
            + ended
            + sum(self._open(claim, lease.most, name) for claim, lease in self._living.items())
        )

    def _share(self, claim: int, lease: _Lease, name: str) -> int:
        """Return the pages that a claim may add in all.

        Claims with work get even shares.
        """
        used, granted = self._used[claim][name], lease.granted[name]
        ended = sum(self._open(each, other.most, name) for each, (_, other) in self._ended.items())
        left = max(0, self._budgets[name].pages - self._committed[name] - ended)
        others = [
            number for number, other in self._living.items() if number != claim and other.has_work
        ]
        share = math.ceil(left / (len(others) + 1))
        if not lease.has_work:
            return min(granted, max(lease.added.get(name, 0), used))
        open_now = self._open(claim, lease.most, name)
        free = self._budgets[name].pages - self.bound(name)
        if open_now < share and free > 0:
            return max(lease.most[name], used) + min(free, share - open_now)
        others_lack = any(
            2 * self._open(each, self._living[each].most, name) < share for each in others
        )
        if open_now > share * _SHRINK and others_lack:
            return min(granted, max(lease.added.get(name, 0), used + share))
        return granted

    def _open(self, claim: int, most: Mapping[str, int], name: str) -> int:
        return max(0, most[name] - self._used[claim][name])

    def _settle(self) -> None:
        """Remove ended claims with partitions that later claims have replayed."""
        for claim, lease in self._living.items():
            if not lease.ready:
                continue
            consumed = {
                partition for partition in lease.partitions if self._holders.get(partition) == claim
            }
            self._unconfirmed -= consumed
            for number, (rest, _) in self._ended.items():
                if number < claim:
                    rest -= consumed
        for number in [number for number, (rest, _) in self._ended.items() if not rest]:
            del self._ended[number]
