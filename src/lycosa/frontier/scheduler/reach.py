"""Limits one call to a part of the due URLs.

The unvisited part of the web, or the URLs that a walk from a URL reaches.

The scheduler calls `admits` before a row gets into a head, and uses `condition` to select rows from
the tables. Excluded URLs stay known for another call. Memory: 10 bytes for each URL that the walk
reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.records import UrlRow, UrlState

_FOLD_AT = 100_000  # newly reached keys that wait in a dict; 10 MB
_FARTHEST = 65_535

Keys = npt.NDArray[np.uint64]


class Unvisited:
    """Admits every URL that was never visited, and nothing else.

    The schedule of visited pages is ignored.
    """

    def admits(self, row: UrlRow) -> bool:
        return row.state == UrlState.KNOWN and row.visited_at <= 0

    def condition(self) -> pl.Expr:
        """`admits` over the columns of `urls`."""
        never = pl.col("visited_at").cast(pl.Int64).fill_null(0) <= 0
        return (pl.col("state") == UrlState.KNOWN.value) & never


class Reach(Unvisited):
    """The unvisited URLs within `depth` links of a start, as far as is known now (None: any number
    of links).

    Distances are of URL keys, visited ones too: a walk leads through them.
    """

    def __init__(self, depth: int | None, wake: Callable[[int], None]) -> None:
        """`wake` is called with the host key of a URL that was known before it was reached."""
        self.wake = wake
        self._depth = _FARTHEST if depth is None else min(depth, _FARTHEST)
        self._keys: Keys = np.zeros(0, np.uint64)
        self._distances: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._new: dict[int, int] = {}

    def distance(self, url_key: int) -> int | None:
        """Links from the start; None: not reached."""
        reached = self._new.get(url_key)
        if reached is not None:
            return reached
        place = int(np.searchsorted(self._keys, np.uint64(url_key)))
        return (
            int(self._distances[place])
            if place < self._keys.size and int(self._keys[place]) == url_key
            else None
        )

    def put(self, url_key: int, distance: int) -> bool:
        """Note that a URL lies at this distance. True if that is new: it was not reached, or only
        by a longer way.
        """
        if distance > self._depth:
            return False
        before = self.distance(url_key)
        if before is not None and before <= distance:
            return False
        self._new[url_key] = distance
        if len(self._new) >= _FOLD_AT:
            self._fold()
        return True

    def at(self, distance: int) -> Keys:
        """The keys of the URLs at this distance."""
        self._fold()
        keys: Keys = self._keys[self._distances == distance]
        return keys

    def admits(self, row: UrlRow) -> bool:
        return (
            not row.operation and super().admits(row) and self.distance(row.id.url_key) is not None
        )

    def condition(self) -> pl.Expr:
        inside = pl.col("url_key").map_batches(
            lambda keys: pl.Series(self._hold(keys.to_numpy())), return_dtype=pl.Boolean
        )
        return super().condition() & (pl.col("operation") == "") & inside

    def _hold(self, keys: Keys) -> npt.NDArray[np.bool_]:
        self._fold()
        if not self._keys.size:
            return np.zeros(keys.size, np.bool_)
        places = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.asarray(self._keys[places] == keys, np.bool_)

    def _fold(self) -> None:
        """Merge the new keys into the sorted ones.

        Of a key twice the newer distance counts.
        """
        if not self._new:
            return
        keys = np.fromiter(self._new.keys(), np.uint64, len(self._new))
        distances = np.fromiter(self._new.values(), np.uint16, len(self._new))
        every = np.concatenate([keys, self._keys])  # `unique` gives the first of equal ones
        self._keys, first = np.unique(every, return_index=True)
        self._distances = np.concatenate([distances, self._distances])[first]
        self._new = {}
