"""Waiting for something that happens in another process."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], limit_s: float = 60.0) -> float:
    """Wait until a condition holds. Return how long that took, in seconds."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < limit_s, "it took too long"
        time.sleep(0.03)
    return time.monotonic() - started
