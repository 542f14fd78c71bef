"""Counts by key over tables of any size: parts are added up as they come, and memory holds one row
a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

_MAX_WAITING = 200_000  # rows of parts that are not added up yet


class Tally:
    """Adds up the columns `sums`, keeps the least of `least` and the greatest of `greatest`, for
    each of `keys`.

    A column `name` in `first` is carried along. Parts have all of these columns.
    """

    def __init__(
        self,
        keys: Sequence[str],
        sums: Sequence[str] = (),
        least: Sequence[str] = (),
        greatest: Sequence[str] = (),
        first: Sequence[str] = (),
    ) -> None:
        self._keys = list(keys)
        self._columns = [
            *(pl.col(name).sum() for name in sums),
            *(pl.col(name).min() for name in least),
            *(pl.col(name).max() for name in greatest),
            *(pl.col(name).first() for name in first),
        ]
        self._names = [*keys, *sums, *least, *greatest, *first]
        self._parts: list[pl.DataFrame] = []
        self._waiting = 0

    def add(self, part: pl.DataFrame) -> None:
        """Take one part; its rows may share keys."""
        if part.height:
            self._parts.append(part.select(self._names))
            self._waiting += part.height
            if self._waiting > _MAX_WAITING:
                self._parts = [self._added()]
                self._waiting = 0

    def result(self) -> pl.DataFrame | None:
        """One row a key, in the order of the keys; None if nothing came."""
        return self._added().sort(self._keys) if self._parts else None

    def _added(self) -> pl.DataFrame:
        return (
            pl.concat(self._parts, how="vertical_relaxed").group_by(self._keys).agg(self._columns)
        )
