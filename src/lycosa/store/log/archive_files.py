"""The committed archive files by path, in columns: 44 bytes a file, not 400, for they are never
merged and a large crawl has a million.

A path in a data folder (`data/00000012-3/archive.warc.gz`) is two numbers; any other is kept as it
is.
"""

from __future__ import annotations

import operator
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

WARC_NAME = "archive.warc.gz"
CDXJ_NAME = "archive.cdxj"

_FOLDER_NAME = re.compile(r"^(\d{8,})-(\d+)\Z")
_FOLDER = re.compile(r"^data/(\d{8,11})-(0|[1-9]\d{0,6})/(.+)\Z")
_DIGEST = re.compile(r"^[0-9a-f]{32}\Z")
_DIGEST_BYTES = 16
_NUMBERS = 1 << 24  # of folders of one claim
_ODD = 1 << 63  # keys of paths that are kept as they are
# so many, or the fourth part, may be new or gone before the columns are put in order
_FEW, _RECENT = 1_024, 4


@dataclass(slots=True, frozen=True)
class ArchiveFile:
    """A WARC or CDXJ file that counts, and the entry that named it."""

    entry: int
    bytes: int
    digest: str


class ArchiveFiles(MutableMapping[str, ArchiveFile]):
    """Path -> file, in the order in which they were named. `name`: what files are called in data
    folders.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._clear()

    def _clear(self) -> None:
        self._keys, self._entries, self._sizes = array("Q"), array("Q"), array("Q")
        self._digests = bytearray()
        self._odd_paths: list[str] = []
        self._odd: dict[str, int] = {}  # path -> its place in that list
        self._odd_digests: dict[int, str] = {}  # by key
        self._sorted = array("I")  # places, by key, of all but the recent ones
        self._recent: dict[int, int] = {}  # key -> place
        self._gone: set[int] = set()  # places

    def document(self) -> dict[str, Any]:
        """All files in order, as JSON values: `folders` (`claim << 24 | number`) and `entries` as
        differences from one file to the next, `bytes`, `digests` in one string; in `odd` those of
        other forms, each with its place among all: [place, path, entry, bytes, digest]. A tenth of
        the time and half of the room that rows take: it is written with every hundredth entry.
        """
        places: Iterable[int] = range(len(self._keys))
        odd: list[list[Any]] = []
        keys, entries, sizes, digests = self._keys, self._entries, self._sizes, self._digests
        if self._gone or self._odd_paths or self._odd_digests:
            live = [place for place in places if place not in self._gone]
            strange = [
                self._keys[place] >= _ODD or self._keys[place] in self._odd_digests
                for place in live
            ]
            odd = [
                _row(number, *self._item(place))
                for number, place in enumerate(live)
                if strange[number]
            ]
            places = [place for number, place in enumerate(live) if not strange[number]]
            keys, entries, sizes = (
                array("Q", map(column.__getitem__, places)) for column in (keys, entries, sizes)
            )
            digests = bytearray().join(
                digests[place * _DIGEST_BYTES : (place + 1) * _DIGEST_BYTES] for place in places
            )
        return {
            "folders": _differences(keys),
            "entries": _differences(entries),
            "bytes": sizes.tolist(),
            "digests": digests.hex(),
            "odd": odd,
        }

    @classmethod
    def of_document(cls, name: str, document: Mapping[str, Any]) -> ArchiveFiles:
        """The inverse of `document`. Raises KeyError, TypeError, ValueError, OverflowError: it is
        none.
        """
        plain = cls(name)
        plain._keys, plain._entries = (
            array("Q", accumulate(document[column])) for column in ("folders", "entries")
        )
        plain._sizes, plain._digests = (
            array("Q", document["bytes"]),
            bytearray.fromhex(document["digests"]),
        )
        count = len(plain._keys)
        if (len(plain._entries), len(plain._sizes), len(plain._digests)) != (
            count,
            count,
            count * _DIGEST_BYTES,
        ):
            raise ValueError("its columns are of different lengths")
        ascending = all(earlier < later for earlier, later in pairwise(plain._keys))
        plain._sorted = array(
            "I", range(count) if ascending else sorted(range(count), key=plain._keys.__getitem__)
        )
        if not document["odd"]:
            return plain
        files, others = cls(name), iter(plain.items())
        for place, path, *rest in document["odd"]:
            while len(files) < place:
                path_before, file = next(others)
                files[path_before] = file
            files[path] = ArchiveFile(*rest)
        files.update(others)
        return files

    @property
    def total_bytes(self) -> int:
        """The size of all files together."""
        return sum(self._sizes) - sum(self._sizes[place] for place in self._gone)

    @property
    def nbytes(self) -> int:
        """What the columns take."""
        return sum(
            each.itemsize * len(each)
            for each in (self._keys, self._entries, self._sizes, self._sorted)
        ) + len(self._digests)

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone)

    def __iter__(self) -> Iterator[str]:
        gone = self._gone
        return (self._path(key) for place, key in enumerate(self._keys) if place not in gone)

    def __getitem__(self, path: str) -> ArchiveFile:
        return self._file(self._place(path))

    def __contains__(self, path: object) -> bool:
        key = self._key(path) if isinstance(path, str) else None
        return key is not None and self._find(key) is not None

    def __setitem__(self, path: str, file: ArchiveFile) -> None:
        key = self._key(path)
        if key is None:
            key = _ODD | len(self._odd_paths)
            self._odd[path] = len(self._odd_paths)
            self._odd_paths.append(path)
        place = self._find(key)
        is_plain = _DIGEST.match(file.digest) is not None
        digest = bytes.fromhex(file.digest) if is_plain else bytes(_DIGEST_BYTES)
        self._odd_digests.pop(key, None)
        if not is_plain:
            self._odd_digests[key] = file.digest
        if place is not None:
            self._entries[place], self._sizes[place] = file.entry, file.bytes
            self._digests[place * _DIGEST_BYTES : (place + 1) * _DIGEST_BYTES] = digest
            return
        self._recent[key] = len(self._keys)
        self._keys.append(key)
        self._entries.append(file.entry)
        self._sizes.append(file.bytes)
        self._digests += digest
        if len(self._recent) > max(_FEW, len(self._sorted) // _RECENT):
            self._settle()

    def __delitem__(self, path: str) -> None:
        place = self._place(path)
        self._recent.pop(self._keys[place], None)
        self._odd_digests.pop(self._keys[place], None)
        self._gone.add(place)
        if len(self._gone) > max(_FEW, len(self._keys) // _RECENT):
            self._compact()

    # -- places
    # ------------------------------------------------------------

    def _place(self, path: str) -> int:
        """Where a file is. Raises KeyError."""
        key = self._key(path)
        place = self._find(key) if key is not None else None
        if place is None:
            raise KeyError(path)
        return place

    def _find(self, key: int) -> int | None:
        place = self._recent.get(key)
        if place is not None:
            return place
        order, keys = self._sorted, self._keys
        at = bisect_left(order, key, key=keys.__getitem__)
        # one that is gone may have been named anew
        while at < len(order) and keys[order[at]] == key:
            if order[at] not in self._gone:
                return order[at]
            at += 1
        return None

    def _key(self, path: str) -> int | None:
        """None: it is of another form, and was never named."""
        match = _FOLDER.match(path)
        if match is not None and match[3] == self._name:
            claim, number = int(match[1]), int(match[2])
            if number < _NUMBERS and len(match[1]) == max(8, len(str(claim))):
                return claim * _NUMBERS + number
        odd = self._odd.get(path)
        return None if odd is None else _ODD | odd

    def _path(self, key: int) -> str:
        if key & _ODD:
            return self._odd_paths[key ^ _ODD]
        claim, number = divmod(key, _NUMBERS)
        return f"data/{claim:08d}-{number}/{self._name}"

    def _item(self, place: int) -> tuple[str, ArchiveFile]:
        return self._path(self._keys[place]), self._file(place)

    def _file(self, place: int) -> ArchiveFile:
        digest = self._odd_digests.get(self._keys[place])
        if digest is None:
            digest = self._digests[place * _DIGEST_BYTES : (place + 1) * _DIGEST_BYTES].hex()
        return ArchiveFile(self._entries[place], self._sizes[place], digest)

    # -- order
    # ------------------------------------------------------------

    def _settle(self) -> None:
        """Sort the recent ones in."""
        keys = self._keys
        self._sorted = array(
            "I", sorted((*self._sorted, *self._recent.values()), key=keys.__getitem__)
        )
        self._recent = {}

    def _compact(self) -> None:
        """Leave out what is gone."""
        rest = list(self.items())
        self._clear()
        for path, file in rest:
            self[path] = file


def _differences(numbers: array[int]) -> list[int]:
    return list(map(operator.sub, numbers, chain((0,), numbers)))


def _row(place: int, path: str, file: ArchiveFile) -> list[Any]:
    return [place, path, file.entry, file.bytes, file.digest]


def folder_numbers(name: str) -> tuple[int, int] | None:
    """`00000003-1` -> (3, 1): the claim and the number of a data folder; None for any other
    name.
    """
    match = _FOLDER_NAME.match(name)
    return (int(match[1]), int(match[2])) if match else None
