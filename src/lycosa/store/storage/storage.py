"""The interface to the place where a workspace is stored, and the kinds of places.

A workspace is a folder (`local`), a prefix of an object store, or a folder on HDFS (`hdfs`). Each
has its own create-if-absent: "check, then write", as fsspec does, lets two writers win.

`Storage` accesses objects by name: log entries, notes, listings. `Storage.files` manages the data
files of commits: they are written as drafts on this machine, published, and made valid by a log
entry. `Storage.folders` publishes whole folders, such as generations of the index.
"""

from __future__ import annotations

import importlib
import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

from lycosa.core.errors import UsageError
from lycosa.core.json_object import json_object
from lycosa.store.storage.files import DataFiles, PublishedFolders
from lycosa.store.storage.local import LocalStorage

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_OBJECTS, _HDFS = ("object_store", "s3"), ("hdfs", "hdfs")
_REMOTE = {"s3": _OBJECTS, "gs": _OBJECTS, "az": _OBJECTS, "webhdfs": _HDFS, "swebhdfs": _HDFS}
"""Scheme -> module of this package, extra that installs its packages."""


class Storage(Protocol):
    """The place where a workspace is stored. Paths are relative to it and use `/`.

    Any thread may call any method. All raise WorkspaceError for a path outside the workspace, and
    `OSError` (outside folders: `StorageError`) if storage fails; the outcome of a change is then
    unknown.
    """

    root: str
    """The absolute path or URL of the workspace, without credentials."""

    on_disk: bool
    """Whether the workspace's files are files of this machine: open files are visible to other
    processes, and locks can be held.
    """

    files: DataFiles
    folders: PublishedFolders

    @abstractmethod
    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Create a file durably if it does not exist.

        Return True if this call created it. False: it exists, outside folders perhaps from this
        call, which was repeated after a lost response. To find out, callers store an ID in the
        content and read it again, as after an `OSError`.
        """
        ...

    @abstractmethod
    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        """Write a file atomically; readers see the old or the new content. Durable with `sync`."""
        ...

    @abstractmethod
    def read(self, relative: str) -> bytes | None:
        """Return the content of a file, None if there is none. Not for data files."""
        ...

    @abstractmethod
    def size(self, relative: str) -> int | None:
        """Return the bytes of a file, None if there is none."""
        ...

    @abstractmethod
    def modified_at(self, relative: str) -> int | None:
        """Return when a file was written (ms since 1970, by the storage's clock) or None."""
        ...

    @abstractmethod
    def names(self, relative: str) -> list[str]:
        """Return the sorted names in a folder without files being written; empty if absent.

        A listing may lack recent files.
        """
        ...

    @abstractmethod
    def files_below(self, relative: str) -> list[str]:
        """Return the sorted paths of all files below a folder, files being written included.

        A listing may lack recent files.
        """
        ...

    @abstractmethod
    def make_folder(self, relative: str) -> str:
        """Create a folder if it does not exist; return its absolute path or URL."""
        ...

    @abstractmethod
    def remove(self, relative: str) -> None:
        """Remove a file if it exists, with its draft and copy on this machine."""
        ...

    @abstractmethod
    def remove_empty_folders(self, relative: str) -> int:
        """Remove a folder and its subfolders where they contain no file; return how many."""
        ...

    @abstractmethod
    def sync_folder(self, relative: str) -> None:
        """Make the names in a folder durable; needed if the response to `create` was lost."""
        ...

    @abstractmethod
    def verify_conditional_put(self) -> None:
        """Test that a name is created only once. Raises UsageError if two writers can win."""
        ...

    @abstractmethod
    def scratch_dir(self) -> str:
        """Return a folder on this machine's disk for working files of processes."""
        ...

    @abstractmethod
    def lock_path(self, relative: str) -> str:
        """Return the path of a file for `flock`. Outside folders it locks only this machine."""
        ...


def json_documents(storage: Storage, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name (without `.json`) and content of the JSON files in a folder, by name.

    The content of a damaged file is {}; the readers decide what that means.
    """
    for file in storage.names(folder):
        content = storage.read(f"{folder}/{file}") if file.endswith(".json") else None
        if content is not None:
            yield file.removesuffix(".json"), json_object(content)


def open_storage(location: str) -> Storage:
    """Return the storage of a workspace's location, without accessing it.

    A location is a path, `file://…`, `s3://BUCKET/PREFIX` (also `gs`, `az`), or
    `webhdfs://HOST:PORT/PATH`.

    Raises:
        UsageError: the kind of storage is not supported, the location contains a password, the path
            is not UTF-8 or relative to a deleted folder, or packages are not installed.
    """
    scheme = _SCHEME.match(location)
    typed = location.partition(":/")[0].lower()
    if scheme is None and typed in _REMOTE and not os.path.exists(f"{typed}:"):
        raise UsageError(f"{location!r} is incomplete: a URL starts with {typed}://")
    if scheme is None or scheme[1].lower() == "file":
        return LocalStorage(_absolute(location[len(scheme[0]) :] if scheme else location))
    name = scheme[1].lower()
    if name not in _REMOTE:
        raise UsageError(
            f"{name}:// cannot be used for a workspace: use a folder (mounted ones too), "
            "s3://BUCKET/PREFIX or webhdfs://HOST:PORT/PATH"
        )
    rest = location[len(scheme[0]) :]
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        raise UsageError(
            f"write the URL of a workspace on {name}:// without user, password, ? and #: "
            "credentials are read from the environment"
        )
    if {"", ".", ".."} & set(rest.strip("/").split("/")[1:]):
        raise UsageError(
            f"write the URL of a workspace on {name}:// without //, . and .. in its path"
        )
    module_name, extra = _REMOTE[name]
    try:
        module = importlib.import_module(f"lycosa.store.storage.{module_name}")
    except ImportError as error:
        raise UsageError(
            f"{name}:// needs packages that are not installed ({error.name}): pip "
            f"install 'lycosa[{extra}]'"
        ) from None
    opened: Storage = module.open_at(name, rest)
    return opened


def _absolute(path: str) -> str:
    try:
        absolute = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise UsageError(
            "the current folder was deleted: change to another folder, or specify the "
            "absolute path of the workspace"
        ) from None
    try:
        absolute.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{os.fsencode(absolute)!r} is not valid UTF-8, so tables cannot be "
            "read there: rename the folder"
        ) from None
    return absolute
