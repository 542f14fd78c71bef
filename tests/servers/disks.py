"""Small file systems (tmpfs) that tests can fill or make read-only."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a tmpfs of this size (mount's option `size=`) at a new folder.

    Skips the test if this user may not mount file systems.
    """
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Remount a disk read-only until the block ends."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def fill(ballast: Path, leave: int) -> None:
    """Write to `ballast` until at most `leave` bytes of its disk are free."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while shutil.disk_usage(ballast.parent).free > leave:
            file.write(bytes(1 << 16))
