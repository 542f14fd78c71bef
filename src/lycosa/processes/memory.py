"""How a long-running process treats its memory."""

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
_MMAP_BYTES = 1_000_000  # more than most pages and their texts


def tune_memory() -> None:
    """Keep Python's cycle collector off rows that wait, and give freed memory back. Called once,
    before threads start.

    Rows and links wait in large numbers and hold no cycles; walking over them again and again cost
    7 % of a crawl's CPU (python-doc, 528 pages). A crawl allocates in its main, commit and index
    threads by turns: one arena that is trimmed instead of one a thread took 35 MB off the peak of
    434 MB (the six documentation sites), at the same CPU. But a trim threshold fixes the size from
    which glibc asks the kernel for fresh pages at 128 KiB, less than many a page and its text: set
    to 1 MB it saves a sixth of the page faults and a fifth of the system time; 8 MB saved no more
    and took 30 MB. Elsewhere than on glibc the second half does nothing.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    _set_malloc(1, _TRIM_BYTES, _MMAP_BYTES)


def steady_memory(arenas: int = 1, max_free_bytes: int = 256 * 1024) -> None:
    """Keep a process that does many small things for months as small as it is. Called once, before
    threads start.

    glibc gives each thread that allocates an arena, up to eight a CPU, and each keeps what was once
    free in it; after one large block it keeps up to 64 MB at the end of each. Eight threads that
    had 6 MB each left 47 MB behind; so there are few arenas, and at the end of each no more than
    `max_free_bytes` stay free. The collector of cycles stays as it is.
    """
    _set_malloc(arenas, max_free_bytes, max_free_bytes)


def _set_malloc(arenas: int, trim_bytes: int, mmap_bytes: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, arenas)
        mallopt(_M_TRIM_THRESHOLD, trim_bytes)
        mallopt(_M_MMAP_THRESHOLD, mmap_bytes)


def trim() -> None:
    """Give back all pages of memory that are free, wherever they are: 1 ms for 50 MB. Elsewhere
    than on glibc it does nothing.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def tidy() -> None:
    """Once a minute, where nearly nothing happens: what is in cycles goes, and what is free is
    given back.

    Python collects cycles when many objects have been made, and commands ask it to wait long
    (`lycosa.cli.main`): a daemon kept what each note that it writes leaves behind (3 KB: JSON with
    line breaks is made by functions that know one another), 50 MB a day, with several workers 180,
    for ever.
    """
    gc.collect()
    trim()


def give_back() -> None:
    """Give freed memory and the code of large libraries back, between two parts of work that need
    memory of their own: the crawl, the index, its suggestions. 40 to 60 MB of the peak of 390 (the
    six documentation sites) for a hundredth of a second.
    """
    trim()
    give_back_code()


def collect_session() -> None:
    """Take away what a session was, once nobody works with it: its objects know one another in
    circles, and as `tune_memory` has it the collector as good as never looks for such. Without it a
    worker of a cluster kept every session that it had ended: 5 MB for each time that partitions
    changed hands (600 hosts), for ever.
    """
    gc.collect()
    give_back()


def give_back_code() -> None:
    """Take the code of large libraries out of the process's memory; what is run again comes back
    from the files' cache.

    For the end of a start and of each commit: these and refills run different parts of polars, and
    each look at code brings 64 KB of it, so that of 86 MB of files' pages 70 are left between
    commits. Only what cannot have been written to is given back. Elsewhere than on Linux it does
    nothing.
    """
    maps, madvise = Path("/proc/self/maps"), getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not maps.exists():
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for first, end in _CODE.findall(maps.read_text("utf-8", "replace")):
        start, length = int(first, 16), int(end, 16) - int(first, 16)
        if length >= _LARGE_CODE_BYTES:
            madvise(start, length, _MADV_DONTNEED)
