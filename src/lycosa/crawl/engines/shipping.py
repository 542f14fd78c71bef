"""What a node must have to run our code: our package travels with the job, what it needs is there or is installed.

Imported on bare nodes, before anything is installed there: nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata

DISTRIBUTION = "lycosa"
EXTRAS = ("s3", "hdfs")
"""Extras whose packages go along where the driver has them: it may have been given such a workspace."""

_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def requirements(distribution: str = DISTRIBUTION) -> list[str]:
    """What our package needs, in the versions that this process has: `name==version`, sorted."""
    pinned = set()
    for line in metadata.requires(distribution) or ():
        extra = _EXTRA.search(line)
        if extra is not None and extra[1] not in EXTRAS:
            continue
        name = _NAME.match(line)
        if name is None or name[0] == distribution:
            continue
        version = installed(name[0])
        if version:
            pinned.add(f"{name[0]}=={version}")
    return sorted(pinned)


def missing(wanted: Iterable[str]) -> list[str]:
    """Those of the requirements (`name==version`) that this process does not have, in that version or any other."""
    return [each for each in wanted if not installed(each.partition("==")[0])]


def installed(name: str) -> str:
    """The version that is installed here; "" if none is."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
