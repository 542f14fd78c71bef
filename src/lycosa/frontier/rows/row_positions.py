"""Index of the sorted files of a table: which rows belong to which hosts.

A place is a number for (partition, host key) that sorts as the files do: 12 bits of partition (a
workspace has at most 4,096), then the upper 52 of the host key. Hosts whose keys differ only in the
last 12 bits share a place, so results must be compared with the host key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lycosa.core.dataclass import dataclass

Places = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

_PARTITION_BITS = 12
_ALL_PLACES = 1 << 64


def places(partitions: npt.NDArray[np.generic], host_keys: npt.NDArray[np.uint64]) -> Places:
    """Return the sort keys of hosts."""
    tops = partitions.astype(np.uint64) << np.uint64(64 - _PARTITION_BITS)
    return tops | (host_keys >> np.uint64(_PARTITION_BITS))


@dataclass(slots=True, frozen=True)
class FileIndex:
    """Runs of whole hosts in one sorted file: run i starts with host `first[i]`, and has the rows
    `start[i]` to `start[i + 1]`.
    """

    first: Places  # ascending
    start: Rows  # one more than `first`: the last is the file's number of rows
    last: int  # the place of the last row
    exact: bool  # one host a run: a host that begins none is not in the file

    @staticmethod
    def of_parts(parts: Iterable[Places], step: int) -> FileIndex:
        """Index the positions of a file's rows, given in parts.

        Runs have about `step` rows; with step 1, each host has its own.

        Raises:
            ValueError: the rows are not sorted.
        """
        first_urls: list[Places] = []
        starts: list[Rows] = []
        rows, last, block = 0, -1, -1
        for part in parts:
            if part.size == 0:
                continue
            if int(part[0]) < last or (part[1:] < part[:-1]).any():
                raise ValueError("rows are not sorted by partition and host key")
            begins = np.flatnonzero(part[1:] != part[:-1]) + 1
            if int(part[0]) != last:
                begins = np.concatenate([[0], begins])
            if step > 1 and begins.size:
                blocks = (begins + rows) // step
                begins = begins[
                    np.concatenate([[int(blocks[0]) != block], blocks[1:] != blocks[:-1]])
                ]
                block = int(blocks[-1])
            first_urls.append(part[begins])
            starts.append(begins + rows)
            rows, last = rows + part.size, int(part[-1])
        if not rows:
            return FileIndex(np.zeros(0, np.uint64), np.zeros(1, np.int64), 0, True)
        return FileIndex(
            np.concatenate(first_urls),
            np.append(np.concatenate(starts), rows).astype(np.int64),
            last,
            step == 1,
        )

    @property
    def rows(self) -> int:
        return int(self.start[-1])

    def runs(self, places: Places) -> tuple[Rows, Rows]:
        """Return first row and end of the run of each place; (0, 0) if there is none."""
        if self.first.size == 0:
            return np.zeros(places.size, np.int64), np.zeros(places.size, np.int64)
        run = np.searchsorted(self.first, places, side="right") - 1
        there = (run >= 0) & (places <= np.uint64(self.last))
        run = np.maximum(run, 0)
        if self.exact:
            there &= self.first[run] == places
        return np.where(there, self.start[run], 0), np.where(there, self.start[run + 1], 0)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """Return the range of rows with all hosts of places from `low` to below `high`, and few
        others at both ends.
        """
        first = (
            0 if low == 0 else int(np.searchsorted(self.first, np.uint64(low), side="right")) - 1
        )
        end = (
            self.first.size
            if high >= _ALL_PLACES
            else int(np.searchsorted(self.first, np.uint64(high)))
        )
        return int(self.start[max(first, 0)]), int(self.start[max(end, first, 0)])


def spans(first: Rows, end: Rows, near: int) -> list[tuple[int, int]]:
    """Merge ranges [first, end) into ascending slices; gaps of up to `near` rows are included."""
    held = end > first
    if not held.any():
        return []
    order = np.argsort(first[held], kind="stable")
    begins, ends = first[held][order], np.maximum.accumulate(end[held][order])
    cuts = np.flatnonzero(begins[1:] > ends[:-1] + near) + 1
    edges = [0, *cuts.tolist(), begins.size]
    return [(int(begins[one]), int(ends[two - 1])) for one, two in pairwise(edges)]


def within(ranges: list[tuple[int, int]], partitions: Collection[int]) -> list[tuple[int, int]]:
    """Return the parts of ascending ranges of places in these partitions."""
    shift = 64 - _PARTITION_BITS
    runs: list[tuple[int, int]] = []
    for partition in sorted(partitions):
        low, high = partition << shift, (partition + 1) << shift
        runs.append((runs.pop()[0], high) if runs and runs[-1][1] == low else (low, high))
    parts = ((max(low, first), min(high, end)) for low, high in ranges for first, end in runs)
    return [part for part in parts if part[0] < part[1]]


def cuts(indexes: list[FileIndex], rows: int) -> list[tuple[int, int]]:
    """Return ranges of places that cover all files, with about `rows` rows each (a very large host
    has more).
    """
    if not indexes:
        return []
    first = np.concatenate([index.first for index in indexes])
    counts = np.concatenate([np.diff(index.start) for index in indexes])
    order = np.argsort(first, kind="stable")
    first, steps = first[order], np.cumsum(counts[order]) // max(rows, 1)
    at = first[1:][steps[1:] != steps[:-1]]
    edges = [0, *sorted({place for place in at.tolist() if place}), _ALL_PLACES]
    return list(pairwise(edges))
