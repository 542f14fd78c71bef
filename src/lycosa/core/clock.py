"""Clocks, which can be injected and simulated."""

from __future__ import annotations

import time
from typing import Protocol

_STEP_MS = 1_000


class Clock(Protocol):
    """`now_ms`: the date (UTC), which may jump. `monotonic_ms`: for intervals, never decreases."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The clocks of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Interval:
    """Limits how often something is done. Not thread-safe.

    `first_ms`: time until the first time.
    """

    def __init__(self, clock: Clock, every_ms: int, first_ms: int = 0) -> None:
        self._clock = clock
        self._every_ms = every_ms
        self._next = clock.monotonic_ms() + first_ms

    def is_due(self) -> bool:
        """Return whether the interval is over; if so, the next one begins."""
        now = self._clock.monotonic_ms()
        if now < self._next:
            return False
        self._next = now + self._every_ms
        return True


class ClockStep:
    """Detects that the date of a clock was set back. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now_ms() - clock.monotonic_ms()

    def back_ms(self) -> int:
        """Return the step back since the last call (ms); 0 if it is under 1 s."""
        began = self._clock.monotonic_ms()
        offset = self._clock.now_ms() - began
        if self._clock.monotonic_ms() - began >= _STEP_MS:
            return 0  # the process was suspended between the two readings
        back, self._offset = self._offset - offset, offset
        return back if back >= _STEP_MS else 0
