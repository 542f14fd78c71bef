"""The disk: free space for a workspace, and durable files and names."""

from __future__ import annotations

import os
import shutil

from lycosa.core.units import format_size

_AGAIN = 1.05
"""Resume above this multiple of the reserve, to avoid pausing again at once."""


class DiskSpace:
    """Compares the free space with the reserve (bytes) that must stay free. Cheap."""

    def __init__(self, root: str, reserve: int) -> None:
        self._root = root
        self._reserve = reserve
        self._free = 0
        self.enough = True

    def check(self) -> bool:
        """Return whether there is enough space now."""
        self._free = shutil.disk_usage(self._root).free
        self.enough = self._free >= (self._reserve if self.enough else self._reserve * _AGAIN)
        return self.enough

    @property
    def message(self) -> str:
        """Why the crawl is paused, or ""."""
        if self.enough:
            return ""
        return (
            f"paused: the disk of {self._root} has {format_size(self._free)} free, less than "
            "run.disk_reserve requires "
            f"({format_size(self._reserve)}). No data is lost; the crawl resumes automatically "
            "when space is free"
        )


def sync_file(path: str | os.PathLike[str], flags: int = 0) -> None:
    """fsync a file: its bytes are on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """fsync a folder: the names of new files are on disk when this returns."""
    sync_file(path, os.O_DIRECTORY)
