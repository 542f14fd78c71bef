"""Processes that do not outlive whoever started them, that leave Ctrl-C to it, and that are content
with one thread of polars.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl(2)
POLARS_THREADS = "POLARS_MAX_THREADS"
"""Polars reads it as it is imported. A crawl's frames are small: threads wait for one another for
longer than they work (2 to 3 % of a crawl's CPU on two cores), and without it each process starts
as many as there are cores.
"""


class OneThread:
    """An argument of a process that is spawned, before those that need polars: arguments are
    unpickled in their order, and from there on polars has one thread in that process, unless the
    environment says otherwise. (To change the parent's own is unsafe beside threads.)
    """

    def __reduce__(self) -> tuple[Callable[[], OneThread], tuple[()]]:
        return _one_thread, ()


def _one_thread() -> OneThread:
    os.environ.setdefault(POLARS_THREADS, "1")
    return OneThread()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Processes that are started meanwhile never get SIGINT: they inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def die_with_parent(parent: int, name: str = "") -> None:
    """Have the kernel send SIGTERM to this process when the thread that started it ends, however it
    ends.

    `name`: what `ps -o comm` and `top` call this process from now on (of it the kernel keeps eight
    bytes).
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if name:
            prctl(_PR_SET_NAME, f"lycosa {name}".encode(), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGTERM)
