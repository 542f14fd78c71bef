"""A workspace in a folder on a file system, local or mounted: create-if-absent by link (or rename
without replacing), fsync, rename.

`os.link` fails when the name is taken, whoever came first, which "look, then write" does not.
Nothing here goes through fsspec: it has neither link nor fsync, and importing it would cost every
command a tenth of a second.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import xxhash

from lycosa.core.errors import WorkspaceError

ASIDE_SUFFIX = ".aside"
"""Ends the names of files that are being written: readers pass over them, a crash may leave some
behind.
"""

_CHUNK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1  # linux/fcntl.h, linux/fs.h


class Published(NamedTuple):
    """A file that lies in the workspace: its size, and the xxh3_128 of its bytes as 32 hexadecimal
    digits.
    """

    bytes: int
    digest: str


class Wanted(NamedTuple):
    """A data file that is to be read, with what the log says of it (0 and "" where that is not
    known).
    """

    path: str
    bytes: int = 0
    digest: str = ""


class LocalStorage:
    """A folder on a local (or shared POSIX) file system; the promises are those of
    `lycosa.store.storage.storage.Storage`.
    """

    on_disk = True

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, relative: str) -> str:
        """The absolute path of a file of the workspace.

        Raises:
            WorkspaceError: `relative` is absolute or leads out of the workspace.
        """
        return os.path.join(self.root, inside(relative, self.root))

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Create a file with this content if its name is free; True if this call created it.

        When it returns, the file and its name are on disk. An `OSError` says that the outcome is
        not known: read the file back.
        """
        target = self.path(relative)
        folder = os.path.dirname(target)
        aside = os.path.join(folder, f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        try:
            _write(aside, target, content, mode, sync=True)
            try:
                _give_name(aside, target)
            except FileExistsError:
                return False
        finally:
            Path(aside).unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        """Write a file that is not part of the protocol (owner.json): whole for every reader, but
        forced to disk only with `sync`.
        """
        target = self.path(relative)
        aside = os.path.join(os.path.dirname(target), f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        try:
            _write(aside, target, content, mode, sync=sync)
            os.replace(aside, target)
        finally:
            Path(aside).unlink(missing_ok=True)
        if sync:
            sync_folder(os.path.dirname(target))

    def read(self, relative: str) -> bytes | None:
        """The content of a file, or None if there is none. What is no file (a pipe, a device:
        neither need end) is an empty one.
        """
        try:
            descriptor = os.open(self.path(relative), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            with open(descriptor, "rb", buffering=0) as file:
                return file.read()
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path(relative))
        return b""

    def size(self, relative: str) -> int | None:
        """Bytes of a file, or None if there is none."""
        try:
            return os.stat(self.path(relative)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, relative: str) -> list[str]:
        """The sorted names in a folder, files being written left out; empty if there is no such
        folder.
        """
        try:
            return sorted(
                name for name in os.listdir(self.path(relative)) if not name.endswith(ASIDE_SUFFIX)
            )
        except FileNotFoundError:
            return []

    def files_below(self, relative: str) -> list[str]:
        """The paths of all files below a folder, sorted, those being written among them."""
        root = self.path(relative)
        found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        return sorted(os.path.join(relative, os.path.relpath(path, root)) for path in found)

    def modified_at(self, relative: str) -> int | None:
        """When a file was last written, in milliseconds since 1970 by the storage's clock; None if
        there is none.
        """
        try:
            return os.stat(self.path(relative)).st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make_folder(self, relative: str, *, fresh: bool = False) -> str:
        """Create a folder and its parents, their names on disk. With `fresh`, raises
        FileExistsError if it is there.
        """
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

    def remove_empty_below(self, relative: str) -> int:
        """Remove a folder, and those in it, as far as they hold no file. Returns how many."""
        walk = os.walk(self.path(relative), topdown=False)
        return sum(self.remove_folder(os.path.relpath(folder, self.root)) for folder, _, _ in walk)

    def digest(self, relative: str) -> str:
        """The xxh3_128 of a file as 32 hexadecimal digits. Raises FileNotFoundError."""
        return file_digest(self.path(relative))

    def local(self, relative: str, size: int = 0, digest: str = "") -> str:
        """The file's absolute path."""
        return self.path(relative)

    def bring(self, files: Sequence[Wanted]) -> None:
        """Nothing: the files are here."""

    def fresh_folder(self, relative: str) -> str:
        """A new folder of the workspace. Raises FileExistsError."""
        return self.make_folder(relative, fresh=True)

    def place(self, relative: str) -> str:
        """The file's absolute path; its folder is there."""
        self.make_folder(os.path.dirname(relative))
        return self.path(relative)

    def publish(self, paths: Sequence[str]) -> list[Published]:
        """Put the files and their names on disk."""
        published = []
        for path in paths:
            self.sync(path)
            published.append(Published(self.size(path) or 0, self.digest(path)))
        for folder in sorted({os.path.dirname(path) for path in paths}):
            self.sync_folder(folder)
        return published

    def settle(self, folder: str) -> None:
        """Nothing: the drafts are the files."""

    def drafts(self, folder: str) -> list[str]:
        """The names in the folder: a draft lies where the file does."""
        return self.names(folder)

    def draft_size(self, relative: str) -> int | None:
        """Bytes of a file, or None if there is none."""
        return self.size(relative)

    def withdraw(self, relative: str) -> None:
        """Nothing: the draft is the file."""

    def forget(self, paths: Sequence[str]) -> None:
        """Nothing: there are no copies."""

    def retain(self, paths: Collection[str]) -> None:
        """Nothing: there are no copies."""

    def drop_drafts(self, folder: str) -> None:
        """Nothing: the drafts are the files."""

    def publish_folder(self, source: str, relative: str) -> bool:
        """Rename it into its place, all of it on disk."""
        for name in os.listdir(source):
            sync_file(os.path.join(source, name))
        sync_folder(source)
        target = self.path(relative)
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise
        sync_folder(os.path.dirname(target))
        return True

    def local_folder(self, relative: str) -> str | None:
        """The folder's absolute path, if it is there."""
        path = self.path(relative)
        return path if os.path.isdir(path) else None

    def remove_tree(self, relative: str) -> None:
        """Rename it away, so that nobody finds half of it, then remove it."""
        path = self.path(relative)
        aside = os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        with suppress(FileNotFoundError):  # whoever builds here clears such folders away too
            shutil.rmtree(aside)

    def workshop(self, relative: str) -> str:
        """That folder of the workspace."""
        return self.make_folder(relative)

    def scratch(self) -> str:
        """The workspace's folder `run`."""
        return self.make_folder("run")

    def lock_path(self, relative: str) -> str:
        """The path in the workspace, whose folder the caller sees to. How far machines share locks,
        their file system says.
        """
        return self.path(relative)

    def prove(self) -> None:
        """Nothing: a file system that links knows whether the name was there."""

    def limit_cache(self, size: int) -> None:
        """Nothing: there are no copies."""

    def sync(self, relative: str) -> None:
        """Put a file's bytes on disk."""
        sync_file(self.path(relative))

    def sync_folder(self, relative: str) -> None:
        """Put the names in a folder on disk."""
        sync_folder(self.path(relative))


def inside(relative: str, root: str) -> str:
    """The path, if it stays in the workspace.

    Raises:
        WorkspaceError: it is absolute or leads out of it.
    """
    if relative.startswith("/") or ".." in relative.split("/"):
        raise WorkspaceError(
            f"{relative!r} is outside the workspace {root}: the log or a table "
            "is damaged; run `lycosa check`"
        )
    return relative


def file_digest(path: str) -> str:
    """The xxh3_128 of a file on this machine as 32 hexadecimal digits. Raises FileNotFoundError."""
    state = xxhash.xxh3_128()
    for chunk in _chunks(path):
        state.update(chunk)
    return state.hexdigest()


def sync_folder(path: str) -> None:
    """fsync a folder: the names of new files are on disk when it returns."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """fsync a file: its bytes are on disk when it returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _write(path: str, named: str, content: bytes, mode: int, *, sync: bool) -> None:
    """Raises OSError, which says the name that the file would have had."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
            if sync:
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = named
        raise


def _give_name(aside: str, target: str) -> None:
    """Give a file its name if that is free.

    Where the file system has no hard links (exFAT, some network and FUSE file systems), Linux
    renames without replacing instead.

    Raises:
        FileExistsError: the name is taken.
        OSError: the file system can do neither.
    """
    try:
        os.link(aside, target)
        return
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if (
        rename is None
        or rename(_AT_FDCWD, os.fsencode(aside), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
        != 0
    ):
        number = ctypes.get_errno() if rename is not None else errno.ENOTSUP
        raise OSError(number, os.strerror(number), target)
