"""Which files of a table a merge folds together, and into what. Pure: sizes in, a choice out.

Files stand in the order of their entries: first the base, then everything since. A run of
neighbours is folded, so that the result has a place in that order. Files have a level by their
size, 32 times as much from one to the next, and never less than a newer file's (a small file among
large ones counts with them). When 32 of one level have gathered, they and all that are newer become
one delta; when by then all that is not base is worth the base, or half of it for tables that the
worker reads (`urls`, `hosts`), they go into the base.

What this costs (tests/store/test_plan.py plays it through): after 2,000 commits a row was rewritten
twice, after 20,000 three times; of the tables that the worker reads four times (with a quarter of
the base as the limit it was five and six). Files: at most 31 a level and table beside the base; in
the base one a collection, and one more for each 64 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lycosa.store.log.state import LiveFile

BASE, DELTA = "base", "delta"
SHARED = "_"  # stands for the collection in the base of tables that have none
_PLACE = re.compile(rf"^{BASE}/([^/]+)/p(\d+)/[^/]+/[^/]+\Z")
_SMALLEST_BYTES = 64 * 2**10
READ_BY_WORKER = frozenset({"urls", "hosts", "found"})


@dataclass(slots=True, frozen=True)
class MergeSettings:
    """How eagerly files are folded, and in what portions."""

    # files of one level that are folded together, and the ratio from one level to the next
    gather: int = 32
    base_share: int = 2  # fold into the base when a 1/base_share of it has come since
    # the same for tables that the worker does not read: they hold pages, texts and links, and are
    # dear to rewrite
    page_share: int = 1
    split_bytes: int = 64 * 2**20  # a base file ends at the first partition that begins behind this
    # rows held between reads: of 32 files a row group each, or groups are unpacked several times
    memory_bytes: int = 64 * 2**20

    def share_of(self, table: str) -> int:
        """`base_share` or `page_share`."""
        return self.base_share if table in READ_BY_WORKER else self.page_share


@dataclass(slots=True, frozen=True)
class Plan:
    """`files`, neighbours in the log's order, become one delta, or the base."""

    files: tuple[LiveFile, ...]
    into_base: bool

    @property
    def as_of(self) -> int:
        return max(file.entry for file in self.files)


def plan(
    files: Sequence[LiveFile], settings: MergeSettings, table: str, *, whole: bool = False
) -> Plan | None:
    """What of a table to fold next; None: nothing. `whole` folds everything into the base, however
    little it is.
    """
    base = [file for file in files if base_place(file.path)]
    loose = [file for file in files if not base_place(file.path)]
    if not loose:
        return None
    share = sum(file.bytes for file in loose) * settings.share_of(table) >= sum(
        file.bytes for file in base
    )
    if whole:
        return Plan((*base, *loose), True)
    levels = effective_levels([file.bytes for file in loose], settings.gather)
    due = [level for level in set(levels) if levels.count(level) >= settings.gather]
    if not due:
        return None
    if share:
        return Plan((*base, *loose), True)
    return Plan(tuple(loose[levels.index(max(due)) :]), False)


def effective_levels(sizes: Sequence[int], ratio: int) -> list[int]:
    """The level of each file, oldest first: by its size in bytes, and at least that of any newer
    file.
    """
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
    """`base/news/p03/00000812-1f0e…/urls.parquet` -> ("news", 3): collection and first partition;
    None outside the base.
    """
    match = _PLACE.match(path)
    return (match[1], int(match[2])) if match else None


def base_path(collection: str, partition: int, as_of: int, attempt: str, table: str) -> str:
    """Where a base file lies. `p03` holds the partitions from 3 up to where the collection's next
    file begins.
    """
    return f"{BASE}/{collection}/p{partition:02d}/{as_of:08d}-{attempt[:12]}/{table}.parquet"


def delta_path(as_of: int, attempt: str, table: str) -> str:
    """Where a delta lies."""
    return f"{DELTA}/{as_of:08d}-{attempt[:12]}/{table}.parquet"
