"""Several tables read side by side in the order of their keys: what belongs to a key comes
together, in bounded memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import polars as pl

from lycosa.store.tables.schema import SORT

Key = tuple[int, int, int]
"""Of `SORT`: partition, host_key, url_key."""


def side_by_side(streams: Sequence[Iterator[pl.DataFrame]]) -> Iterator[list[pl.DataFrame]]:
    """Of every stream the rows of one range of keys, range after range.

    A stream's frames come in key order, all rows of a key in one frame (`LiveTables.ordered`). A
    stream without rows in a range gives its columns without rows; one that never had a frame, an
    empty frame without columns.
    """
    feeds = [_Feed(stream) for stream in streams]
    while True:
        ends = [last for last in map(_Feed.last, feeds) if last is not None]
        if not ends:
            return
        cut = min(ends)
        yield [feed.through(cut) for feed in feeds]


class _Feed:
    """A stream of frames, of which all rows up to a key are taken at a time."""

    def __init__(self, frames: Iterator[pl.DataFrame]) -> None:
        self._frames = frames
        self._rows = pl.DataFrame()

    def last(self) -> Key | None:
        """The last key that is at hand; None at the end."""
        while not self._rows.height:
            frame = next(self._frames, None)
            if frame is None:
                return None
            self._rows = frame
        return self._key(self._rows.height - 1)

    def through(self, cut: Key) -> pl.DataFrame:
        """The rows up to a key, itself included."""
        rows = self._rows
        count = bisect_right(range(rows.height), cut, key=self._key)
        self._rows = rows[count:]
        return rows[:count]

    def _key(self, place: int) -> Key:
        partition, host_key, url_key = (self._rows.get_column(name)[place] for name in SORT)
        return partition, host_key, url_key
