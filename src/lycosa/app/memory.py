"""How a long-running process treats its memory. Called once, before threads start."""

from __future__ import annotations

import ctypes
import gc

_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8  # mallopt(3)
_TRIM_BYTES = 4_000_000


def tune_memory() -> None:
    """Keep Python's cycle collector off rows that wait, and give freed memory back.

    Rows and links wait in large numbers and hold no cycles; walking over them again and again cost 7 % of a crawl's CPU
    (python-doc, 528 pages). A crawl allocates in its main, commit and index threads by turns: one arena that is trimmed
    instead of one a thread took 35 MB off the peak of 434 MB (the six documentation sites), at the same CPU. Elsewhere
    than on glibc the second half does nothing.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
