"""Memory use of long-running processes."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
_TRIM_BYTES = 4_000_000
_MADV_DONTNEED = 4
_LARGE_CODE_BYTES = 8_000_000
_CODE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .*\.so\S*$", re.MULTILINE)
_MMAP_BYTES = 1_000_000  # larger than most pages and their texts


def tune_memory() -> None:
    """Tune the garbage collector and malloc for a crawl. Call it once, before threads start.

    Many rows and links without cycles are in memory, so the cycle collector runs rarely. Threads
    allocate in turns, so they share one arena, which is trimmed. Blocks of up to 1 MB are reused
    instead of mapped, which saves page faults.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    _set_malloc(1, _TRIM_BYTES, _MMAP_BYTES)


def steady_memory(arenas: int = 1, max_free_bytes: int = 256 * 1024) -> None:
    """Keep the memory of a process that runs for months small. Call it before threads start.

    By default glibc gives each thread an arena that keeps its freed memory. Here there are few
    arenas, each with at most `max_free_bytes` at its end.
    """
    _set_malloc(arenas, max_free_bytes, max_free_bytes)


def _set_malloc(arenas: int, trim_bytes: int, mmap_bytes: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, arenas)
        mallopt(_M_TRIM_THRESHOLD, trim_bytes)
        mallopt(_M_MMAP_THRESHOLD, mmap_bytes)


def trim() -> None:
    """Return all free memory to the system: 1 ms for 50 MB. Only on glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def tidy() -> None:
    """Collect cycles and return free memory. Call it once a minute in idle processes.

    They create too few objects for the automatic collection, and would grow by 50 MB a day.
    """
    gc.collect()
    trim()


def give_back() -> None:
    """Return free memory and the code of large libraries, between two phases: 10 ms."""
    trim()
    give_back_code()


def collect_session() -> None:
    """Free the objects of an ended session, which form cycles: `tune_memory` delays collection."""
    gc.collect()
    give_back()


def give_back_code() -> None:
    """Drop the code pages of large libraries; they are read again from the page cache.

    Start, commits and refills use different parts of polars. Only read-only pages are dropped. Only
    on Linux.
    """
    maps, madvise = Path("/proc/self/maps"), getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not maps.exists():
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for first, end in _CODE.findall(maps.read_text("utf-8", "replace")):
        start, length = int(first, 16), int(end, 16) - int(first, 16)
        if length >= _LARGE_CODE_BYTES:
            madvise(start, length, _MADV_DONTNEED)
