"""The directory of all hosts of a worker, active and parked, as columns of numbers: 43 bytes per
host.

With a folder the columns are in mapped files (`MappedArrays`) and leave memory after each pass over
all hosts; they are a cache of the tables, built at each start.

A host keeps its slot; `pick` chooses the hosts to activate next. Of equally urgent hosts, those
with adjacent rows in the tables are picked together, starting after the last picked one: a refill
then reads a few ranges of the files instead of one per host. Every host is reached (elevator
algorithm of disk scheduling). Guarded by bench/large.py.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.frontier.rows.row_positions import places
from lycosa.processes.platform import allocate

Slots = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]

NEVER = 1 << 62
"""`next_at` of a host that has nothing to fetch."""

SETTABLE = ("waiting", "visited", "next_at", "last_visit_at")
"""The fields that `set` and `update` take."""

_COLUMNS = ("host_key", "partition", "active", *SETTABLE)
_FIRST_SIZE = 1_024
_MERGE_AT = 20_000  # new hosts in a dict before they are merged into the arrays; 2 MB
_SHED_EVERY = 16
_TOP_BITS = 16
_TIE_MS = 10_000  # hosts due within this time of each other are equally urgent
BEHIND_MS = _TIE_MS + 1_000
"""Offset of the due time that moves a host behind all that are due now."""

_BLOCK = 128 * 1_024  # hosts that are compared at a time: a pick needs 5 MB

_Number = TypeVar("_Number", bound=np.generic)


class MappedArrays:
    """Arrays by name, in mapped files that leave memory when they are not used.

    Without a folder, or when its disk is full, they are in memory. The files are unlinked: they end
    with the process, and no other process can open them. Released pages stay in the page cache
    while it has space, and return by page faults.
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


class HostOrder(StrEnum):
    """The order of hosts that are due."""

    TIME = "time"  # earliest due time first; overdue hosts are equal
    SERVERS = "servers"  # never visited ones first, then least recently visited first


