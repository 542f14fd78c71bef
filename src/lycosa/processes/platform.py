"""Calls that exist only on Linux, each with a portable fallback.

The rest of the code calls these functions and does not depend on the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from lycosa.processes.threads import OnError, start_thread

_PROC = Path("/proc")
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl(2)
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1  # linux/fcntl.h, linux/fs.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)
_MADV_DONTNEED = 4
_LARGE_CODE_BYTES = 1_000_000
_CODE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .*\.so\S*$", re.MULTILINE)
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_PARENT_POLL_S = 1.0
_PIECE = 1 << 20
_PIPE_BYTES = 1 << 16  # capacity of a pipe


def _libc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if it does not have it."""
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


def set_malloc(arenas: int, trim_bytes: int, mmap_bytes: int) -> None:
    """Limit the free memory that glibc keeps. Other C libraries: no effect."""
    if mallopt := _libc("mallopt"):
        mallopt(_M_ARENA_MAX, arenas)
        mallopt(_M_TRIM_THRESHOLD, trim_bytes)
        mallopt(_M_MMAP_THRESHOLD, mmap_bytes)


def trim_malloc() -> None:
    """Return all free memory of glibc to the system. Other C libraries: no effect."""
    if malloc_trim := _libc("malloc_trim"):
        malloc_trim(0)


def drop_code() -> None:
    """Drop the read-only code pages of large libraries. Elsewhere the system decides alone."""
    madvise, maps = _libc("madvise"), _PROC / "self" / "maps"
    if madvise is None or not maps.exists():
        return
    for start, length in _large_code(maps, len(sys.modules)):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_DONTNEED)


@functools.lru_cache(maxsize=1)
def _large_code(maps: Path, modules: int) -> list[tuple[int, int]]:
    """Return start and length of the code of large libraries; `modules`: how many are imported."""
    matches = _CODE.findall(maps.read_text("utf-8", "replace"))
    ranges = ((int(first, 16), int(end, 16) - int(first, 16)) for first, end in matches)
    return [(start, length) for start, length in ranges if length >= _LARGE_CODE_BYTES]


@functools.cache
def boot_id() -> str:
    """Return an identifier of this boot of the machine, empty if the system has none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("ascii", "replace").strip()
    except OSError:
        return ""


def end_with_parent(parent: int, name: str = "") -> None:
    """Have SIGTERM sent to this process when its parent ends.

    Linux sends it when the thread that started the process ends. Elsewhere a thread checks every
    second whether the parent still exists.

    Args:
        name: shown by `ps -o comm` and `top` on Linux, at most eight bytes.
    """
    if prctl := _libc("prctl"):
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if name:
            prctl(_PR_SET_NAME, f"lycosa {name}".encode(), 0, 0, 0)
    else:
        start_thread(_await_parent, parent, name="parent", on_error=OnError.RESTART)
    if os.getppid() != parent:  # it ended before the call of prctl
        os.kill(os.getpid(), signal.SIGTERM)


def _await_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)


def group_memory(group: int) -> int:
    """Return the bytes of memory of a process group.

    On Linux private memory only; elsewhere memory shared by its processes counts repeatedly.
    """
    if not (_PROC / "self" / "statm").exists():
        return _resident_memory(group)
    total = 0
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.getpgid(int(folder.name)) == group:
                resident, shared = (folder / "statm").read_text().split()[1:3]
                total += (int(resident) - int(shared)) * _PAGE_SIZE
    return total


def _resident_memory(group: int) -> int:
    table = subprocess.run(
        ["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in table.splitlines())
    return sum(int(kib) * 1024 for pgid, kib in rows if int(pgid) == group)


def process_exists(pid: int) -> bool:
    """Return whether a process has this ID."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


def limit_memory(max_bytes: int) -> None:
    """Limit the address space of this process. macOS has no such limit: no effect."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    except (ValueError, OSError):
        if sys.platform == "linux":
            raise


def allocate(descriptor: int, length: int) -> None:
    """Reserve disk space for the first `length` bytes of an empty file.

    Raises:
        OSError: the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, length)
        return
    zeros = memoryview(bytes(min(_PIECE, length)))
    position = 0
    while position < length:
        position += os.pwrite(descriptor, zeros[: length - position], position)


def rename_exclusive(source: str, target: str) -> None:
    """Rename a file unless the target exists.

    Raises:
        FileExistsError: the target exists.
        OSError: `ENOTSUP` where the system or the file system cannot.
    """
    rename = _libc("renameat2")
    if rename is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), target)
    paths = os.fsencode(source), os.fsencode(target)
    if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


class WakeUp:
    """A descriptor that is readable between `set` and `clear`: an eventfd or a pipe."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.descriptor = self._output = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self.descriptor, self._output = os.pipe()
            os.set_blocking(self.descriptor, False)
            os.set_blocking(self._output, False)

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full, so readable already
            os.write(self._output, (1).to_bytes(8, sys.byteorder))

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, _PIPE_BYTES)

    def close(self) -> None:
        for descriptor in {self.descriptor, self._output}:
            os.close(descriptor)


class Poller(Protocol):
    """The methods of `select.epoll` that are used; events have the values of `select.poll`."""

    def register(self, fd: int, eventmask: int) -> None: ...
    def modify(self, fd: int, eventmask: int) -> Any: ...
    def unregister(self, fd: int) -> None: ...
    def poll(self, timeout: float) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class _Poll:
    """`select.poll` with the interface of `select.epoll`.

    Closed descriptors stay registered: `poll` returns them with POLLNVAL until `unregister`.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify

    def unregister(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return self._poll.poll(timeout * 1000)

    def close(self) -> None:
        """Do nothing: `select.poll` has no descriptor."""


def open_poller() -> Poller:
    """Return an epoll set, or `select.poll`, whose cost grows with the open connections."""
    return select.epoll() if hasattr(select, "epoll") else _Poll()
