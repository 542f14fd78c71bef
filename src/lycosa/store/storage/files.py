"""Data files of a workspace, and the file operations on this machine that all storages share."""

from __future__ import annotations

import os
from typing import NamedTuple

import xxhash

from lycosa.core.errors import WorkspaceError

ASIDE_SUFFIX = ".aside"
"""Suffix of files that are being written. Listings omit them; a crash may leave some behind."""

_CHUNK = 1 << 20


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


def sync_file(path: str, flags: int = 0) -> None:
    """fsync a file: its bytes are on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """fsync a folder: the names of new files are on disk when this returns."""
    sync_file(path, os.O_DIRECTORY)
