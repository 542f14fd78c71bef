"""What the store asks of the place where a workspace lies, and which places there are.

A workspace lies in a folder (`lycosa.store.storage.local`), on S3 and its kin (`s3_storage`), or on
HDFS (`hdfs_storage`); the last two reach theirs through fsspec. Each has its own create-if-absent,
since fsspec's "look, then write" lets two writers win.

Data files are immutable. They are written on this machine (`place`), then put into the workspace
(`publish`), and count when a log entry names them (`settle` follows it). They are read on this
machine (`local`). In a folder all these are the same path; elsewhere they are a draft in a spool,
an object, and a copy in a cache that is bounded by bytes.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection, Sequence
from typing import Protocol

from lycosa.core.errors import UsageError
from lycosa.store.storage.local import LocalStorage as LocalStorage
from lycosa.store.storage.local import Published, Wanted

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_REMOTE = {
    "s3": ("s3", "s3"),
    "webhdfs": ("hdfs", "hdfs"),
    "swebhdfs": ("hdfs", "hdfs"),
}


class Storage(Protocol):
    """Where a workspace lies. Paths are relative to it and use `/`. Any thread may call any of it.

    Every method raises WorkspaceError for a path that leads out of the workspace, and `OSError`
    (elsewhere than in a folder: `StorageError`) when storage fails; of a call that changes
    something the outcome is then not known.
    """

    @property
    def root(self) -> str:
        """The workspace's absolute path, or its URL. Never holds a credential."""
        ...

    @property
    def on_disk(self) -> bool:
        """Whether the workspace's files are files of this machine, so that an open one is seen by
        others and locks can be held.
        """
        ...

    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool:
        """Create a file with this content if its name is free; True if this call created it, and
        then it is safe.

        False: the name is taken, elsewhere than in a folder perhaps by this very call, sent again
        after a lost answer. Whoever needs to know puts an id into the content and reads it back, as
        the log does; so too after an `OSError`.
        """
        ...

    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None:
        """Write a file that is not part of the protocol: whole for every reader, the old one or the
        new one. With `sync` it is safe when this returns.
        """
        ...

    def read(self, relative: str) -> bytes | None:
        """The content of a file as it is now, or None if there is none. Not for data files."""
        ...

    def size(self, relative: str) -> int | None:
        """Bytes of a file in the workspace, or None if there is none."""
        ...

    def names(self, relative: str) -> list[str]:
        """The sorted names in a folder, files being written left out; empty if there is no such
        folder. May lack what is new.
        """
        ...

    def files_below(self, relative: str) -> list[str]:
        """The paths of all files below a folder, sorted, those being written among them. May lack
        what is new.
        """
        ...

    def modified_at(self, relative: str) -> int | None:
        """When a file was last written, in milliseconds since 1970 by the storage's clock; None if
        there is none.
        """
        ...

    def make_folder(self, relative: str) -> str:
        """See to it that a folder is there; returns its absolute path or URL."""
        ...

    def remove(self, relative: str) -> None:
        """Remove a file if it is there, and its draft and copy on this machine."""
        ...

    def remove_folder(self, relative: str) -> bool:
        """Remove a folder if it is there and empty; True if this call did."""
        ...

    def remove_empty_below(self, relative: str) -> int:
        """Remove a folder, and those in it, as far as they hold no file. Returns how many."""
        ...

    def digest(self, relative: str) -> str:
        """The xxh3_128 of a file's bytes as they lie in the workspace now. Raises
        FileNotFoundError.
        """
        ...

    def local(self, relative: str, size: int = 0, digest: str = "") -> str:
        """A path on this machine where a data file can be read: its draft, the file itself, or a
        copy in the cache.

        Ask anew for every use: a copy may leave the cache when it was not asked for in half an hour
        (what is open stays readable). If there is no such file, neither is there one at the path.
        `size` and `digest`, if given, must be those of the file.

        Raises:
            WorkspaceError: the file has other bytes than the log says.
        """
        ...

    def bring(self, files: Sequence[Wanted]) -> None:
        """Fetch what `local` will be asked for, side by side."""
        ...

    def fresh_folder(self, relative: str) -> str:
        """A new folder on this machine for the drafts of one commit. Raises FileExistsError."""
        ...

    def place(self, relative: str) -> str:
        """The path on this machine where a data file of that name is to be written; its folder is
        there.
        """
        ...

    def publish(self, paths: Sequence[str]) -> list[Published]:
        """Put drafts into the workspace, and see that they are there: when this returns, the
        machine may burn.
        """
        ...

    def settle(self, folder: str) -> None:
        """A log entry names what was published of a folder: its drafts are not needed any more."""
        ...

    def drafts(self, folder: str) -> list[str]:
        """The sorted names in a folder as far as they are drafts on this machine."""
        ...

    def draft_size(self, relative: str) -> int | None:
        """Bytes of a draft on this machine, or None if there is none."""
        ...

    def withdraw(self, relative: str) -> None:
        """Remove what was published and is named by no entry; the draft stays. In a folder, where
        they are one, nothing.
        """
        ...

    def forget(self, paths: Sequence[str]) -> None:
        """Remove this machine's copies of files that must not be kept, used or not."""
        ...

    def retain(self, paths: Collection[str]) -> None:
        """Remove this machine's copies of all but these files, as far as nobody here used them of
        late.
        """
        ...

    def drop_drafts(self, folder: str) -> None:
        """Remove a folder's drafts from this machine, where they are not the files themselves."""
        ...

    def publish_folder(self, source: str, relative: str) -> bool:
        """Put a folder of files of `workshop` into the workspace as a whole, under a name that
        nobody has; True if this call did.

        `source` is the workspace's then, or may be removed. False: the name was taken, `source` is
        as it was.
        """
        ...

    def local_folder(self, relative: str) -> str | None:
        """A path on this machine where a whole folder can be read that `publish_folder` put there;
        None if there is none.
        """
        ...

    def remove_tree(self, relative: str) -> None:
        """Remove a folder and all in it, published folders out of readers' sight first. What is
        open stays readable.
        """
        ...

    def workshop(self, relative: str) -> str:
        """A folder on this machine's disk for what is put together before it is published; in the
        workspace, if that is a folder.
        """
        ...

    def scratch(self) -> str:
        """A folder on this machine's disk for working files of a process."""
        ...

    def lock_path(self, relative: str) -> str:
        """The path of a file on this machine for `flock`; it holds for the machine alone unless the
        workspace is a folder.
        """
        ...

    def sync_folder(self, relative: str) -> None:
        """Put the names in a folder on disk, where `create` has not done so, its answer being
        lost.
        """
        ...

    def prove(self) -> None:
        """Try what everything rests on: that a name is created once. Raises UsageError if this
        place lets two writers win.
        """
        ...

    def limit_cache(self, size: int) -> None:
        """How many bytes the copies of this workspace's files on this machine may take; known to
        other processes here from now on.
        """
        ...


def open_storage(location: str) -> Storage:
    """The storage behind a workspace's location: a path, `file://…`, `s3://BUCKET/PREFIX` or
    `webhdfs://HOST:PORT/PATH`. Asks it nothing.

    Raises:
        UsageError: another kind of storage, which would need a create-if-absent of its own; a
        location that holds a password; a path
            that is no UTF-8, or relative to a folder that is no more; or the packages that reach it
            are not installed.
    """
    scheme = _SCHEME.match(location)
    if scheme is None or scheme[1].lower() == "file":
        path = location[len(scheme[0]) :] if scheme else location
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
        return LocalStorage(absolute)
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
    module, extra = _REMOTE[name]
    try:
        opened: Storage = importlib.import_module(f"lycosa.store.storage.{module}").open_at(
            name, rest
        )
    except ImportError as error:
        raise UsageError(
            f"{name}:// needs packages that are not installed ({error.name}): pip "
            f"install 'lycosa[{extra}]'"
        ) from None
    return opened
