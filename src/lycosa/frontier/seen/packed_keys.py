"""A map of some hundred thousand recent 64-bit keys, with 16 bytes per key.

A dict takes 110 bytes a key. Here only the latest keys are in a dict; the others are sorted, with
a table of bytes that excludes nearly every absent key without a search.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

PACK_AT = 16_384
# top bits of the keys; with 100,000 keys, a tenth of the absent ones needs a binary search
_TABLE_BITS = 20

_Numbers = npt.NDArray[np.uint64]


class PackedKeys:
    """uint64 key -> payload of up to 64 bits. Not thread-safe."""

    def __init__(self) -> None:
        self._dict: dict[int, int] = {}
        self._keys = array("Q")  # sorted
        self._payloads = array("Q")  # of them
        # whether `_keys` may contain a key, by its top bits; empty without keys
        self._table = bytearray()

    def __len__(self) -> int:
        return len(self._keys) + len(self._dict)

    def get(self, key: int) -> int | None:
        """Return the payload of a key, or None. Hot path."""
        payload = self._dict.get(key)
        if payload is None and self._table and self._table[key >> (64 - _TABLE_BITS)]:
            place = bisect_left(self._keys, key)
            if place < len(self._keys) and self._keys[place] == key:
                return self._payloads[place]
        return payload

    def put(self, key: int, payload: int) -> None:
        """Set the payload of a key."""
        if self._table and self._table[key >> (64 - _TABLE_BITS)]:
            place = bisect_left(self._keys, key)
            if place < len(self._keys) and self._keys[place] == key:
                self._payloads[place] = payload
                return
        self._dict[key] = payload
        if len(self._dict) >= PACK_AT:
            self._pack()

    def sorted(self) -> tuple[_Numbers, _Numbers]:
        """Return all keys in order, and their payloads; valid until the next `put`."""
        self._pack()
        return np.frombuffer(self._keys, np.uint64), np.frombuffer(self._payloads, np.uint64)

    def _pack(self) -> None:
        if not self._dict:
            return
        count = len(self._dict)
        keys = np.concatenate(
            [np.frombuffer(self._keys, np.uint64), np.fromiter(self._dict, np.uint64, count)]
        )
        payloads = np.concatenate(
            [
                np.frombuffer(self._payloads, np.uint64),
                np.fromiter(self._dict.values(), np.uint64, count),
            ]
        )
        if not self._table:
            self._table = bytearray(1 << _TABLE_BITS)
        np.frombuffer(self._table, np.uint8)[
            (keys[-count:] >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)
        ] = 1
        order = np.argsort(keys)
        self._keys, self._payloads = (
            array("Q", keys[order].tobytes()),
            array("Q", payloads[order].tobytes()),
        )
        self._dict = {}
