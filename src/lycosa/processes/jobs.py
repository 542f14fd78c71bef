"""Jobs: modules run once in a process of their own, which ends with its parent.

All processes that Lycosa starts ignore Ctrl-C; some limit the threads of polars and malloc.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from lycosa.processes.memory import tune_malloc
from lycosa.processes.platform import end_with_parent
from lycosa.processes.terminal import escape_output

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


def start_job(module: str, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start `python -m module` with an order for `job_order`. It ends with the calling thread.

    Unlike a `children.Child` it does not import the main module of the parent, so that scripts that
    call Lycosa need no `if __name__ == "__main__"`.
    """
    command = [sys.executable, "-m", module, json.dumps({"parent": os.getpid()} | order)]
    with interrupts_held():
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def job_order(name: str) -> dict[str, Any]:
    """Return the order of `start_job` in the started process. `name`: shown by `top`."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    end_with_parent(order.pop("parent"), name)
    escape_output()
    return order
