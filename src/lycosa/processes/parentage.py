"""Child processes that ignore Ctrl-C and use one thread of polars and one arena of malloc."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from lycosa.processes.memory import tune_malloc

POLARS_THREADS = "POLARS_MAX_THREADS"
"""Read by polars at import. The frames of a crawl are too small for several threads."""


class OneThread:
    """First argument of a spawned process that limits polars to one thread and malloc to one arena.

    Arguments are unpickled in their order, so this takes effect before polars is imported. The
    environment takes precedence.
    """

    def __reduce__(self) -> tuple[Callable[[], OneThread], tuple[()]]:
        return _one_thread, ()


def _one_thread() -> OneThread:
    tune_malloc()
    os.environ.setdefault(POLARS_THREADS, "1")
    return OneThread()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Block SIGINT in processes started meanwhile, which inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
