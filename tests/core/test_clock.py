"""Clocks."""

from __future__ import annotations

import time

from lycosa.core.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_reads_milliseconds() -> None:
    clock: Clock = SystemClock()
    before, reading, after = time.time(), clock.now_ms(), time.time()
    assert before * 1000 - 1 <= reading <= after * 1000 + 1
    assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < 1000


def test_the_system_clock_never_runs_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_manual_clock_stands_still_until_moved() -> None:
    clock: Clock = (manual := ManualClock(5_000))
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_000, 5_000)
    manual.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_250, 5_250)
