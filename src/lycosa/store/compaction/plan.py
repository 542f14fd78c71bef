"""Choose the files of a table that are compacted together. A pure function of their sizes.

Files are ordered by their entries: the base, then everything since. Neighbours are compacted, so
that the result has a place in that order. A file's level is determined by its size, with a factor
of 32 between levels, and is at least that of any newer file. When 32 files of a level exist, they
and all newer files become one delta. If all deltas are then as large as the base, or half of it for
tables that workers read (`urls`, `hosts`), they are compacted into the base.

So a row is rewritten twice after 2,000 commits and three times after 20,000, in tables that workers
read four times (tests/store/test_vacuum.py). There are at most 31 files per level and table. The
base has one file per collection and 64 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lycosa.core.dataclass import dataclass
from lycosa.store.storage.files import DataFile

BASE, DELTA = "base", "delta"
SHARED = "_"  # instead of the collection in the base of tables without one
_PLACE = re.compile(rf"^{BASE}/([^/]+)/p(\d+)/[^/]+/[^/]+\Z")
_SMALLEST_BYTES = 64 * 2**10
READ_BY_WORKER = frozenset({"urls", "hosts", "found"})


@dataclass(slots=True, frozen=True)
class CompactionSettings:
    """Thresholds and sizes of compaction."""

    # files of one level that are compacted, and the size ratio between levels
    gather: int = 32
    base_share: int = 2  # compact into the base when deltas have 1/base_share of its size
    # the same for tables that workers do not read: rewriting texts and links is expensive
    page_share: int = 1
    split_bytes: int = 64 * 2**20  # a base file ends with a partition
    # one row group of each of 32 files, else groups are decompressed several times
    memory_bytes: int = 64 * 2**20

    def share_of(self, table: str) -> int:
        """Return `base_share` or `page_share`."""
        return self.base_share if table in READ_BY_WORKER else self.page_share


@dataclass(slots=True, frozen=True)
class CompactionPlan:
    """Neighbouring `files` that become one delta, or the base."""

    files: tuple[DataFile, ...]
    into_base: bool

    @property
    def as_of(self) -> int:
        return max(file.entry for file in self.files)


def plan(
    files: Sequence[DataFile], settings: CompactionSettings, table: str, *, whole: bool = False
) -> CompactionPlan | None:
    """Return the next plan, or None. `whole` compacts everything into the base."""
    base = [file for file in files if base_place(file.path)]
    loose = [file for file in files if not base_place(file.path)]
    if not loose:
        return None
    share = sum(file.bytes for file in loose) * settings.share_of(table) >= sum(
        file.bytes for file in base
    )
    if whole:
        return CompactionPlan((*base, *loose), True)
    levels = effective_levels([file.bytes for file in loose], settings.gather)
    due = [level for level in set(levels) if levels.count(level) >= settings.gather]
    if not due:
        return None
    if share:
        return CompactionPlan((*base, *loose), True)
    return CompactionPlan(tuple(loose[levels.index(max(due)) :]), False)


def effective_levels(sizes: Sequence[int], ratio: int) -> list[int]:
    """Return the level of each file, oldest first, from the sizes in bytes."""
    levels: list[int] = []
    highest = 0
    for size in reversed(sizes):
        own, limit = 0, _SMALLEST_BYTES * ratio
        while size >= limit:
            own, limit = own + 1, limit * ratio
        highest = max(highest, own)
        levels.append(highest)
    return levels[::-1]


def base_place(path: str) -> tuple[str, int] | None:
    """Return collection and first partition of a base file, None for other files.

    `base/news/p03/00000812-1f0e…/urls.parquet` -> ("news", 3)
    """
    match = _PLACE.match(path)
    return (match[1], int(match[2])) if match else None


def base_path(collection: str, partition: int, as_of: int, attempt: str, table: str) -> str:
    """Return the path of a base file. `p03` has the partitions from 3 to the next file's."""
    return f"{BASE}/{collection}/p{partition:02d}/{as_of:08d}-{attempt[:12]}/{table}.parquet"


def delta_path(as_of: int, attempt: str, table: str) -> str:
    """Return the path of a delta."""
    return f"{DELTA}/{as_of:08d}-{attempt[:12]}/{table}.parquet"
