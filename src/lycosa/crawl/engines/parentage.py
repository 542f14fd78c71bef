"""Processes that do not outlive whoever started them, and that leave Ctrl-C to it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl(2)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Processes that are started meanwhile never get SIGINT: they inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent(parent: int, name: str = "") -> None:
    """Have the kernel send SIGTERM to this process when the thread that started it ends, however it ends.

    `name`: what `ps -o comm` and `top` call this process from now on (of it the kernel keeps eight bytes).
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if name:
            prctl(_PR_SET_NAME, f"lycosa {name}".encode(), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGTERM)
