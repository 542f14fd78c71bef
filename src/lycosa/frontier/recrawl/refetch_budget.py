"""Limits the refetches of a collection: a token bucket that serves the longest waiting pages first.

First visits need no token. When the bucket is empty, the budget closes for ten minutes, and due
pages stay in the tables. It stores the due times of refused pages. The next opening admits only as
many pages as there are tokens, by due time. If no refused page is left, all are admitted.
"""

from __future__ import annotations

import polars as pl

from lycosa.frontier.recrawl.change_rate import DAY_MS

PERIOD_MS = 600_000
"""Lifetime of unused tokens, and the time for which an empty budget is closed."""

# Other pages are admitted after this time if the longest waiting ones are not fetched: they may be
# gone, or their hosts parked.
_PATIENCE_MS = 60_000
_OPEN = 1 << 62
_CLOSED = -1
_MAX_REFUSED = 200_000  # stored due times


class Budget:
    """Fetches of known pages that one collection may make. Times are ms since 1970.

    `spent` counts the fetches since `restart`, `waiting` the pages that were refused and not
    fetched since.
    """

    def __init__(self, per_day: float, now_ms: int) -> None:
        self._per_ms = per_day / DAY_MS
        self._most = max(1.0, per_day * PERIOD_MS / DAY_MS)
        self._tokens = min(1.0, self._most)
        self._counted_at = now_ms
        self._due_limit = _OPEN  # pages that are due later are refused
        self._opens_at = 0
        self._turned_at = now_ms
        self._refused: list[int] = []
        self._began_at = now_ms
        self.spent = 0

    @property
    def waiting(self) -> int:
        return len(self._refused)

    @property
    def open(self) -> bool:
        """Whether the budget refuses no page."""
        return self._due_limit == _OPEN

    def allowed(self, now_ms: int) -> float:
        """Return the fetches that the budget has allowed since `restart`."""
        return (now_ms - self._began_at) * self._per_ms

    def restart(self, now_ms: int) -> None:
        """Restart the counters."""
        self._began_at, self.spent = now_ms, 0

    def set_back(self, by_ms: int) -> None:
        """Correct times after the clock was set back."""
        self._began_at -= by_ms
        self._counted_at -= by_ms
        self._turned_at -= by_ms
        self._opens_at -= by_ms

    def turn(self, now_ms: int) -> None:
        """Open the budget if it is time: for the longest waiting pages, or for all."""
        if self._due_limit == _OPEN:
            return
        self._count(now_ms)
        idle = (
            self._due_limit != _CLOSED
            and self._tokens >= self._most
            and now_ms - self._turned_at >= _PATIENCE_MS
        )
        if now_ms < self._opens_at and not idle:
            return
        self._turned_at = now_ms
        slots = max(int(self._tokens), 1)
        if len(self._refused) <= slots:
            self._refused.clear()
            self._due_limit = _OPEN
            return
        self._refused.sort()
        self._due_limit = self._refused[slots - 1]
        del self._refused[:slots]
        self._opens_at = now_ms + PERIOD_MS

    def take(self, due_at: int, now_ms: int) -> bool:
        """Take a token for a page that was due at `due_at`. False: it waits until `earliest`."""
        self.turn(now_ms)
        self._count(now_ms)
        if self._tokens >= 1.0 and due_at <= self._due_limit:
            self.spend()
            return True
        if len(self._refused) < _MAX_REFUSED:
            self._refused.append(due_at)
        if self._tokens < 1.0:
            if self._due_limit != _CLOSED:
                self._opens_at = now_ms + PERIOD_MS
            self._due_limit = _CLOSED
        return False

    def spend(self) -> None:
        """Count a page that is fetched without a check of the budget.

        The bucket may become negative, at most by its capacity.
        """
        self._tokens = max(self._tokens - 1.0, -self._most)
        self.spent += 1

    def earliest(self, due_at: int) -> int:
        """Return when a page that is due at `due_at` may be fetched."""
        return due_at if due_at <= self._due_limit else max(due_at, self._opens_at)

    def earliest_expr(self, due_at: pl.Expr) -> pl.Expr:
        """Return `earliest` over a column."""
        return (
            due_at
            if self.open
            else pl.when(due_at > self._due_limit)
            .then(due_at.clip(lower_bound=self._opens_at))
            .otherwise(due_at)
        )

    def _count(self, now_ms: int) -> None:
        if now_ms > self._counted_at:
            self._tokens = min(
                self._most, self._tokens + (now_ms - self._counted_at) * self._per_ms
            )
        self._counted_at = now_ms
