"""Disks of their own: small ones that can be filled, and made read-only."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of this size (as mount's `size=`) at a new folder. Skips where mounting takes a
    privilege that this user lacks.
    """
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a tmpfs takes a privilege that this user lacks")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Nothing may be written to this disk meanwhile."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def fill(ballast: Path, leave: int) -> None:
    """Fill the disk but for so many bytes, while others write to it too."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while shutil.disk_usage(ballast.parent).free > leave:
            file.write(bytes(1 << 16))
