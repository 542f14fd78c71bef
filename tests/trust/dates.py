"""Change the date of whole processes with a preloaded C library.

The library adds a number of seconds, read from a file, to the wall clock and to no other clock.
libfaketime cannot be used here: when it leaves the monotonic clock unchanged, `clock_nanosleep`
and so `time.sleep` fail.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers.system import require_program

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("AHEAD_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file >= 0 ? mmap(0, 8, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (mapped != MAP_FAILED) ahead = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (kept) *kept = found.tv_sec;
    return found.tv_sec;
}
"""


class Dates:
    """Set the date of all processes that were started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        library = folder / "ahead.so"
        self.set(0)
        source = folder / "ahead.c"
        source.write_text(_SOURCE)
        subprocess.run(
            [require_program("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(source)],
            check=True,
        )
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "AHEAD_FILE": str(self._file),
        }

    def set(self, ahead_s: int) -> None:
        """Set the offset to the machine's date in seconds (may be negative)."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(ahead_s.to_bytes(8, "little", signed=True))
