"""The known URLs of a collection and their depths, with little memory.

`SeenUrls` is a map of URLs to depths. The key of a URL has 64 bits. It is stored with eight bits of
its host's key. They detect an equal key of another host's URL in 255 of 256 cases: that URL is
refused and counted, not treated as seen. A URL added since the last merge has 32 bits of its text
as well. Among 10 M URLs any two have equal keys with a chance of 3 in a million.

`SortedKeys` is its map of tens of millions of 64-bit keys to 16 bits. It has a sorted file with 8
bytes per key, and newer keys (`PackedKeys`), which are merged into a new file when there are many.
The file is split by the top 16 bits of the key, and the start of each part is in memory (0.5 MB). A
look-up reads one part (about 150 of 10 M keys) and bisects it. It uses `pread` instead of a
mapping: pages of a mapped file count as memory of the process, 64 KB around each look-up. The
unlinked file ends with the process. It is a cache of the tables, built from them at each start.

`PackedKeys` is a map of some hundred thousand recent keys, with 16 bytes per key. A dict takes 110
bytes a key. Here only the latest keys are in a dict; the others are sorted, with a table of bytes
that excludes nearly every absent key without a search. Guarded by bench/large.py.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.records import UrlId

KeyArray = npt.NDArray[np.uint64]
PayloadArray = npt.NDArray[np.uint16]

FOLD_AT = 150_000
"""New keys in memory (about 30 bytes each) before they are merged into the file; a merge of 10 M
keys takes 0.3 s.
"""

_WORD = 8  # bytes: the low 48 bits of the key, then the payload
_PAYLOAD_BITS = 16
_LOW_BITS = 48
_LOW_MASK = (1 << _LOW_BITS) - 1
_PARTS = 1 << (64 - _LOW_BITS)
_CHUNK = 128 * 1024  # words in memory at once when many are read
_SPILL_BITS = 6  # top bits by which loaded keys are partitioned
_SPILLED = np.dtype([("key", np.uint64), ("payload", np.uint16)])

_DEEP = 255  # depths from here on are in a dict
_DEPTH_BITS = 8
_STORED_BITS = 16  # depth and host; above them the text's

PACK_AT = 16_384
# top bits of the keys; with 100,000 keys, a tenth of the absent ones needs a binary search
_TABLE_BITS = 20


class SeenUrls:
    """The known URLs of one collection: 8 bytes of disk each in `folder`, and little memory.
    Without a folder all in memory.

    They are in a `SortedKeys`.
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


