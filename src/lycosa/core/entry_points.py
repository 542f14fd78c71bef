"""The plug-ins of Lycosa among the installed packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SECTION = b"[lycosa]"


@cache
def plugin_entry_points() -> Sequence[EntryPoint]:
    """Return the entry points in the group `lycosa`.

    `importlib.metadata` takes a third of the time of `lycosa --help`, so it is used only if a
    package may have plug-ins.
    """
    finders = [each for each in sys.meta_path if hasattr(each, "find_distributions")]
    if finders == [PathFinder] and not any(map(_may_have_plugins, sys.path)):
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group="lycosa"))


def _may_have_plugins(place: str) -> bool:
    """Return whether a `sys.path` entry has the group or is an archive or egg."""
    path = Path(place)
    if path.is_file() or path.suffix == ".egg":
        return True
    return any(_SECTION in file.read_bytes() for file in path.glob("*-info/entry_points.txt"))
