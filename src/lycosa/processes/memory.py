"""Memory use of long-running processes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lycosa.processes.platform import drop_code, set_malloc, trim_malloc

_TRIM_BYTES = 4_000_000
_MMAP_BYTES = 1_000_000  # larger than most pages and their texts
_BATCH_TRIM_BYTES, _BATCH_MMAP_BYTES = 256 * 2**20, 32 * 2**20  # the second: glibc's maximum
_ROWS = 50_000, 50, 100  # thresholds of the collector for many rows without cycles


def tune_malloc() -> None:
    """Tune malloc for a crawl. Call it before polars is imported: its threads would get own arenas.

    Threads allocate in turns, so they share one arena, which is trimmed. Blocks of up to 1 MB are
    reused instead of mapped, which saves page faults.
    """
    set_malloc(1, _TRIM_BYTES, _MMAP_BYTES)


def tune_memory() -> None:
    """Tune the garbage collector and malloc for a crawl. Call it once, before threads start.

    Many rows and links without cycles are in memory, so the cycle collector runs rarely.
    """
    gc.freeze()
    gc.set_threshold(*_ROWS)
    tune_malloc()


@contextmanager
def batch_memory() -> Iterator[None]:
    """Reuse memory in a job with large arrays and many rows; give it back at the end.

    Otherwise each array of more than 128 KB is mapped anew, with a page fault for every 4 KB.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*_ROWS)
    set_malloc(1, _BATCH_TRIM_BYTES, _BATCH_MMAP_BYTES)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        tune_malloc()
        trim_malloc()


def steady_memory(arenas: int = 1, max_free_bytes: int = 256 * 1024) -> None:
    """Keep the memory of a process that runs for months small. Call it before threads start.

    By default glibc gives each thread an arena that keeps its freed memory. Here there are few
    arenas, each with at most `max_free_bytes` at its end.
    """
    set_malloc(arenas, max_free_bytes, max_free_bytes)


def collect_garbage() -> None:
    """Collect cycles and return free memory. Call it once a minute in idle processes.

    They create too few objects for the automatic collection, and would grow by 50 MB a day.
    """
    gc.collect()
    trim_malloc()


def give_back() -> None:
    """Return free memory and the code of large libraries, between two phases: 10 ms.

    Start, commits and refills use different parts of polars. Their code is read again from the page
    cache.
    """
    trim_malloc()
    drop_code()


def collect_session() -> None:
    """Free the objects of an ended session, which form cycles: `tune_memory` delays collection."""
    gc.collect()
    give_back()
