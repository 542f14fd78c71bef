"""One day of one language in the library: a folder of files, each complete or absent.

    xml/zh/2026-11-21/zh-2026-11-21-00000.xml   and following, about 64 MB each
                      index.json                the list of files, written last

While a day is written, `.progress.json` lists its complete files and their last documents, so that
an export continues after a kill. Both contain the `fingerprint` of the day; an unchanged day is not
written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lycosa.export.library.formats import Format
from lycosa.processes.disk import sync_folder
from lycosa.store.storage.files import whole_file

INDEX = "index.json"
_PROGRESS = ".progress.json"
_BUFFER_BYTES = 128 * 1024

Place = tuple[int, int, int, str]
"""The place of a document in its day: partition, host_key, url_key, collection."""


@dataclass(slots=True, frozen=True)
class DayFile:
    """A complete file. `last` is the place of its last document."""

    name: str
    documents: int
    bytes: int
    sha1: str
    last: Place


@dataclass(slots=True)
class _OpenFile:
    """The file that is being written: only `parts` are in memory."""

    path: Path
    documents: int = 0
    size: int = 0
    last: Place = (0, 0, 0, "")
    _parts: list[bytes] = field(default_factory=list)
    _buffered: int = 0

    def write(self, content: bytes) -> None:
        self._parts.append(content)
        self.size += len(content)
        self._buffered += len(content)
        if self._buffered > _BUFFER_BYTES:
            self.flush()

    def add(self, document: bytes, place: Place) -> None:
        self.write(document)
        self.documents += 1
        self.last = place

    def flush(self) -> None:
        with open(self.path, "ab") as output:
            output.write(b"".join(self._parts))
        self._parts.clear()
        self._buffered = 0


class DayWriter:
    """Writes the documents of a day in order.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self, folder: Path, kind: Format, language: str, day: str, fingerprint: str, file_bytes: int
    ) -> None:
        self._folder, self._kind, self._language, self._day = folder, kind, language, day
        self._fingerprint, self._file_bytes = fingerprint, file_bytes
        self.files: list[DayFile] = []
        self.resumed = 0  # files of an earlier call
        self._file: _OpenFile | None = None

    def resume(self) -> Place | None:
        """Prepare the folder; return the last document of the complete files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        files = _listed_files(self._folder, _PROGRESS, self._fingerprint)
        if files is None:
            self._save_progress()
        else:
            self.files, self.resumed = files, len(files)
        (self._folder / INDEX).unlink(missing_ok=True)
        return self.files[-1].last if self.files else None

    def add(self, documents: Sequence[bytes], places: Sequence[Place]) -> None:
        """Add documents. A file ends before the document that would make it too large."""
        for document, place in zip(documents, places, strict=True):
            file = self._file
            size = len(document) + len(self._kind.footer)
            if file is not None and file.size + size > self._file_bytes:
                self._close(file)
                file = None
            if file is None:
                file = self._file = _OpenFile(self._folder / f".{self._name}.part")
                file.path.unlink(missing_ok=True)
                file.write(self._kind.header(self._language, self._day, len(self.files)))
            file.add(document, place)

    def finish(self) -> list[DayFile]:
        """Complete the last file, remove obsolete ones, and write the index."""
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

    def _close(self, file: _OpenFile) -> None:
        file.write(self._kind.footer)
        file.flush()
        self._kind.finish(file.path)
        with open(file.path, "r+b") as written:
            digest = hashlib.file_digest(written, "sha1").hexdigest()
            size = written.tell()
            os.fsync(written.fileno())
        name = self._name
        os.replace(file.path, self._folder / name)
        sync_folder(self._folder)
        self.files.append(DayFile(name, file.documents, size, digest, file.last))
        self._save_progress()
        self._file = None

    def _save_progress(self) -> None:
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


def exported_files(folder: Path, fingerprint: str) -> list[DayFile] | None:
    """Return the files of an exported day, None unless it is complete with this fingerprint."""
    files = _listed_files(folder, INDEX, fingerprint)
    if files is not None:
        (folder / _PROGRESS).unlink(missing_ok=True)  # left by a kill after the index was written
    return files


def _listed_files(folder: Path, name: str, fingerprint: str) -> list[DayFile] | None:
    """Return the files in a list, None if it is absent, invalid, or of other content."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        document = json.loads((folder / name).read_bytes())
        if document["fingerprint"] != fingerprint:
            return None
        files = [DayFile(**{**file, "last": _place(file["last"])}) for file in document["files"]]
        if all((folder / file.name).stat().st_size == file.bytes for file in files):
            return files
    return None


def _place(value: Any) -> Place:
    partition, host_key, url_key, collection = value
    return int(partition), int(host_key), int(url_key), str(collection)


def _write(path: Path, document: dict[str, object]) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
