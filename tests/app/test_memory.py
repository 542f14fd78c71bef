from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys
from lycosa.app.memory import tune_memory

if sys.argv[1] == "tuned":
    tune_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
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
    return int(subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_blocks_as_large_as_a_page_are_used_again() -> None:
    """Without it the kernel clears new memory for every page of more than 128 KiB."""
    assert faults("tuned") < 2_000
