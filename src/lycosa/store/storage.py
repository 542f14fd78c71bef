"""The one place that touches storage: create-if-absent, fsync, listing.

Each kind of storage has its own create-if-absent. On a file system it is "write aside, fsync, link": `os.link` fails when
the name is taken, whoever came first, which "look, then write" does not. Object stores and HDFS are refused until they have
theirs.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import xxhash

from lycosa.core.errors import UsageError, WorkspaceError

ASIDE_SUFFIX = ".aside"
"""Ends the names of files that are being written: readers pass over them, a crash may leave some behind."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_CHUNK = 1 << 20


class LocalStorage:
    """A folder on a local (or shared POSIX) file system. All paths are relative to `root` and use `/`."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, relative: str) -> str:
        """The absolute path of a file of the workspace.

        Raises:
            WorkspaceError: `relative` is absolute or leads out of the workspace.
        """
        if relative.startswith("/") or ".." in relative.split("/"):
            raise WorkspaceError(f"{relative!r} leads out of the workspace {self.root}: the log or a table is damaged; run `lycosa check`")
        return os.path.join(self.root, relative)

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Create a file with this content if its name is free; True if this call created it.

        When it returns, the file and its name are on disk. An `OSError` says that the outcome is not known: read the
        file back.
        """
        target = self.path(relative)
        folder = os.path.dirname(target)
        aside = os.path.join(folder, f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        try:
            _write(aside, content, mode, sync=True)
            try:
                os.link(aside, target)
            except FileExistsError:
                return False
        finally:
            Path(aside).unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def replace(self, relative: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file that is not part of the protocol (owner.json): whole for every reader, but not forced to disk."""
        target = self.path(relative)
        aside = os.path.join(os.path.dirname(target), f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        try:
            _write(aside, content, mode, sync=False)
            os.replace(aside, target)
        finally:
            Path(aside).unlink(missing_ok=True)

    def read(self, relative: str) -> bytes | None:
        """The content of a file, or None if there is none."""
        try:
            return Path(self.path(relative)).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, relative: str) -> int | None:
        """Bytes of a file, or None if there is none."""
        try:
            return os.stat(self.path(relative)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, relative: str) -> list[str]:
        """The sorted names in a folder, files being written left out; empty if there is no such folder."""
        try:
            return sorted(name for name in os.listdir(self.path(relative)) if not name.endswith(ASIDE_SUFFIX))
        except FileNotFoundError:
            return []

    def make_folder(self, relative: str, *, fresh: bool = False) -> str:
        """Create a folder and its parents, their names on disk. With `fresh`, raises FileExistsError if it is there."""
        target = os.path.normpath(self.path(relative))
        missing = []
        parent = os.path.dirname(target)
        while not os.path.isdir(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        for folder in (*reversed(missing), target):
            try:
                os.mkdir(folder)
            except FileExistsError:
                if not os.path.isdir(folder) or (fresh and folder == target):
                    raise
            else:
                sync_folder(os.path.dirname(folder))
        return target

    def remove(self, relative: str) -> None:
        """Remove a file if it is there."""
        Path(self.path(relative)).unlink(missing_ok=True)

    def remove_folder(self, relative: str) -> bool:
        """Remove a folder if it is there and empty; True if this call did."""
        try:
            os.rmdir(self.path(relative))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise
        return True

    def modified_at(self, relative: str) -> int | None:
        """When a file was last written, in milliseconds since 1970 by the storage's clock; None if there is none."""
        try:
            return os.stat(self.path(relative)).st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def files_below(self, relative: str) -> list[str]:
        """The paths of all files below a folder, sorted, those being written among them."""
        root = self.path(relative)
        found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        return sorted(os.path.join(relative, os.path.relpath(path, root)) for path in found)

    def sync(self, relative: str) -> None:
        """Put a file's bytes on disk."""
        descriptor = os.open(self.path(relative), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_folder(self, relative: str) -> None:
        """Put the names in a folder on disk."""
        sync_folder(self.path(relative))

    def digest(self, relative: str) -> str:
        """The xxh3_128 of a file as 32 hexadecimal digits. Raises FileNotFoundError."""
        state = xxhash.xxh3_128()
        for chunk in self._chunks(relative):
            state.update(chunk)
        return state.hexdigest()

    def _chunks(self, relative: str) -> Iterator[bytes]:
        with open(self.path(relative), "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def open_storage(location: str) -> LocalStorage:
    """The storage behind a workspace's location: a path or a `file://` URL.

    Raises:
        UsageError: a kind of storage for which this version has no create-if-absent of its own.
    """
    scheme = _SCHEME.match(location)
    if scheme and scheme[1].lower() != "file":
        raise UsageError(
            f"{location}: a workspace cannot lie on {scheme[1]}:// in this version; use a local folder, "
            f"or one that is mounted (-w /path/to/folder)"
        )
    path = location[len(scheme[0]) :] if scheme else location
    return LocalStorage(os.path.abspath(os.path.expanduser(path)))


def sync_folder(path: str) -> None:
    """fsync a folder: the names of new files are on disk when it returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: str, content: bytes, mode: int, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        if sync:
            os.fsync(file.fileno())
