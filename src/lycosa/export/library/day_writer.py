"""One day of one language in the library: a folder of files, each of which appears whole or not at
all.

    xml/zh/2026-11-21/zh-2026-11-21-00000.xml   and following, about 64 MB each
                      index.json                what is there, written last; without it the day is
                      not finished

While a day is written, `.progress.json` says which of its files are whole and with which document
they ended, so that an export that was killed goes on with the file it was at. Both name the
`fingerprint` of what the day holds: a day that holds the same is left as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any

from lycosa.archive.warc.writer import sync_folder
from lycosa.export.library.formats import Format

INDEX = "index.json"
_PROGRESS = ".progress.json"
_HELD_BYTES = 128 * 1024  # that wait before they are written to the open file

Place = tuple[int, int, int, str]
"""Of a document within its day: partition, host_key, url_key, collection."""


@dataclass(slots=True, frozen=True)
class ShelfFile:
    """A file that is whole. `last` is its last document."""

    name: str
    documents: int
    bytes: int
    sha1: str
    last: Place


@dataclass(slots=True)
class _Open:
    """The file that is being written: only `parts` are in memory."""

    documents: int = 0
    size: int = 0
    held: int = 0
    parts: list[bytes] = field(default_factory=list)
    last: Place = (0, 0, 0, "")


class Shelf:
    """Writes a day's documents, given in their order.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self, folder: Path, kind: Format, language: str, day: str, fingerprint: str, file_bytes: int
    ) -> None:
        self._folder, self._kind, self._language, self._day = folder, kind, language, day
        self._fingerprint, self._file_bytes = fingerprint, file_bytes
        self.files: list[ShelfFile] = []
        self.kept = 0  # files that an earlier call had written
        self._file: _Open | None = None

    @classmethod
    def stands(cls, folder: Path, fingerprint: str) -> list[ShelfFile] | None:
        """The files of a day that is finished and holds this; None if there is none such."""
        document = _read(folder / INDEX)
        if document is None or document.get("fingerprint") != fingerprint:
            return None
        files = _files(document)
        if files is None or not _all_there(folder, files):
            return None
        (folder / _PROGRESS).unlink(missing_ok=True)  # killed between the index and this
        return files

    def begin(self) -> Place | None:
        """Have the folder ready; returns the last document that stands in files which are whole."""
        self._folder.mkdir(parents=True, exist_ok=True)
        document = _read(self._folder / _PROGRESS)
        files = (
            _files(document)
            if document is not None and document.get("fingerprint") == self._fingerprint
            else None
        )
        if files is not None and _all_there(self._folder, files):
            self.files, self.kept = files, len(files)
        else:
            self.files = []
            self._note_progress()
        (self._folder / INDEX).unlink(missing_ok=True)
        return self.files[-1].last if self.files else None

    def add(self, documents: Sequence[bytes], places: Sequence[Place]) -> None:
        """Take documents; the file is ended before the one that would make it too large."""
        for document, place in zip(documents, places, strict=True):
            file = self._file
            if (
                file is not None
                and file.size + len(document) + len(self._kind.footer) > self._file_bytes
            ):
                self._close(file)
                file = None
            if file is None:
                file = self._file = _Open()
                self._put(file, self._kind.header(self._language, self._day, len(self.files)))
                self._part.unlink(missing_ok=True)
            self._put(file, document)
            file.documents += 1
            file.last = place
            if file.held > _HELD_BYTES:
                self._flush(file)

    def finish(self) -> list[ShelfFile]:
        """End the last file, remove those of an earlier edition, and write the index."""
        if self._file is not None:
            self._close(self._file)
        names = {file.name for file in self.files} | {_PROGRESS}
        for path in self._folder.iterdir():
            if path.name not in names and path.name.lstrip(".").startswith(
                f"{self._language}-{self._day}-"
            ):
                path.unlink()
        _write(self._folder / INDEX, self._document())
        (self._folder / _PROGRESS).unlink(missing_ok=True)
        sync_folder(self._folder)
        return self.files

    @property
    def _name(self) -> str:
        return f"{self._language}-{self._day}-{len(self.files):05d}{self._kind.suffix}"

    @property
    def _part(self) -> Path:
        return self._folder / f".{self._name}.part"

    def _put(self, file: _Open, content: bytes) -> None:
        file.parts.append(content)
        file.size += len(content)
        file.held += len(content)

    def _flush(self, file: _Open) -> None:
        with open(self._part, "ab") as output:
            output.write(b"".join(file.parts))
        file.parts.clear()
        file.held = 0

    def _close(self, file: _Open) -> None:
        self._put(file, self._kind.footer)
        self._flush(file)
        part, name = self._part, self._name
        self._kind.finish(part)
        digest = sha1(usedforsecurity=False)
        with open(part, "r+b") as written:
            while block := written.read(2**20):
                digest.update(block)
            size = written.tell()
            os.fsync(written.fileno())
        os.replace(part, self._folder / name)
        sync_folder(self._folder)
        self.files.append(ShelfFile(name, file.documents, size, digest.hexdigest(), file.last))
        self._note_progress()
        self._file = None

    def _note_progress(self) -> None:
        _write(self._folder / _PROGRESS, self._document())

    def _document(self) -> dict[str, object]:
        return {
            "format": self._kind.name,
            "language": self._language,
            "date": self._day,
            "fingerprint": self._fingerprint,
            "documents": sum(file.documents for file in self.files),
            "bytes": sum(file.bytes for file in self.files),
            "files": [asdict(file) for file in self.files],
        }


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError):
        document = json.loads(path.read_bytes())
        return document if isinstance(document, dict) else None
    return None


def _files(document: dict[str, Any]) -> list[ShelfFile] | None:
    with suppress(KeyError, TypeError, ValueError):
        return [ShelfFile(**{**file, "last": _place(file["last"])}) for file in document["files"]]
    return None


def _place(value: Any) -> Place:
    partition, host_key, url_key, collection = value
    return int(partition), int(host_key), int(url_key), str(collection)


def _all_there(folder: Path, files: Sequence[ShelfFile]) -> bool:
    return all(
        (folder / file.name).is_file() and (folder / file.name).stat().st_size == file.bytes
        for file in files
    )


def _write(path: Path, document: dict[str, object]) -> None:
    aside = path.with_name(f".{path.name}.part")
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
