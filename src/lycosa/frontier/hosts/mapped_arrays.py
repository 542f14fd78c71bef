"""Arrays in mapped files that leave memory when they are not used.

The files are unlinked: they end with the process, and no other process can open them. Released
pages stay in the page cache while it has space, and return by page faults.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lycosa.processes.platform import allocate

_Number = TypeVar("_Number", bound=np.generic)


class MappedArrays:
    """Arrays by name, in `folder`. Without a folder, or when its disk is full, they are in
    memory.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._maps: dict[str, mmap.mmap] = {}

    def zeros(self, name: str, kind: type[_Number], size: int) -> npt.NDArray[_Number]:
        """Return a new array of at least one zero. An older one of this name remains, but its
        memory is not released any more.
        """
        self._maps.pop(name, None)
        if self._folder is None:
            return np.zeros(size, kind)
        length = size * np.dtype(kind).itemsize
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                # a mapped hole that the disk cannot fill kills the process
                allocate(file.fileno(), length)
                mapped = mmap.mmap(file.fileno(), length)
        except OSError:
            return np.zeros(size, kind)
        self._maps[name] = mapped
        return np.frombuffer(mapped, kind)

    def shed(self) -> None:
        """Take the arrays out of the process's memory; nothing is lost."""
        for mapped in self._maps.values():
            mapped.madvise(mmap.MADV_DONTNEED)
