"""The committed archive files by path, in columns: 40 bytes per file.

Archive files are never merged, and a large crawl has a million of them. A path in a data folder
(`data/00000012-3/archive.warc.gz`) is one number; other paths are stored as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from lycosa.store.storage.files import DataFile

WARC_NAME = "archive.warc.gz"
CDXJ_NAME = "archive.cdxj"

_FOLDER_NAME = re.compile(r"^(\d{8,})-(\d+)\Z")
_PATH = re.compile(r"^data/(\d{8,11})-(\d{1,7})/")
_DIGEST = re.compile(r"^[0-9a-f]{32}\Z")
_FOLDERS = 1 << 24  # per claim
_ROW = np.dtype([("key", "u8"), ("entry", "u8"), ("bytes", "u8"), ("digest", "V16")])
_NO_ROWS = np.empty(0, _ROW)
_MIN_CHANGES, _CHANGES_SHARE = 1_024, 16  # changes that are collected before rows are copied


class ArchiveFiles(MutableMapping[str, DataFile]):
    """Path -> file, ordered by claim and folder; paths of other forms are last.

    `name` is the name of the files in data folders.
    """

    def __init__(self, name: str, rows: np.ndarray[Any, Any] = _NO_ROWS) -> None:
        self._name = name
        self._rows = rows  # sorted by key
        self._changes: dict[int, DataFile | None] = {}  # key -> its file now, None: removed
        self._others: dict[str, DataFile] = {}  # other paths, or without an xxh3_128

    def document(self) -> dict[str, Any]:
        """Return all files as JSON values for a snapshot.

        `folders` (`claim << 24 | number`) and `entries` are differences from one file to the next,
        `digests` is one string. `others` are [path, entry, bytes, digest] of the other forms. This
        is written with every 100th entry.
        """
        rows = self._merged()
        return {
            "folders": np.diff(rows["key"], prepend=np.uint64(0)).tolist(),
            "entries": np.diff(rows["entry"].astype(np.int64), prepend=0).tolist(),
            "bytes": rows["bytes"].tolist(),
            "digests": rows["digest"].tobytes().hex(),
            "others": [
                [path, file.entry, file.bytes, file.digest]
                for path, file in sorted(self._others.items())
            ],
        }

    @classmethod
    def from_document(cls, name: str, document: Mapping[str, Any]) -> ArchiveFiles:
        """Read a `document`. Raises KeyError, TypeError, ValueError or OverflowError."""
        columns = {
            "key": np.cumsum(np.array(document["folders"], np.uint64), dtype=np.uint64),
            "entry": np.cumsum(np.array(document["entries"], np.int64)),
            "bytes": np.array(document["bytes"], np.uint64),
            "digest": np.frombuffer(bytes.fromhex(document["digests"]), "V16"),
        }
        rows = np.empty(len(columns["key"]), _ROW)
        for column, values in columns.items():
            if len(values) != len(rows):
                raise ValueError("its columns have different lengths")
            rows[column] = values
        if np.any(rows["key"][1:] <= rows["key"][:-1]):
            raise ValueError("its folders are not ascending")
        files = cls(name, rows)
        for path, entry, size, digest in document["others"]:
            files._others[path] = DataFile(path, 0, size, digest, entry)
        return files

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        others = sum(file.bytes for file in self._others.values())
        return int(self._merged()["bytes"].sum()) + others

    def __len__(self) -> int:
        return len(self._merged()) + len(self._others)

    def __iter__(self) -> Iterator[str]:
        yield from map(self._path, self._merged()["key"].tolist())
        yield from sorted(self._others)

    def __getitem__(self, path: str) -> DataFile:
        if path in self._others:
            return self._others[path]
        key = self._key(path)
        if key is None:
            raise KeyError(path)
        if key in self._changes:
            file = self._changes[key]
        else:
            rows = self._rows
            place = int(np.searchsorted(rows["key"], np.uint64(key)))
            file = None
            if place < len(rows) and rows["key"][place] == key:
                _, entry, size, digest = rows[place].tolist()
                file = DataFile(path, 0, size, digest.hex(), entry)
        if file is None:
            raise KeyError(path)
        return file

    def __setitem__(self, path: str, file: DataFile) -> None:
        if path in self:
            del self[path]
        key = self._key(path)
        if key is None or not _DIGEST.match(file.digest):
            self._others[path] = file
        else:
            self._change(key, file)

    def __delitem__(self, path: str) -> None:
        if self[path] is self._others.get(path):
            del self._others[path]
        else:
            self._change(self._key(path) or 0, None)

    def _change(self, key: int, file: DataFile | None) -> None:
        self._changes[key] = file
        if len(self._changes) > max(_MIN_CHANGES, len(self._rows) // _CHANGES_SHARE):
            self._merged()

    def _merged(self) -> np.ndarray[Any, Any]:
        """Return the rows with all changes applied."""
        if self._changes:
            changed = np.fromiter(self._changes, np.uint64, len(self._changes))
            added = [
                (key, file.entry, file.bytes, bytes.fromhex(file.digest))
                for key, file in self._changes.items()
                if file is not None
            ]
            unchanged = self._rows[~np.isin(self._rows["key"], changed)]
            rows = np.concatenate([unchanged, np.array(added, _ROW)])
            self._rows = rows[np.argsort(rows["key"], kind="stable")]
            self._changes = {}  # after `_rows`, for readers in other threads
        return self._rows

    def _key(self, path: str) -> int | None:
        """Return the number of a path in a data folder, None for other forms."""
        match = _PATH.match(path)
        key = int(match[1]) * _FOLDERS + int(match[2]) if match else None
        return key if key is not None and self._path(key) == path else None

    def _path(self, key: int) -> str:
        claim, number = divmod(key, _FOLDERS)
        return f"data/{claim:08d}-{number}/{self._name}"


def folder_numbers(name: str) -> tuple[int, int] | None:
    """Return claim and number of a data folder (`00000003-1` -> (3, 1)), None for other names."""
    match = _FOLDER_NAME.match(name)
    return (int(match[1]), int(match[2])) if match else None
