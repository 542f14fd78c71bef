"""Whether the workspace's disk has room, and what is said when it has not."""

from __future__ import annotations

import shutil

from lycosa.core.units import format_size

_AGAIN = 1.05
"""Resume above this multiple of the reserve, so that the crawl does not pause again at once."""


class DiskSpace:
    """The room on a workspace's disk, against the reserve (bytes) that must stay free. Cheap: one
    call of the kernel a look.
    """

    def __init__(self, root: str, reserve: int) -> None:
        self._root = root
        self._reserve = reserve
        self._free = 0
        self.enough = True

    def look(self) -> bool:
        """Whether there is enough now."""
        self._free = shutil.disk_usage(self._root).free
        self.enough = self._free >= (self._reserve if self.enough else self._reserve * _AGAIN)
        return self.enough

    @property
    def message(self) -> str:
        """For people, while there is not enough; "" otherwise."""
        if self.enough:
            return ""
        return (
            f"paused: the disk of {self._root} has {format_size(self._free)} free, less than "
            "run.disk_reserve requires "
            f"({format_size(self._reserve)}). No data is lost; the crawl resumes automatically "
            "when space is free"
        )
