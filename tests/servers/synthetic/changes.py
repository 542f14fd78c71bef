"""Changes of pages: a Poisson process of known rate for each page, and new pages in lists."""

from __future__ import annotations

from typing import NamedTuple

from tests.servers.synthetic.draw import draw, interval_at, lognormal, uniform
from tests.servers.synthetic.hosts import Host
from tests.servers.synthetic.layout import Layout

MAX_CHANGES_PER_DAY = 1_440.0  # one per minute
_FRONT_PAGE_FACTOR, _HUB_FACTOR = 40.0, 6.0  # of the rates of front pages and their children


class State(NamedTuple):
    """The state of a page at a time.

    `version`: number of changes so far. `own`: those of the page's own process, without new pages
    in its list. `since`: time of the last change (ms from the epoch).
    """

    version: int
    own: int
    since: int


class Changes:
    """The states of all pages of a web. Times are milliseconds since the plan's epoch."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._plan = layout.plan
        # cache of the last state: each response needs it for the validators and for the text
        self._last_key = (-1, -1, 0)
        self._last = State(0, 0, 0)

    def own_rate(self, host: Host, number: int) -> float:
        """Return the changes of a page's text per day, without those of its list of pages."""
        plan = self._plan
        if plan.changes_per_day <= 0:
            return 0.0
        if number == 0:
            factor = _FRONT_PAGE_FACTOR
        elif uniform(plan.seed, "static", host.number, number) < plan.static:
            return 0.0
        else:
            factor = _HUB_FACTOR if number <= host.branching else 1.0
        rate = lognormal(
            plan.changes_per_day * factor * host.changes_factor,
            plan.change_spread,
            plan.seed,
            "rate",
            host.number,
            number,
        )
        return min(rate, MAX_CHANGES_PER_DAY)

    def rate(self, host: Host, number: int) -> float:
        """Return the changes of a page per day. A front page also changes with each new page.

        New children of other pages are not included.
        """
        return self.own_rate(host, number) + (host.births_per_day if number == 0 else 0.0)

    def state(self, host: Host, number: int, at: int, size: int | None = None) -> State:
        """Return the state of a page; `size` is the number of pages of the host, if known."""
        key = (host.number, number, at)
        if key != self._last_key:
            self._last, self._last_key = self._compute(host, number, at, size), key
        return self._last

    def _compute(self, host: Host, number: int, at: int, size: int | None) -> State:
        layout = self._layout
        created = layout.created_at(host, number)
        version, since, _ = interval_at(
            self._key(host, number), self.own_rate(host, number), at - max(created, 0)
        )
        own = version
        since = since + max(created, 0) if version else created
        if host.births_per_day:
            pages = layout.size(host, at) if size is None else size
            newest = pages - 1 if number == 0 else layout.children(host, number, pages).stop - 1
            if newest >= max(host.size, number * host.branching + 1):
                version += (
                    pages - host.size
                    if number == 0
                    else newest - max(host.size - 1, number * host.branching)
                )
                since = max(since, layout.created_at(host, newest))
        return State(version, own, since)

    def _key(self, host: Host, number: int) -> int:
        return draw(self._plan.seed, "process", host.number, number)
