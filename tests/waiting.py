"""Wait for conditions, run actions concurrently, and control the time."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any


class ManualClock:
    """A clock that moves only on request, for tests and simulations."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now = start_ms

    def now_ms(self) -> int:
        return self._now

    def monotonic_ms(self) -> int:
        return self._now

    def advance(self, milliseconds: int) -> None:
        self._now += milliseconds


def until(
    condition: Callable[[], object],
    limit_s: float = 60.0,
    *,
    alive: subprocess.Popen[Any] | None = None,
    messages: Callable[[], object] = lambda: "",
) -> float:
    """Wait until a condition is true, and return the time that it took in seconds.

    Expensive conditions are checked less often, so that they do not slow down what they wait for.

    Args:
        alive: a process; if it exits first, the wait fails.
        messages: returns additional information for the error message.
    """
    started = time.monotonic()
    while True:
        checked = time.monotonic()
        if condition():
            return time.monotonic() - started
        cost_s = time.monotonic() - checked
        if alive is not None and alive.poll() is not None:
            output = alive.communicate()
            raise AssertionError(f"exit status {alive.returncode}: {output} {messages()}")
        assert time.monotonic() - started < limit_s, f"timeout of {limit_s} s: {messages()}"
        time.sleep(min(max(0.03, cost_s), 0.5))


def listens(address: str, port: int) -> bool:
    """Return whether a port accepts connections."""
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def run_concurrently(*actions: Callable[[], object]) -> None:
    """Run actions in threads that start at the same time; raise the first error."""
    barrier = threading.Barrier(len(actions), timeout=60)

    def run(action: Callable[[], object]) -> None:
        barrier.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(run, actions))
