"""What S3 and HDFS have in common: drafts in a spool on this machine, copies in a cache, locks of
this machine.

    <cache>/<place>-<workspace>/files/      copies (`lycosa.store.storage.cache`)
                                spool/      drafts: data/00000003-1/ with the open WARC, base/…,
                                delta/… work/       what is put together before it is published;
                                whole published folders (the index) run/        locks, and working
                                files of processes

The folder's name comes from the workspace's place and from what its workspace.json says, so that a
workspace made anew at an old place finds no file of the old one. The spool is no cache: it holds
what a killed worker had fetched and not committed, and the next worker on this machine takes it up.
Removing it costs fetching that again.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import xxhash

from lycosa.core.errors import StorageError, UsageError
from lycosa.store.storage.cache import FileCache, cache_root
from lycosa.store.storage.local import ASIDE_SUFFIX, Published, Wanted, file_digest, inside

IDENTITY = "workspace.json"
_MANIFEST = "published.json"
_AT_ONCE = 8
"""Files that are sent or fetched side by side: one connection does some 50 to 100 MB/s, and a
commit has about nine files.
"""


class RemoteStorage(ABC):
    """A workspace that is reached over a network; the promises are those of
    `lycosa.store.storage.storage.Storage`.
    """

    on_disk = False

    def __init__(self, root: str) -> None:
        self.root = root

    @abstractmethod
    def create(self, relative: str, content: bytes, *, mode: int = 0o644) -> bool: ...

    @abstractmethod
    def replace(
        self, relative: str, content: bytes, *, mode: int = 0o644, sync: bool = False
    ) -> None: ...

    @abstractmethod
    def size(self, relative: str) -> int | None: ...

    @abstractmethod
    def names(self, relative: str) -> list[str]: ...

    @abstractmethod
    def files_below(self, relative: str) -> list[str]: ...

    @abstractmethod
    def modified_at(self, relative: str) -> int | None: ...

    @abstractmethod
    def make_folder(self, relative: str) -> str: ...

    @abstractmethod
    def remove_folder(self, relative: str) -> bool: ...

    @abstractmethod
    def remove_empty_below(self, relative: str) -> int: ...

    @abstractmethod
    def _read(self, relative: str) -> bytes | None:
        """The content of a small file."""

    @abstractmethod
    def _remove(self, relative: str) -> None:
        """Remove a file of the workspace if it is there."""

    @abstractmethod
    def _send(self, source: str, relative: str) -> None:
        """Put a file of this machine into the workspace, in place of one that may be there. Whole
        for every reader.
        """

    @abstractmethod
    def _fetch(self, relative: str, target: str) -> None:
        """Copy a file of the workspace to a path on this machine. Raises FileNotFoundError."""

    def read(self, relative: str) -> bytes | None:
        """The content of a file as it is now, or None if there is none."""
        if "_cache" in self.__dict__:
            self._cache.hold()
        return self._read(relative)

    def remove(self, relative: str) -> None:
        """Remove a file, its draft and its copy here."""
        self._remove(relative)
        self._draft(relative).unlink(missing_ok=True)
        self._cache.drop(relative)

    def digest(self, relative: str) -> str:
        """The xxh3_128 of the bytes in the workspace: fetched anew, whatever the cache holds.
        Raises FileNotFoundError.
        """
        self._cache.drop(relative)
        size = self.size(relative)
        if size is None:
            raise FileNotFoundError(f"{self.root}/{relative}")
        return file_digest(
            self._cache.fetch(relative, lambda target: self._fetch(relative, target), size, "")
        )

    def local(self, relative: str, size: int = 0, digest: str = "") -> str:
        """Its draft on this machine, else a copy. What a log entry names (`size` is given) is
        always a copy, since its draft may be settled before the caller opens it.
        """
        draft = self._draft(relative)
        try:
            drafted = os.stat(draft).st_size
        except FileNotFoundError:
            drafted = -1
        if drafted >= 0:
            if not size:
                return str(draft)
            if drafted == size and (copy := self._cache.adopt(relative, str(draft))) is not None:
                return copy
        found = self._cache.find(relative)
        if found is not None and (not size or os.path.getsize(found) == size):
            return found
        known = size or self.size(relative)
        try:
            if known is not None:
                return self._cache.fetch(
                    relative, lambda target: self._fetch(relative, target), known, digest
                )
        except FileNotFoundError:
            pass  # whoever opens the path is told so
        self._cache.drop(relative)
        return self._cache.path(relative)

    def bring(self, files: Sequence[Wanted]) -> None:
        """Fetch those that are not here, some side by side."""
        missing = [
            file
            for file in files
            if not os.path.exists(self._cache.path(file.path))
            and not self._draft(file.path).exists()
        ]
        if len(missing) > 1:
            with ThreadPoolExecutor(_AT_ONCE, "fetch") as pool:
                list(pool.map(lambda file: self.local(*file), missing))

    def fresh_folder(self, relative: str) -> str:
        """A new folder in the spool. Raises FileExistsError."""
        folder = self._draft(relative)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        return str(folder)

    def place(self, relative: str) -> str:
        """The file's place in the spool."""
        path = self._draft(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    def publish(self, paths: Sequence[str]) -> list[Published]:
        """Send the drafts, some side by side, and ask for their sizes."""
        if len(paths) < 2:
            return [self._publish(path) for path in paths]
        with ThreadPoolExecutor(_AT_ONCE, "send") as pool:
            return list(pool.map(self._publish, paths))

    def settle(self, folder: str) -> None:
        """Drafts of tables become copies, since they will be read before long; others go. Another
        process may settle or drop the same folder meanwhile: the entry counts, so nothing here
        fails.
        """
        for name in self.drafts(folder):
            if name.endswith(".parquet"):
                self._cache.adopt(f"{folder}/{name}", str(self._draft(f"{folder}/{name}")))
        self.drop_drafts(folder)

    def drafts(self, folder: str) -> list[str]:
        """The names of a folder in the spool."""
        try:
            return sorted(
                name for name in os.listdir(self._draft(folder)) if not name.endswith(ASIDE_SUFFIX)
            )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def draft_size(self, relative: str) -> int | None:
        """Bytes of a file in the spool."""
        try:
            return os.stat(self._draft(relative)).st_size
        except FileNotFoundError:
            return None

    def withdraw(self, relative: str) -> None:
        """Remove the file from the workspace alone."""
        self._remove(relative)

    def forget(self, paths: Sequence[str]) -> None:
        """Remove copies."""
        for path in paths:
            self._cache.drop(path)

    def retain(self, paths: Collection[str]) -> None:
        """Remove copies of other files."""
        self._cache.retain(paths)

    def drop_drafts(self, folder: str) -> None:
        """Remove a folder from the spool."""
        shutil.rmtree(self._draft(folder), ignore_errors=True)

    def publish_folder(self, source: str, relative: str) -> bool:
        """Send all its files, then create the file that names them: by it the folder counts, and by
        it alone readers find them.

        Who else publishes under this name has files of his own, so that nothing is mixed.
        """
        if self.size(f"{relative}/{_MANIFEST}") is not None:
            return False
        attempt = uuid.uuid4().hex
        names = sorted(os.listdir(source))
        with ThreadPoolExecutor(_AT_ONCE, "send") as pool:
            sizes = list(
                pool.map(
                    lambda name: self._confirm(
                        os.path.join(source, name), f"{relative}/{attempt}/{name}"
                    ),
                    names,
                )
            )
        manifest = {"attempt": attempt, "files": dict(zip(names, sizes, strict=True))}
        if not self._is_ours(f"{relative}/{_MANIFEST}", json.dumps(manifest).encode()):
            for name in names:
                self._remove(f"{relative}/{attempt}/{name}")
            return False
        target = self._whole(relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():  # a reader here may have fetched it meanwhile
            os.rename(source, target)
        return True

    def local_folder(self, relative: str) -> str | None:
        """The folder as it was published from here, or as it is fetched now."""
        target = self._whole(relative)
        content = self._read(f"{relative}/{_MANIFEST}")
        if content is None:
            return None
        if target.is_dir():
            return str(target)
        manifest = json.loads(content)
        folder, files = f"{relative}/{manifest['attempt']}", dict(manifest["files"])
        aside = target.with_name(f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        aside.mkdir(parents=True)
        try:
            with ThreadPoolExecutor(_AT_ONCE, "fetch") as pool:
                list(
                    pool.map(lambda name: self._fetch(f"{folder}/{name}", str(aside / name)), files)
                )
            if any(os.stat(aside / name).st_size != size for name, size in files.items()):
                raise StorageError(
                    f"{self.root}/{relative}: the file sizes differ from those in its {_MANIFEST}"
                )
            with suppress(OSError):  # another process of this machine was first
                os.rename(aside, target)
            self._drop_copies_beside(relative)
        except FileNotFoundError:
            return None  # removed while it was fetched
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return str(target)

    def _drop_copies_beside(self, relative: str) -> None:
        """Remove copies of folders that are not in the workspace any more."""
        parent = os.path.dirname(relative)
        there = {*self.names(parent), os.path.basename(relative)}
        for path in self._whole(parent).iterdir():
            if path.name.isdigit() and path.name not in there:
                shutil.rmtree(path, ignore_errors=True)

    def remove_tree(self, relative: str) -> None:
        """Remove the files by which published folders count, then the rest, then the copies
        here.
        """
        self._remove(f"{relative}/{_MANIFEST}")
        for path in sorted(
            self.files_below(relative), key=lambda path: not path.endswith(_MANIFEST)
        ):
            self._remove(path)
        shutil.rmtree(self._whole(relative), ignore_errors=True)

    def workshop(self, relative: str) -> str:
        """A folder beside the cache."""
        return _made(self._home / "work" / inside(relative, self.root))

    def scratch(self) -> str:
        """A folder beside the cache."""
        return _made(self._home / "run")

    def lock_path(self, relative: str) -> str:
        """A file beside the cache: it locks out processes of this machine."""
        path = self._home / inside(relative, self.root)
        _made(path.parent)
        return str(path)

    def sync_folder(self, relative: str) -> None:  # noqa: B027
        """Nothing: what can be read is safe."""

    def prove(self) -> None:
        """Create a name twice."""
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.create(probe, b"1")
            refused = not self.create(probe, b"2")
        finally:
            self._remove(probe)
        if not refused:
            raise UsageError(
                f"{self.root}: this store ignores `If-None-Match: *`, so two writers can create "
                "the same object and a workspace "
                "would lose commits; use another store, or a newer version of it"
            )

    def limit_cache(self, size: int) -> None:
        """Write the bound beside the cache."""
        self._cache.limit(size)

    @cached_property
    def _home(self) -> Path:
        identity = self._read(IDENTITY) or b""
        place = xxhash.xxh3_64_hexdigest(self.root.encode())
        return cache_root() / f"{place}-{xxhash.xxh3_64_hexdigest(identity)}"

    @cached_property
    def _cache(self) -> FileCache:
        return FileCache(self._home)

    def _draft(self, relative: str) -> Path:
        return self._home / "spool" / inside(relative, self.root)

    def _whole(self, relative: str) -> Path:
        return self._home / "work" / inside(relative, self.root)

    def _publish(self, relative: str) -> Published:
        draft = str(self._draft(relative))
        size = self._confirm(draft, relative)
        return Published(size, file_digest(draft))

    def _confirm(self, source: str, relative: str) -> int:
        self._send(source, relative)
        due, found = os.stat(source).st_size, self.size(relative)
        if found != due:
            raise StorageError(
                f"{self.root}/{relative}: {due} bytes were sent, but {found or 'none'} are stored"
            )
        return due

    def _is_ours(self, relative: str, content: bytes) -> bool:
        """`create`, for content that holds an id: whether it is ours that is there now."""
        try:
            if self.create(relative, content):
                return True
        except StorageError:
            present = self._read(relative)
            if present is None:
                raise
            return present == content
        return self._read(relative) == content


def _made(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
