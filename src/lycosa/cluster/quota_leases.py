"""Page budgets over many workers: what each claim may add, so that what is committed never exceeds
a budget.

At any moment, as one view of the log shows it: pages committed, plus what every living claim may
still add, plus what every ended claim might have archived and not committed, is at most the budget.
The last part goes back only when the partitions of the ended claim are claimed again and their new
owners say that they took up what was archived (`Ping.ready`): what they took up counts as added by
them, within the old grant; so a kill never makes room twice.

Grants are not in the log. So a new coordinator grants nothing until it has heard of every
partition's owner that it is ready: then nothing of earlier claims is outstanding, and what living
claims were granted they say themselves.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lycosa.core.errors import UsageError
from lycosa.crawl.membership import Ping
from lycosa.store.log.entry import COMMIT, Entry

# a claim that may add this many times its share gives back, where another has less than half of its
# own
_SHRINK = 1.5


@dataclass(slots=True, frozen=True)
class PageBudget:
    """A bound on the pages of a collection. `pages`: all ever committed, by the log's counter
    `counter`.

    A call's own limit (`--max-pages`) is one too: what was committed before it, and the limit on
    top.
    """

    collection: str
    pages: int
    ends: bool = True  # a crawl ends when it is used up; not so where known pages are fetched again
    counter: str = ""  # "": pages.COLLECTION

    @property
    def name(self) -> str:
        return self.counter or f"pages.{self.collection}"


@dataclass(slots=True)
class _Grant:
    """What a claim may add in all, by collection. `most` bounds what it may believe; `told` is what
    it was told last.
    """

    partitions: frozenset[int]
    most: dict[str, int]
    granted: dict[str, int]
    number: int = 0  # of the answer that told it so
    ready: bool = False
    hungry: bool = True
    added: Mapping[str, int] = field(default_factory=dict)

    def record(self, ping: Ping, reported: Mapping[str, int]) -> None:
        """The worker has pinged. `reported`: what it may add as far as it knows."""
        confirmed = self.granted if ping.acknowledged >= self.number else self.most
        self.most = {name: max(reported[name], confirmed[name]) for name in reported}
        self.observe(ping)

    def observe(self, ping: Ping) -> None:
        self.ready = self.ready or ping.ready
        self.hungry = not ping.idle and not ping.leaving
        self.added = dict(ping.added)

    def give(self, granted: dict[str, int], number: int) -> None:
        """The answer of that number names these quotas."""
        self.granted, self.number = granted, number
        self.most = {name: max(self.most[name], granted[name]) for name in granted}


class Grants:
    """Not thread-safe: the coordinator's lock covers it."""

    def __init__(self, budgets: Sequence[PageBudget], partitions: int) -> None:
        if len({budget.collection for budget in budgets}) != len(budgets):
            raise UsageError(
                "a collection can have only one page quota per crawl: specify the smaller one"
            )
        self._budgets = {budget.collection: budget for budget in budgets}
        self._living: dict[int, _Grant] = {}
        # claim -> partitions not taken up again, what it might add
        self._ended: dict[int, tuple[set[int], _Grant]] = {}
        # partitions whose owners have not yet said that they are ready, in this life
        self._unheard = set(range(partitions))
        self._committed: Counter[str] = Counter()  # by collection
        # claim -> collection -> pages, as the log shows
        self._used: dict[int, Counter[str]] = defaultdict(Counter)
        self._holders: Mapping[int, int] = {}
        # claim -> pages committed, as its worker said since the log was read
        self._reported: dict[int, Mapping[str, int]] = {}
        self._due: dict[int, Mapping[str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def before_reading(self) -> None:
        """The log is about to be read: what workers said up to now of their commits will be in
        it.
        """
        self._due, self._reported = self._reported, {}

    def read(
        self, entries: Iterable[Entry], counters: Mapping[str, int], holders: Mapping[int, int]
    ) -> None:
        """A newer view of the log: the entries that came, and all counters and holders behind
        them.
        """
        for entry in entries:
            if entry.kind == COMMIT:
                self._used[entry.claim].update(
                    {
                        name: entry.counters.get(budget.name, 0)
                        for name, budget in self._budgets.items()
                    }
                )
        # this life may have come too late to see all of a claim's entries
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
        """A worker that holds a claim has pinged."""
        if not self._budgets or not ping.claim:
            return
        if ping.claim in self._ended:  # it was silent for long, and nobody has outranked it
            self._living[ping.claim] = self._ended.pop(ping.claim)[1]
        grant = self._living.get(ping.claim)
        reported = {
            name: max(ping.granted.get(name, 0), ping.added.get(name, 0)) for name in self._budgets
        }
        if grant is None:
            grant = self._living[ping.claim] = _Grant(
                ping.partitions, dict(reported), dict(reported)
            )
            grant.observe(ping)
        else:
            grant.record(ping, reported)
        self._reported[ping.claim] = dict(ping.committed)
        self._settle()

    def end(self, claim: int) -> None:
        """A claim that was heard of is over: released, outranked, or its worker is dead. May be
        called for any, often.
        """
        grant = self._living.pop(claim, None)
        if grant is not None:
            self._ended[claim] = (set(grant.partitions), grant)
            self._settle()

    def answer(self, claim: int, number: int) -> dict[str, int]:
        """Collection -> pages that this claim may add in all, told with the answer of that
        number.
        """
        grant = self._living.get(claim)
        if grant is None:
            return dict.fromkeys(self._budgets, 0)
        granted = (
            {name: self._share(claim, grant, name) for name in self._budgets}
            if grant.ready and not self._unheard
            else dict(grant.granted)
        )
        grant.give(granted, number)
        return dict(granted)

    def used_up(self) -> bool:
        """Whether a budget that ends the crawl is committed in full."""
        return any(
            budget.ends and self._committed[name] >= budget.pages
            for name, budget in self._budgets.items()
        )

    def granted(self) -> dict[str, int]:
        """Collection -> pages that living claims may still add."""
        return {
            name: sum(self._open(claim, grant.most, name) for claim, grant in self._living.items())
            for name in self._budgets
        }

    def bound(self, name: str) -> int:
        """The most pages of a collection that can be committed by what was granted."""
        ended = sum(
            self._open(claim, grant.most, name) for claim, (_, grant) in self._ended.items()
        )
        return (
            self._committed[name]
            + ended
            + sum(self._open(claim, grant.most, name) for claim, grant in self._living.items())
        )

    def _share(self, claim: int, grant: _Grant, name: str) -> int:
        """What this claim may add in all from now on: an even share of what is left, for those who
        have something to do.
        """
        used, granted = self._used[claim][name], grant.granted[name]
        ended = sum(self._open(each, other.most, name) for each, (_, other) in self._ended.items())
        left = max(0, self._budgets[name].pages - self._committed[name] - ended)
        others = [
            number for number, other in self._living.items() if number != claim and other.hungry
        ]
        share = math.ceil(left / (len(others) + 1))
        if not grant.hungry:
            return min(granted, max(grant.added.get(name, 0), used))
        open_now = self._open(claim, grant.most, name)
        free = self._budgets[name].pages - self.bound(name)
        if open_now < share and free > 0:
            return max(grant.most[name], used) + min(free, share - open_now)
        wanting = any(
            2 * self._open(each, self._living[each].most, name) < share for each in others
        )
        if open_now > share * _SHRINK and wanting:
            return min(granted, max(grant.added.get(name, 0), used + share))
        return granted

    def _open(self, claim: int, most: Mapping[str, int], name: str) -> int:
        return max(0, most[name] - self._used[claim][name])

    def _settle(self) -> None:
        """Forget ended claims whose partitions were all taken up by claims that the log knows."""
        for claim, grant in self._living.items():
            if not grant.ready:
                continue
            consumed = {
                partition for partition in grant.partitions if self._holders.get(partition) == claim
            }
            self._unheard -= consumed
            for number, (rest, _) in self._ended.items():
                if number < claim:
                    rest -= consumed
        for number in [number for number, (rest, _) in self._ended.items() if not rest]:
            del self._ended[number]
