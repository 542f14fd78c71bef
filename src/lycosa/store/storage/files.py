"""Data files and folders of a workspace, and file operations that all storages share."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import xxhash

from lycosa.core.errors import UsageError, WorkError, WorkspaceError
from lycosa.processes.disk import sync_file

TEMPORARY_SUFFIX = ".temporary"
"""Suffix of files that are being written. Listings omit them; a crash may leave some."""

_CHUNK = 1 << 20
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a `Path` keeps one of the two slashes


class DataFile(NamedTuple):
    """An immutable file that a log entry makes valid. `rows` is 0 for WARC and CDXJ files.

    `entry` is the log entry that determines the precedence of the rows: the newer entry wins within
    a key. In a log entry, 0 means the entry itself. In a `merged` file each row has its own
    entry in a last column, none later than `entry`.
    """

    path: str  # relative to the workspace
    rows: int = 0
    bytes: int = 0
    digest: str = ""  # xxh3_128 of the file's bytes, hexadecimal
    entry: int = 0
    merged: bool = False


class DataFiles:
    """The data files of a workspace: drafts on this machine, published files, cached copies.

    In a folder these three are the same file, so most methods do nothing by default. Elsewhere a
    draft is in a spool, and copies are in a cache of bounded size.
    """

    @abstractmethod
    def new_folder(self, relative: str) -> str:
        """Create a folder for the drafts of one commit; return its path. Raises FileExistsError."""

    @abstractmethod
    def draft_path(self, relative: str) -> str:
        """Return the path where a data file is to be written. Its folder exists."""

    @abstractmethod
    def publish(self, rows: Mapping[str, int], *, as_of: int = 0) -> list[DataFile]:
        """Store drafts (path -> number of rows) durably in the workspace.

        `as_of`: the last entry whose rows the files contain, for merged files.
        """

    def finalize(self, folder: str) -> None:
        """Release the drafts of a folder whose files are valid by a log entry."""

    def unpublish(self, relative: str) -> None:
        """Remove a published file that no entry names, but not its draft. No-op in a folder."""

    @abstractmethod
    def draft_names(self, folder: str) -> list[str]:
        """Return the sorted names of a folder's drafts on this machine."""

    @abstractmethod
    def draft_size(self, relative: str) -> int | None:
        """Return the bytes of a draft on this machine, None if there is none."""

    def drop_drafts(self, folder: str) -> None:
        """Remove a folder's drafts from this machine. No-op in a folder."""

    @abstractmethod
    def local_path(self, relative: str, size: int = 0, digest: str = "") -> str:
        """Return a path on this machine where a data file can be read.

        That is its draft, the file itself, or a copy in the cache. Call this for every use: a copy
        may leave the cache half an hour after the last call (open files stay readable). If the file
        does not exist, the path does not either. `size` and `digest` are those of the log entry.

        Raises:
            WorkspaceError: the file differs from `size` and `digest`.
        """

    def prefetch(self, files: Sequence[DataFile]) -> None:
        """Download files concurrently that `local_path` will be called for."""

    def drop_copies(self, paths: Sequence[str]) -> None:
        """Remove this machine's copies of files that were purged."""

    def retain_copies(self, paths: Collection[str]) -> None:
        """Remove this machine's copies of all other files that were not used recently."""

    def limit_cache(self, size: int) -> None:
        """Set the bytes that copies may take on this machine, for all of its processes."""

    @abstractmethod
    def digest(self, relative: str) -> str:
        """Return the xxh3_128 of a stored file, never of a copy. Raises FileNotFoundError."""


class PublishedFolders(Protocol):
    """Folders that appear in the workspace completely or not at all."""

    def staging_dir(self, relative: str) -> str:
        """Return a folder on this machine's disk in which folders are built."""
        ...

    def publish(self, source: str, relative: str) -> bool:
        """Publish a folder of files from `staging_dir` under a new name.

        True: `source` is now the workspace's, or may be removed. False: the name is taken, and
        `source` is unchanged.
        """
        ...

    def local_path(self, relative: str) -> str | None:
        """Return a path on this machine where a published folder can be read, None if absent."""
        ...

    def remove(self, relative: str) -> None:
        """Remove a folder and its contents. Readers see all of it or nothing."""
        ...


def inside(relative: str, root: str) -> str:
    """Return the path if it stays in the workspace.

    Raises:
        WorkspaceError: it is absolute or leads out of the workspace.
    """
    if relative.startswith("/") or ".." in relative.split("/"):
        raise WorkspaceError(
            f"{relative!r} is outside the workspace {root}: the log or a table "
            "is damaged; run `lycosa check`"
        )
    return relative


def file_digest(path: str) -> str:
    """Return the xxh3_128 of a file as 32 hexadecimal digits. Raises FileNotFoundError."""
    state = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


@contextmanager
def file_lock(path: str) -> Iterator[bool]:
    """Lock a file during the block; yields False if another process has locked it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield try_lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, mode: int) -> bool:
    """Lock an open file with `fcntl.LOCK_EX` or `LOCK_SH`; return False if that would block."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_local(target: object) -> None:
    """Raise UsageError if a file or folder to write is named by a URL, as in `s3://…`."""
    if _URL.match(str(target)):
        raise UsageError(
            f"{target} cannot be written: name a file or folder of this machine (mounted ones "
            "too), and copy it from there"
        )


@contextmanager
def write_errors(target: object, remedy: str = "") -> Iterator[None]:
    """Convert an OSError into WorkError: `target` cannot be written. `remedy`: advice.

    Raises:
        UsageError: the target is a URL.
    """
    require_local(target)
    try:
        yield
    except OSError as error:
        rest = f"; {remedy}" if remedy else ""
        raise WorkError(f"{target} cannot be written: {error.strerror or error}{rest}") from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a draft that replaces a file on success, synced: the file is written whole or not at
    all. A draft is removed on failure.

    Raises:
        OSError: the path is a folder, a device or a pipe, which a file must not replace.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "it is not a regular file")
    draft = path.parent / f".{path.name}.part"
    try:
        yield draft
        sync_file(str(draft))
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
