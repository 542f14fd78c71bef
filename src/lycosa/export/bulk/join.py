"""Read several tables side by side in the order of their keys, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import polars as pl

from lycosa.store.tables.schema import SORT

Key = tuple[int, int, int]
"""The values of `SORT`: partition, host_key, url_key."""


def side_by_side(streams: Sequence[Iterator[pl.DataFrame]]) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of each stream in the same range of keys, range by range.

    The frames of a stream are in key order, and one frame contains all rows of a key
    (`LiveTables.ordered`). A stream without rows in a range yields an empty frame with its columns,
    or without columns if it never had a frame.
    """
    feeds = [_Feed(stream) for stream in streams]
    while True:
        ends = [last for last in map(_Feed.last_key, feeds) if last is not None]
        if not ends:
            return
        end = min(ends)
        yield [feed.rows_until(end) for feed in feeds]


class _Feed:
    """A stream of frames that is read by ranges of keys."""

    def __init__(self, frames: Iterator[pl.DataFrame]) -> None:
        self._frames = frames
        self._rows = pl.DataFrame()

    def last_key(self) -> Key | None:
        """Return the last key in memory, None at the end."""
        while not self._rows.height:
            frame = next(self._frames, None)
            if frame is None:
                return None
            self._rows = frame
        return self._key(self._rows.height - 1)

    def rows_until(self, end: Key) -> pl.DataFrame:
        """Return and remove the rows up to a key, inclusive."""
        rows = self._rows
        count = bisect_right(range(rows.height), end, key=self._key)
        self._rows = rows[count:]
        return rows[:count]

    def _key(self, place: int) -> Key:
        partition, host_key, url_key = (self._rows.get_column(name)[place] for name in SORT)
        return partition, host_key, url_key
