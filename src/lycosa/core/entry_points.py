"""The plug-ins of Lycosa among the installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points


@cache
def plugin_entry_points() -> EntryPoints:
    """Return the entry points in the group `lycosa`; reads the metadata of all packages once."""
    return entry_points(group="lycosa")
