"""Freed blocks are used again; code that is given back is gone from memory, and runs all the
same.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from lycosa.processes.memory import give_back, give_back_code

LIBC = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
"""

PROGRAM = """
import resource, sys
from lycosa.processes.memory import tune_memory

if sys.argv[1] == "tuned":
    tune_memory()
SIZE = 500_000
keep = libc.malloc(SIZE)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    block = libc.malloc(SIZE)
    ctypes.memset(block, 1, SIZE)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    return int(
        subprocess.run(
            [sys.executable, "-c", LIBC + PROGRAM, mode], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_blocks_as_large_as_a_page_are_used_again() -> None:
    """Without it the kernel clears new memory for every page of more than 128 KiB."""
    assert faults("tuned") < 2_000


def _of_files_kb() -> int:
    return _resident_kb("RssFile")


def _resident_kb(kind: str) -> int:
    result = re.search(
        rf"^{kind}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE
    )
    assert result is not None
    return int(result[1])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux only")
def test_freed_memory_between_what_is_kept_is_given_back() -> None:
    # each in the heap, which the last ones keep from shrinking by itself
    blocks = [b"x" * (64_000 + number) for number in range(800)]
    remaining = blocks[::50] + blocks[-1:]
    del blocks
    before = _resident_kb("RssAnon")
    give_back()
    assert _resident_kb("RssAnon") < before - 10_000
    assert len(remaining) == 17


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux only")
def test_code_that_is_given_back_comes_again_when_it_runs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"key": [3, 1, 2], "text": ["c", "a", "b"]})

    def work() -> list[str]:
        frame.sort("key").write_parquet(tmp_path / "x.parquet")
        return (
            pl.scan_parquet(tmp_path / "x.parquet")
            .filter(pl.col("key") > 1)
            .collect()["text"]
            .to_list()
        )

    assert work() == ["b", "c"]
    before = _of_files_kb()
    give_back_code()
    assert _of_files_kb() < before - 4_000
    assert work() == ["b", "c"]


CROWDS = """
import threading
from pathlib import Path
from lycosa.processes.memory import steady_memory, trim
import sys

if sys.argv[1] == "steady":
    steady_memory()

def anonymous_kb():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])

def work(barrier):
    blocks = [libc.malloc(60_000) for _ in range(100)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    barrier.wait()  # all at once: each thread an arena of its own, where it gets one
    for block in blocks[:-1]:
        libc.free(block)  # the last one stays, as what is remembered does

def crowd():
    barrier = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

large = libc.malloc(30_000_000)  # from here on glibc keeps 60 MB at the end of each arena, unless it is told not to
libc.free(large)
before = anonymous_kb()
crowd()
if sys.argv[1] == "steady":
    trim()
print(anonymous_kb() - before)
"""


def left_by_a_crowd_kb(mode: str) -> int:
    return int(
        subprocess.run(
            [sys.executable, "-c", LIBC + CROWDS, mode], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.skipif(sys.platform != "linux", reason="arenas are glibc's")
def test_a_crowd_of_threads_leaves_nothing_behind() -> None:
    """Eight threads that each had 6 MB and gave back all but 60 KB."""
    assert left_by_a_crowd_kb("steady") < 4_000