class HostDirectory:
    """Hosts in columns with spare slots. Read them by slot; change them by the methods. Not
    thread-safe.

    Without a folder, or when its disk is full, the columns are in memory.

    Times are ms since 1970. `next_at`: when a URL of the host is due and may be requested (`NEVER`:
    not at all); `waiting`: URLs in state known; `last_visit_at`: 0 for never; `active`: in memory,
    so it is not picked.
    """

    _count: int
    _behind: int  # the next pick starts here: the position after the last one

    def __init__(self, folder: str | None = None) -> None:
        self._arrays = MappedArrays(folder)
        self._looks = 0  # number of calls of `slot`
        self.clear()

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of the columns and the index, on disk or in memory."""
        held = sum(getattr(self, name).itemsize * self._count for name in _COLUMNS)
        index = (self._order, self._sorted_keys, self._tops)
        return int(held + sum(array.nbytes for array in index))

    def slot(self, host_key: int) -> int | None:
        """Return the slot of a host, or None."""
        if not self._indexed:
            self._reindex()
        self._looks += 1
        if self._looks % _SHED_EVERY == 0:
            self._arrays.shed()  # each access reads 64 KB around it
        slot = self._new.get(host_key)
        if slot is not None:
            return slot
        top, key = host_key >> (64 - _TOP_BITS), np.uint64(host_key)
        first = self._tops.item(top)
        keys = self._sorted_keys[first : self._tops.item(top + 1)]
        place = int(keys.searchsorted(key))
        exists = place < keys.size and keys[place] == key
        return self._order.item(first + place) if exists else None

    def slots(self, host_keys: _Keys) -> Slots:
        """Return the slots of hosts; -1: unknown host."""
        if not self._indexed:
            self._reindex()
        order = np.argsort(host_keys)
        sorted_keys = host_keys[order]
        slots = np.full(host_keys.size, -1, np.int64)
        # by 1/256 of the keys, so that few of them are in memory
        step = 1 << (_TOP_BITS - 8)
        edges = np.searchsorted(
            sorted_keys, np.arange(256, dtype=np.uint64) << np.uint64(56)
        ).tolist()
        for number, (first, last) in enumerate(
            zip(edges, [*edges[1:], sorted_keys.size], strict=True)
        ):
            bucket = slice(self._tops[number * step], self._tops[(number + 1) * step])
            ordered = self._sorted_keys[bucket]
            if last > first and ordered.size:
                at = np.minimum(np.searchsorted(ordered, sorted_keys[first:last]), ordered.size - 1)
                slots[order[first:last]] = np.where(
                    ordered[at] == sorted_keys[first:last],
                    self._order[bucket][at].astype(np.int64),
                    -1,
                )
        if self._new:
            for place in np.flatnonzero(slots < 0).tolist():
                slots[place] = self._new.get(int(host_keys[place]), -1)
        self._arrays.shed()
        return slots

    def add(self, host_key: int, partition: int) -> int:
        """Return the slot of a host, which is added if it is unknown."""
        slot = self.slot(host_key)
        if slot is not None:
            return slot
        self._ensure_capacity(1)
        slot, self._count = self._count, self._count + 1
        self.host_key[slot] = host_key
        self.partition[slot] = partition
        self.next_at[slot] = NEVER
        self._new[host_key] = slot
        if len(self._new) >= _MERGE_AT:
            self._reindex()
        return slot

    def set(self, slot: int, **fields: float) -> None:
        """Change fields of a host.

        Raises:
            KeyError: not a field of `SETTABLE`.
            OverflowError: a value outside the range of the field.
        """
        for name, value in fields.items():
            if name not in SETTABLE:
                raise KeyError(name)
            getattr(self, name)[slot] = value

    def change(self, slot: int, *, waiting: int = 0, visited: int = 0) -> None:
        """Add to the counts of a host. Raises OverflowError if one would fall below 0; then none
        has changed.
        """
        counts = self.waiting.item(slot) + waiting, self.visited.item(slot) + visited
        if min(counts) < 0:
            raise OverflowError(f"counts of a host: {counts}")
        self.waiting[slot], self.visited[slot] = counts

    def wake(self, slot: int, at_ms: int) -> None:
        """Set the host due at this time, unless it is due earlier."""
        if at_ms < self.next_at[slot]:
            self.next_at[slot] = at_ms

    def set_none_due(self) -> None:
        """Make all hosts not due until `wake` or `wake_many`."""
        self.next_at[: self._count] = NEVER
        self._arrays.shed()

    def wake_many(self, host_keys: _Keys, at_ms: npt.NDArray[np.int64]) -> None:
        """Apply `wake` to distinct hosts; unknown ones are ignored."""
        slots = self.slots(host_keys)
        registered = slots >= 0
        slots = slots[registered]
        self.next_at[slots] = np.minimum(self.next_at[slots], at_ms[registered])
        self._arrays.shed()

    def set_back(self, by_ms: int) -> None:
        """Move due times earlier after the clock was set back."""
        for block in self._blocks():
            times = self.next_at[block]
            times[(times > 0) & (times < NEVER)] -= by_ms
        self._arrays.shed()

    def activate(self, slots: Slots | int, active: bool = True) -> None:
        """Mark hosts as active (never picked), or as parked again."""
        self.active[slots] = active

    def pick(
        self, now_ms: int, horizon_ms: int, limit: int, order: HostOrder = HostOrder.TIME
    ) -> Slots:
        """Return the most urgent parked hosts, in the order of the files.

        At most `limit` that are due by `now_ms` + `horizon_ms`.

        Does not mark them as active: call `activate` after their rows are read.
        """
        candidates: list[tuple[Slots, npt.NDArray[np.float64], _Keys]] = []
        due_in_all = 0
        for block in self._blocks() if limit > 0 else ():
            due: Slots = (
                np.flatnonzero((self.next_at[block] <= now_ms + horizon_ms) & ~self.active[block])
                + block.start
            )
            urgency, distance = (
                self._urgency(due, now_ms, order),
                self._places(due) - np.uint64(self._behind),
            )
            best = _best(urgency, distance, limit)
            due_in_all += due.size
            candidates.append((due[best], urgency[best], distance[best]))
        if not candidates:
            return np.zeros(0, np.int64)
        slots, urgency, distance = (
            np.concatenate(parts) for parts in zip(*candidates, strict=True)
        )
        best = _best(urgency, distance, limit)
        if 0 < best.size < due_in_all:
            ties = best[urgency[best] == urgency[best].max()]
            self._behind = (self._behind + int(distance[ties].max()) + 1) % (1 << 64)
        chosen: Slots = slots[best]
        chosen = chosen[np.argsort(self._places(chosen), kind="stable")]
        self._arrays.shed()
        return chosen

    def next_time(self) -> int | None:
        """Return the earliest due time of a parked host; None: there is none."""
        earliest = NEVER
        for block in self._blocks():
            earliest = int(self.next_at[block].min(initial=earliest, where=~self.active[block]))
        self._arrays.shed()
        return None if earliest >= NEVER else earliest

    def has_unvisited_due(self, now_ms: int) -> bool:
        """Return whether a parked host without a visited URL is due."""
        any_unvisited = any(
            (
                (self.next_at[block] <= now_ms) & ~self.active[block] & (self.visited[block] == 0)
            ).any()
            for block in self._blocks()
        )
        self._arrays.shed()
        return any_unvisited

    def extend(self, summaries: pl.DataFrame) -> None:
        """Add hosts that are not here yet, one in each row, parked.

        Columns as `lycosa.frontier.rows.row_reader.summary` gives them: partition, host_key,
        waiting, visited, due_at (becomes `next_at`, null: never).
        """
        self._ensure_capacity(summaries.height)
        rows = slice(self._count, self._count + summaries.height)
        for name in ("host_key", "partition", "waiting", "visited"):
            getattr(self, name)[rows] = summaries[name].to_numpy()
        self.next_at[rows] = summaries["due_at"].fill_null(NEVER).to_numpy()
        self._count += summaries.height
        self._indexed = False
        self._arrays.shed()

    def update(self, frames: Iterable[pl.DataFrame]) -> None:
        """Copy the columns in `SETTABLE` of these frames, by `host_key`.

        Unknown hosts are ignored.

        Null is 0. `next_at` is a host's own "not before": it only moves back, and only hosts that
        have something to fetch.
        """
        for frame in frames:
            slots = self.slots(frame["host_key"].to_numpy())
            registered = slots >= 0
            slots = slots[registered]
            for name in SETTABLE:
                if name in frame.columns:
                    values = frame[name].fill_null(0).to_numpy()[registered]
                    if name == "next_at":
                        before = self.next_at[slots]
                        values = np.where(before < NEVER, np.maximum(before, values), before)
                    getattr(self, name)[slots] = values
            self._arrays.shed()

    def _blocks(self) -> Iterator[slice]:
        """Yield parts of the columns that need little memory at once."""
        for first in range(0, self._count, _BLOCK):
            yield slice(first, min(first + _BLOCK, self._count))

    def _urgency(self, due: Slots, now_ms: int, order: HostOrder) -> npt.NDArray[np.float64]:
        """Return sort keys: smaller values come first."""
        if order is HostOrder.SERVERS:
            return np.where(self.visited[due] == 0, -1.0, self.last_visit_at[due] // _TIE_MS)
        return (np.maximum(self.next_at[due] - now_ms, 0) // _TIE_MS).astype(np.float64)

    def _places(self, slots: Slots) -> _Keys:
        return places(self.partition[slots], self.host_key[slots])

    def close(self) -> None:
        """Remove all hosts and close the files. The object is unusable afterwards."""
        self._arrays = MappedArrays()
        self.clear()

    def clear(self) -> None:
        """Remove all hosts."""
        self.host_key = self._arrays.zeros("host_key", np.uint64, _FIRST_SIZE)
        self.partition = self._arrays.zeros("partition", np.uint16, _FIRST_SIZE)
        self.active = self._arrays.zeros("active", np.bool_, _FIRST_SIZE)
        self.waiting = self._arrays.zeros("waiting", np.uint32, _FIRST_SIZE)
        self.visited = self._arrays.zeros("visited", np.uint32, _FIRST_SIZE)
        self.next_at = self._arrays.zeros("next_at", np.int64, _FIRST_SIZE)
        self.last_visit_at = self._arrays.zeros("last_visit_at", np.int64, _FIRST_SIZE)
        self._count = 0
        self._behind = 0
        self._reindex()

    def _ensure_capacity(self, more: int) -> None:
        size = self.host_key.size
        if self._count + more > size:
            wider = max(size + size // 8, self._count + more)
            for name in _COLUMNS:  # one after the other: only one column is in memory twice
                before = getattr(self, name)
                grown = self._arrays.zeros(name, before.dtype.type, wider)
                grown[: self._count] = before[: self._count]
                setattr(self, name, grown)

    def _reindex(self) -> None:
        """Rebuild the index: the slots by host key, and the start of each part of the keys."""
        keys, size = self.host_key[: self._count], max(self._count, 1)
        self._order = self._arrays.zeros("order", np.uint32, size)[: self._count]
        self._order[:] = np.argsort(keys)
        # a sorted copy: a look-up reads one page of it, instead of one for each key of the part
        self._sorted_keys = self._arrays.zeros("sorted_keys", np.uint64, size)[: self._count]
        self._sorted_keys[:] = keys[self._order]
        sizes = np.bincount(
            (keys >> np.uint64(64 - _TOP_BITS)).astype(np.int64), minlength=1 << _TOP_BITS
        )
        self._tops = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
        # host key -> slot of hosts that were added since
        self._new: dict[int, int] = {}
        self._indexed = True  # whether the index contains all hosts that are not in `_new`
        self._arrays.shed()


def _best(urgency: npt.NDArray[np.float64], distance: _Keys, limit: int) -> Slots:
    """Return the `limit` smallest by (urgency, distance), in no particular order."""
    if urgency.size <= limit:
        return np.arange(urgency.size)
    bar = np.partition(urgency, limit - 1)[limit - 1]
    sure, ties = np.flatnonzero(urgency < bar), np.flatnonzero(urgency == bar)
    left = limit - sure.size
    return np.concatenate([sure, ties[np.argpartition(distance[ties], left - 1)[:left]]])
