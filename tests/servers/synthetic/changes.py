"""How pages change: a Poisson process for each page, of a rate that is known, and what new pages
change in those that list them.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.servers.synthetic.draw import draw, lognormal, span, unit
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.layout import Layout

MAX_A_DAY = 1_440.0  # a change a minute
# how much faster than a leaf's median front pages and the pages right under them change
_FRONT, _HUB = 40.0, 6.0


class State(NamedTuple):
    """`own`: events of the page's own process; `version` counts those of its lists besides; it
    stands `since` (ms from the epoch).
    """

    version: int
    own: int
    since: int


class Changes:
    """The states of all pages of a web. Times are milliseconds since the plan's epoch."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._plan = layout.plan
        self._asked = (-1, -1, 0)
        self._last = State(0, 0, 0)  # an answer asks twice: for the validators and for the text

    def own_rate(self, host: Host, number: int) -> float:
        """Changes of a page's text a day, those of its lists of new pages left out."""
        plan = self._plan
        if plan.changes_per_day <= 0:
            return 0.0
        if number == 0:
            boost = _FRONT
        elif unit(plan.seed, "static", host.number, number) < plan.static:
            return 0.0
        else:
            boost = _HUB if number <= host.branching else 1.0
        rate = lognormal(
            plan.changes_per_day * boost * host.changes_factor,
            plan.change_spread,
            plan.seed,
            "rate",
            host.number,
            number,
        )
        return min(rate, MAX_A_DAY)

    def rate(self, host: Host, number: int) -> float:
        """All changes of a page a day; a front page changes with each birth. (The few pages that
        gain a child each time are left out.)
        """
        return self.own_rate(host, number) + (host.births_per_day if number == 0 else 0.0)

    def state(self, host: Host, number: int, at: int, size: int | None = None) -> State:
        """`size`: pages of the host at that time, if the caller knows."""
        asked = (host.number, number, at)
        if asked != self._asked:
            self._last, self._asked = self._find(host, number, at, size), asked
        return self._last

    def _find(self, host: Host, number: int, at: int, size: int | None) -> State:
        layout = self._layout
        born = layout.born_at(host, number)
        version, since, _ = span(
            self._key(host, number), self.own_rate(host, number), at - max(born, 0)
        )
        own = version
        since = since + max(born, 0) if version else born
        if host.births_per_day:
            pages = layout.size(host, at) if size is None else size
            newest = pages - 1 if number == 0 else layout.children(host, number, pages).stop - 1
            if newest >= max(host.size, number * host.branching + 1):
                version += (
                    pages - host.size
                    if number == 0
                    else newest - max(host.size - 1, number * host.branching)
                )
                since = max(since, layout.born_at(host, newest))
        return State(version, own, since)

    def _key(self, host: Host, number: int) -> int:
        return draw(self._plan.seed, "process", host.number, number)
