"""How many pages a collection may fetch again: a token bucket, and what waits when it is empty, the
earliest due first.

First visits cost nothing and never wait here. When the bucket is empty the budget closes for ten
minutes, and due pages stay in the tables. The due times of refused pages are remembered, so that
the next opening admits only as many pages as there are tokens, those that have waited longest;
when none of them is left, the budget is open to all.
"""

from __future__ import annotations

import polars as pl

from lycosa.frontier.recrawl.change_rate import DAY_MS

PERIOD_MS = 600_000
"""Tokens that are not used within ten minutes are lost; an empty budget stays closed as long."""

# pages that waited longest may be gone, or their hosts parked: then the others are admitted
_PATIENCE_MS = 60_000
_OPEN = 1 << 62
_SHUT = -1
_MAX_REFUSED = 200_000  # due times remembered, 8 bytes and an object each


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
        self._bar = _OPEN  # what is due later is held
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
        return self._bar == _OPEN

    def allowed(self, now_ms: int) -> float:
        """Fetches that the budget was worth since `restart`."""
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
        """Open again when it is time: for those that have waited longest, or for all."""
        if self._bar == _OPEN:
            return
        self._count(now_ms)
        idle = (
            self._bar != _SHUT
            and self._tokens >= self._most
            and now_ms - self._turned_at >= _PATIENCE_MS
        )
        if now_ms < self._opens_at and not idle:
            return
        self._turned_at = now_ms
        slots = max(int(self._tokens), 1)
        if len(self._refused) <= slots:
            self._refused.clear()
            self._bar = _OPEN
            return
        self._refused.sort()
        self._bar = self._refused[slots - 1]
        del self._refused[:slots]
        self._opens_at = now_ms + PERIOD_MS

    def take(self, due_at: int, now_ms: int) -> bool:
        """Whether a page that was due at `due_at` may be fetched now; if not, it waits
        (`earliest`).
        """
        self.turn(now_ms)
        self._count(now_ms)
        if self._tokens >= 1.0 and due_at <= self._bar:
            self.spend()
            return True
        if len(self._refused) < _MAX_REFUSED:
            self._refused.append(due_at)
        if self._tokens < 1.0:
            if self._bar != _SHUT:
                self._opens_at = now_ms + PERIOD_MS
            self._bar = _SHUT
        return False

    def spend(self) -> None:
        """Count a page that is fetched in any case, because it was requested.

        The bucket may go negative by its own size.
        """
        self._tokens = max(self._tokens - 1.0, -self._most)
        self.spent += 1

    def earliest(self, due_at: int) -> int:
        """When a page that is due at `due_at` may be fetched at the earliest."""
        return due_at if due_at <= self._bar else max(due_at, self._opens_at)

    def earliest_expr(self, due_at: pl.Expr) -> pl.Expr:
        """`earliest` of a column."""
        return (
            due_at
            if self.open
            else pl.when(due_at > self._bar)
            .then(due_at.clip(lower_bound=self._opens_at))
            .otherwise(due_at)
        )

    def _count(self, now_ms: int) -> None:
        if now_ms > self._counted_at:
            self._tokens = min(
                self._most, self._tokens + (now_ms - self._counted_at) * self._per_ms
            )
        self._counted_at = now_ms
