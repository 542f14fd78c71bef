"""Waiting for something that happens in another process, and threads that begin together."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any


def until(
    condition: Callable[[], object],
    limit_s: float = 60.0,
    *,
    alive: subprocess.Popen[Any] | None = None,
    messages: Callable[[], object] = lambda: "",
) -> float:
    """Wait until a condition holds. Return how long that took, in seconds.

    Args:
        alive: a process that must not end before.
        messages: what a failure reports, besides the output of the process.
    """
    started = time.monotonic()
    while not condition():
        if alive is not None and alive.poll() is not None:
            output = alive.communicate()
            raise AssertionError(f"it ended with {alive.returncode}: {output} {messages()}")
        assert time.monotonic() - started < limit_s, f"it took too long: {messages()}"
        time.sleep(0.03)
    return time.monotonic() - started


def listens(address: str, port: int) -> bool:
    """Whether connections to a port are accepted."""
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def side_by_side(*actions: Callable[[], object]) -> None:
    """Run actions in threads that begin at the same moment. Raises the first error of one."""
    begin = threading.Barrier(len(actions), timeout=60)

    def run(action: Callable[[], object]) -> None:
        begin.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(run, actions))
