"""Limits one crawl call to unvisited URLs, or to those within some links of a start URL.

The scheduler calls `admits` before a row is added to an in-memory head, and uses `condition` to
select rows from the tables. URLs that are not admitted stay in state `known` for another call.
Memory: 10 bytes per reached URL.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.records import UrlRow, UrlState

_MERGE_AT = 100_000  # new keys in a dict before they are merged into the arrays; 10 MB
_MAX_DISTANCE = 65_535

Keys = npt.NDArray[np.uint64]


class Unvisited:
    """Admits every URL that was never visited, and nothing else.

    The schedule of visited pages is ignored.
    """

    def admits(self, row: UrlRow) -> bool:
        return row.state == UrlState.KNOWN and row.visited_at <= 0

    def condition(self) -> pl.Expr:
        """Return `admits` over the columns of `urls`."""
        never = pl.col("visited_at").cast(pl.Int64).fill_null(0) <= 0
        return (pl.col("state") == UrlState.KNOWN.value) & never


class Reach(Unvisited):
    """The unvisited URLs within `depth` known links of a start (None: any number of links).

    Distances are of URL keys, visited ones too: a path may lead through visited pages.
    """

    def __init__(self, depth: int | None, wake: Callable[[int], None]) -> None:
        """`wake` is called with the host key of a known URL when it is reached."""
        self.wake = wake
        self._depth = _MAX_DISTANCE if depth is None else min(depth, _MAX_DISTANCE)
        self._keys: Keys = np.zeros(0, np.uint64)
        self._distances: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._new: dict[int, int] = {}

    def distance(self, url_key: int) -> int | None:
        """Return the number of links from the start; None: not reached."""
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
        """Record the distance of a URL. Return whether it was not reached before, or only by a
        longer path.
        """
        if distance > self._depth:
            return False
        before = self.distance(url_key)
        if before is not None and before <= distance:
            return False
        self._new[url_key] = distance
        if len(self._new) >= _MERGE_AT:
            self._merge()
        return True

    def at(self, distance: int) -> Keys:
        """Return the keys of the URLs at this distance."""
        self._merge()
        keys: Keys = self._keys[self._distances == distance]
        return keys

    def admits(self, row: UrlRow) -> bool:
        return (
            not row.operation and super().admits(row) and self.distance(row.id.url_key) is not None
        )

    def condition(self) -> pl.Expr:
        inside = pl.col("url_key").map_batches(
            lambda keys: pl.Series(self._contains(keys.to_numpy())), return_dtype=pl.Boolean
        )
        return super().condition() & (pl.col("operation") == "") & inside

    def _contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        self._merge()
        if not self._keys.size:
            return np.zeros(keys.size, np.bool_)
        places = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.asarray(self._keys[places] == keys, np.bool_)

    def _merge(self) -> None:
        """Merge the new keys into the sorted ones. The newer distance of a key counts."""
        if not self._new:
            return
        keys = np.fromiter(self._new.keys(), np.uint64, len(self._new))
        distances = np.fromiter(self._new.values(), np.uint16, len(self._new))
        every = np.concatenate([keys, self._keys])  # `unique` gives the first of equal ones
        self._keys, first = np.unique(every, return_index=True)
        self._distances = np.concatenate([distances, self._distances])[first]
        self._new = {}
