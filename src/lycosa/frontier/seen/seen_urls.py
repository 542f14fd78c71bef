"""The known URLs of a collection and their depths.

The key of a URL has 64 bits. It is stored with eight bits of its host's key. They detect an equal
key of another host's URL in 255 of 256 cases: that URL is refused and counted, not treated as seen.
A URL added since the last merge has 32 bits of its text as well. Among 10 M URLs any two have equal
keys with a chance of 3 in a million.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
import polars as pl

from lycosa.core.records import UrlId
from lycosa.frontier.seen.sorted_keys import FOLD_AT, KeyArray, PayloadArray, SortedKeys

_DEEP = 255  # depths from here on are in a dict
_DEPTH_BITS = 8
_STORED_BITS = 16  # depth and host; above them the text's


class SeenUrls:
    """The known URLs of one collection: 8 bytes of disk each in `folder`, and little memory.
    Without a folder all in memory.

    They are in a `lycosa.frontier.seen.sorted_keys.SortedKeys`.
    """

    def __init__(self, folder: str | None = None, merge_at: int = FOLD_AT) -> None:
        self._keys = SortedKeys(folder, merge_at)
        self._deep: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def close(self) -> None:
        """Close the file, as deleting the object does.

        The object is unusable afterwards.
        """
        self._keys.close()

    def depth(self, identity: UrlId) -> int | None:
        """Return the minimum depth of a known URL, or None.

        Raises:
            KeyError: another URL has this key.
        """
        payload = self._keys.get(identity.url_key)
        if payload is None:
            return None
        text = payload >> _STORED_BITS
        if payload >> _DEPTH_BITS & 0xFF != identity.host_key & 0xFF or (
            text and text != _text(identity.url)
        ):
            raise KeyError(identity.url)
        depth = payload & 0xFF
        return depth if depth < _DEEP else self._deep[identity.url_key]

    def put(self, identity: UrlId, depth: int, *, new: bool = False) -> None:
        """Add a URL, or set the depth of a known one. `new`: `depth` returned None for it."""
        payload = (
            _text(identity.url) << _STORED_BITS
            | (identity.host_key & 0xFF) << _DEPTH_BITS
            | min(depth, _DEEP)
        )
        (self._keys.add if new else self._keys.put)(identity.url_key, payload)
        if depth >= _DEEP:
            self._deep[identity.url_key] = depth

    def load(self, frames: Iterable[pl.DataFrame]) -> None:
        """Replace all URLs by those of frames with columns url_key, host_key, depth; one row per
        URL.

        One frame is in memory at a time; pass frames of about 300,000 rows.

        Raises:
            OSError: the folder cannot be written to; nothing has changed.
        """
        deep: dict[int, int] = {}

        def batches() -> Iterable[tuple[KeyArray, PayloadArray]]:
            for frame in frames:
                depths = frame["depth"].to_numpy()
                for row in np.flatnonzero(depths >= _DEEP).tolist():
                    deep[frame["url_key"][row]] = int(depths[row])
                checks = (frame["host_key"].to_numpy() & np.uint64(0xFF)).astype(np.uint16)
                yield (
                    frame["url_key"].to_numpy(),
                    checks << _DEPTH_BITS | np.minimum(depths, _DEEP).astype(np.uint16),
                )

        self._keys.load(batches())
        self._deep = deep


def _text(url: str) -> int:
    return crc32(url.encode()) or 1  # 0: unknown
