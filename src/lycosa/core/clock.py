"""Time, as something that can be passed in and simulated."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: `now_ms` is the date (UTC, may jump); `monotonic_ms` only ever grows and is for intervals."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved: for tests and simulations."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now = start_ms

    def now_ms(self) -> int:
        return self._now

    def monotonic_ms(self) -> int:
        return self._now

    def advance(self, milliseconds: int) -> None:
        self._now += milliseconds