class SortedKeys:
    """uint64 key -> uint16 payload. Without a folder, keys added are kept in memory. Not
    thread-safe.

    A new key's payload may have more bits: they are stored until compaction. When the disk is full,
    compaction is deferred and memory grows: the next commit stops the crawl and reports the reason.
    """

    def __init__(self, folder: str | None = None, merge_at: int = FOLD_AT) -> None:
        self._file: BinaryIO | None = None
        self._folder = folder
        self._merge_at = merge_at
        self._merge_next = merge_at
        self._new = PackedKeys()
        # part -> its first word; the last entry is the number of words
        self._starts = array("q", bytes(8 * (_PARTS + 1)))

    def __len__(self) -> int:
        return self._starts[_PARTS] + len(self._new)

    def close(self) -> None:
        """Close the file, as deleting the object does.

        The object is unusable afterwards.
        """
        if self._file is not None:
            self._file.close()

    __del__ = close

    def get(self, key: int) -> int | None:
        """Return the payload of a key, or None. Hot path: once per link; 2 µs with 10 M keys."""
        payload = self._new.get(key)
        if payload is None and self._file is not None:
            position = self._locate(key)
            if position is not None:
                return position[1] & 0xFFFF
        return payload

    def put(self, key: int, payload: int) -> None:
        """Set the payload of a key."""
        if self._file is not None and self._new.get(key) is None:
            position = self._locate(key)
            if position is not None:
                os.pwrite(
                    self._file.fileno(),
                    _word(key, payload & 0xFFFF).to_bytes(_WORD, "little"),
                    position[0] * _WORD,
                )
                return
        self.add(key, payload)

    def add(self, key: int, payload: int) -> None:
        """Set the payload of a key that `get` did not find."""
        self._new.put(key, payload)
        if self._folder is not None and len(self._new) >= self._merge_next:
            self._try_merge()

    def load(self, batches: Iterable[tuple[KeyArray, PayloadArray]]) -> None:
        """Replace all keys; in any order, the first of equal keys is used.

        One batch and a sixty-fourth of the keys are in memory.

        Raises:
            OSError: the folder cannot be written to; nothing has changed.
        """
        spills = defaultdict[int, BinaryIO](self._unnamed)
        try:
            for keys, payloads in batches:
                _spill(spills, keys, payloads)
            self._replace(_sorted_parts(spills))
        finally:
            for spill in spills.values():
                spill.close()

    def fold(self) -> None:
        """Merge the new keys into the file now.

        Raises:
            OSError: the folder cannot be written to; nothing has changed.
        """
        if self._folder is None or not len(self._new):
            return
        self._replace(self._merged())
        self._merge_next = self._merge_at

    def _try_merge(self) -> None:
        try:
            self.fold()
        except OSError:
            self._merge_next = len(self._new) + self._merge_at

    def _locate(self, key: int) -> tuple[int, int] | None:
        """Return the position of a key's word in the file, and the word."""
        assert self._file is not None
        start, end = self._starts[key >> _LOW_BITS], self._starts[(key >> _LOW_BITS) + 1]
        if start == end:
            return None  # a new crawl has no file
        words = memoryview(
            os.pread(self._file.fileno(), (end - start) * _WORD, start * _WORD)
        ).cast("Q")
        place = bisect_left(words, (key & _LOW_MASK) << _PAYLOAD_BITS)
        if place < len(words) and words[place] >> _PAYLOAD_BITS == key & _LOW_MASK:
            return start + place, words[place]
        return None

    def _read(self, part: int, end_part: int) -> tuple[KeyArray, KeyArray]:
        """Return the keys and the words of some parts."""
        assert self._file is not None
        start, end = self._starts[part], self._starts[end_part]
        words = np.frombuffer(
            os.pread(self._file.fileno(), (end - start) * _WORD, start * _WORD), np.uint64
        )
        counts = np.diff(np.frombuffer(self._starts, np.int64)[part : end_part + 1])
        tops = np.repeat(np.arange(part, end_part, dtype=np.uint64) << np.uint64(_LOW_BITS), counts)
        return tops | (words >> np.uint64(_PAYLOAD_BITS)), words

    def _merged(self) -> Iterator[tuple[KeyArray, KeyArray]]:
        """Yield all keys and words, of the file and new, in order and in chunks."""
        keys, payloads = self._new.sorted()
        count, words = keys.size, _words(keys, (payloads & 0xFFFF).astype(np.uint16))
        if self._file is None:
            yield keys, words
            return
        starts = np.frombuffer(self._starts, np.int64)
        part = 0
        while part < _PARTS:
            end_part = max(
                part + 1, int(np.searchsorted(starts, starts[part] + _CHUNK, side="right")) - 1
            )
            first = int(np.searchsorted(keys, np.uint64(part << _LOW_BITS)))
            last = (
                count
                if end_part == _PARTS
                else int(np.searchsorted(keys, np.uint64(end_part << _LOW_BITS)))
            )
            stored, stored_words = self._read(part, end_part)
            places = np.searchsorted(stored, keys[first:last])
            yield (
                np.insert(stored, places, keys[first:last]),
                np.insert(stored_words, places, words[first:last]),
            )
            part = end_part

    def _replace(self, chunks: Iterable[tuple[KeyArray, KeyArray]]) -> None:
        """Replace the file by sorted chunks of keys and words."""
        counts = np.zeros(_PARTS + 1, np.int64)
        file = self._unnamed()
        try:
            for keys, words in chunks:
                counts[1:] += np.bincount(
                    (keys >> np.uint64(_LOW_BITS)).astype(np.int64), minlength=_PARTS
                )
                _write(file, words.tobytes())
        except BaseException:
            file.close()
            raise
        self.close()
        self._file, self._new = file, PackedKeys()
        self._starts = array("q", np.cumsum(counts).tobytes())

    def _unnamed(self) -> BinaryIO:
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)


def _word(key: int, payload: int) -> int:
    return (key & _LOW_MASK) << _PAYLOAD_BITS | payload


def _words(keys: KeyArray, payloads: PayloadArray) -> KeyArray:
    return (keys << np.uint64(_PAYLOAD_BITS)) | payloads.astype(np.uint64)


def _write(file: BinaryIO, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def _spill(spills: defaultdict[int, BinaryIO], keys: KeyArray, payloads: PayloadArray) -> None:
    tops = (keys >> np.uint64(64 - _SPILL_BITS)).astype(np.uint8)
    order = np.argsort(tops, kind="stable")
    rows = np.empty(keys.size, _SPILLED)
    rows["key"], rows["payload"] = keys[order], payloads[order]
    ends = np.cumsum(np.bincount(tops, minlength=1 << _SPILL_BITS))
    for top, rows_of_one in enumerate(np.split(rows, ends[:-1])):
        if rows_of_one.size:
            _write(spills[top], rows_of_one.tobytes())


def _sorted_parts(spills: Mapping[int, BinaryIO]) -> Iterator[tuple[KeyArray, KeyArray]]:
    for _, spill in sorted(spills.items()):
        size = spill.seek(0, os.SEEK_END)
        rows = np.frombuffer(os.pread(spill.fileno(), size, 0), _SPILLED)
        unsorted = np.ascontiguousarray(rows["key"])
        order = np.argsort(unsorted)
        keys = unsorted[order]
        first = np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size]
        # the first of equal keys is used: a stable sort, which takes three times as long
        if not first.all():
            order = np.argsort(unsorted, kind="stable")
        yield keys[first], _words(keys[first], rows["payload"][order][first])


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

    def sorted(self) -> tuple[KeyArray, KeyArray]:
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
