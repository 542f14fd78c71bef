"""Waiting for something that happens in another process, and threads that begin together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def until(condition: Callable[[], object], limit_s: float = 60.0) -> float:
    """Wait until a condition holds. Return how long that took, in seconds."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < limit_s, "it took too long"
        time.sleep(0.03)
    return time.monotonic() - started


def side_by_side(*actions: Callable[[], object]) -> None:
    """Run actions in threads that begin at the same moment. Raises the first error of one."""
    begin = threading.Barrier(len(actions), timeout=60)

    def run(action: Callable[[], object]) -> None:
        begin.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(run, actions))
