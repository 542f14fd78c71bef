"""Common parts of remote storages: drafts in a spool, cached copies, locks of this machine.

    <cache>/<place>-<workspace>/files/  cached copies (`lycosa.store.storage.cache`)
                                spool/  drafts: data/00000003-1/ with the open WARC file, base/…
                                work/   folders that are built or were published, such as the index
                                run/    locks and working files of processes

The folder's name depends on the workspace's location and on its workspace.json, so a new workspace
at an old location never sees files of the old one. The spool is not a cache: it contains the
uncommitted exchanges of a killed worker, and the next worker on this machine recovers them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import xxhash

from lycosa.core.errors import StorageError, UsageError
from lycosa.store.storage.cache import FileCache, cache_root
from lycosa.store.storage.files import TEMPORARY_SUFFIX, DataFile, DataFiles, file_digest, inside
from lycosa.store.storage.storage import Storage

IDENTITY = "workspace.json"
_MANIFEST = "published.json"
_TRANSFERS = 8
"""Concurrent transfers: one connection reaches 50 to 100 MB/s, a commit has about nine files."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class RemoteStorage(Storage):
    """A workspace that is reached over a network; see `Storage`."""

    on_disk = False
    files: RemoteDataFiles

    def __init__(self, root: str) -> None:
        self.root = root
        self.files = RemoteDataFiles(self)
        self.folders = RemoteFolders(self)

    @abstractmethod
    def read_object(self, relative: str) -> bytes | None:
        """Return the content of a small file."""

    @abstractmethod
    def remove_object(self, relative: str) -> None:
        """Remove a file of the workspace if it exists."""

    @abstractmethod
    def upload(self, source: str, relative: str) -> None:
        """Store a file of this machine atomically, replacing an existing one."""

    @abstractmethod
    def download(self, relative: str, target: str) -> None:
        """Copy a file of the workspace to this machine. Raises FileNotFoundError."""

    @cached_property
    def local_dir(self) -> Path:
        """The folder of this workspace's cache, spool and locks on this machine."""
        identity = self.read_object(IDENTITY) or b""
        place = xxhash.xxh3_64_hexdigest(self.root.encode())
        return cache_root() / f"{place}-{xxhash.xxh3_64_hexdigest(identity)}"

    def read(self, relative: str) -> bytes | None:
        self.files.keep_alive()
        return self.read_object(relative)

    def remove(self, relative: str) -> None:
        self.remove_object(relative)
        self.files.drop_local(relative)

    def sync_folder(self, relative: str) -> None:
        """Do nothing: files that can be read are durable."""

    def verify_conditional_put(self) -> None:
        """Create a name twice."""
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            self.create(probe, b"1")
            refused = not self.create(probe, b"2")
        finally:
            self.remove_object(probe)
        if not refused:
            raise UsageError(
                f"{self.root}: this store ignores `If-None-Match: *`, so two writers can create "
                "the same object and a workspace "
                "would lose commits; use another store, or a newer version of it"
            )

    def scratch_dir(self) -> str:
        return _made(self.local_dir / "run")

    def lock_path(self, relative: str) -> str:
        path = self.local_dir / inside(relative, self.root)
        _made(path.parent)
        return str(path)

    def upload_verified(self, source: str, relative: str) -> int:
        """Upload a file, compare the stored size, and return it."""
        self.upload(source, relative)
        size, stored = os.stat(source).st_size, self.size(relative)
        if stored != size:
            raise StorageError(
                f"{self.root}/{relative}: {size} bytes were sent, but {stored or 'none'} are stored"
            )
        return size


class RemoteDataFiles(DataFiles):
    """Data files with drafts in the spool and copies in the cache."""

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage

    def new_folder(self, relative: str) -> str:
        folder = self._draft(relative)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        return str(folder)

    def draft_path(self, relative: str) -> str:
        path = self._draft(relative)
        _made(path.parent)
        return str(path)

    def publish(self, rows: Mapping[str, int], *, as_of: int = 0) -> list[DataFile]:
        def publish(item: tuple[str, int]) -> DataFile:
            draft = str(self._draft(item[0]))
            size = self._storage.upload_verified(draft, item[0])
            return DataFile(*item, size, file_digest(draft), as_of, as_of > 0)

        return _concurrently(publish, list(rows.items()))

    def finalize(self, folder: str) -> None:
        """Make copies of table drafts, which are read soon; remove the others. Another process may
        finalize or drop the folder at the same time, so nothing here fails.
        """
        for name in self.draft_names(folder):
            if name.endswith(".parquet"):
                self._cache.adopt(f"{folder}/{name}", str(self._draft(f"{folder}/{name}")))
        self.drop_drafts(folder)

    def unpublish(self, relative: str) -> None:
        self._storage.remove_object(relative)

    def draft_names(self, folder: str) -> list[str]:
        try:
            return sorted(
                name
                for name in os.listdir(self._draft(folder))
                if not name.endswith(TEMPORARY_SUFFIX)
            )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def draft_size(self, relative: str) -> int | None:
        try:
            return os.stat(self._draft(relative)).st_size
        except FileNotFoundError:
            return None

    def drop_drafts(self, folder: str) -> None:
        shutil.rmtree(self._draft(folder), ignore_errors=True)

    def local_path(self, relative: str, size: int = 0, digest: str = "") -> str:
        """Return the path of a draft or copy. A committed file (`size` is given) is always a copy:
        its draft may be finalized before the caller opens it.
        """
        drafted = self.draft_size(relative)
        draft = str(self._draft(relative))
        if drafted is not None and not size:
            return draft
        if drafted == size and drafted and (copy := self._cache.adopt(relative, draft)) is not None:
            return copy
        cached = self._cache.find(relative)
        if cached is not None and (not size or os.path.getsize(cached) == size):
            return cached
        expected = size or self._storage.size(relative)
        with suppress(FileNotFoundError):  # opening the returned path raises it
            if expected is not None:
                return self._download(relative, expected, digest)
        self._cache.drop(relative)
        return self._cache.path(relative)

    def prefetch(self, files: Sequence[DataFile]) -> None:
        missing = [
            file
            for file in files
            if not os.path.exists(self._cache.path(file.path))
            and not self._draft(file.path).exists()
        ]
        if len(missing) > 1:
            _concurrently(lambda file: self.local_path(file.path, file.bytes, file.digest), missing)

    def drop_copies(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._cache.drop(path)

    def retain_copies(self, paths: Collection[str]) -> None:
        self._cache.retain(paths)

    def limit_cache(self, size: int) -> None:
        self._cache.limit(size)

    def digest(self, relative: str) -> str:
        """Return the digest of a new download, independent of the cache."""
        self._cache.drop(relative)
        size = self._storage.size(relative)
        if size is None:
            raise FileNotFoundError(f"{self._storage.root}/{relative}")
        return file_digest(self._download(relative, size, ""))

    def drop_local(self, relative: str) -> None:
        """Remove the draft and the copy of a file."""
        self._draft(relative).unlink(missing_ok=True)
        self._cache.drop(relative)

    def keep_alive(self) -> None:
        """Protect copies that this process uses from eviction; call this periodically."""
        if "_cache" in self.__dict__:
            self._cache.keep_alive()

    @cached_property
    def _cache(self) -> FileCache:
        return FileCache(self._storage.local_dir)

    def _draft(self, relative: str) -> Path:
        return self._storage.local_dir / "spool" / inside(relative, self._storage.root)

    def _download(self, relative: str, size: int, digest: str) -> str:
        return self._cache.fetch(
            relative, lambda target: self._storage.download(relative, target), size, digest
        )


class RemoteFolders:
    """Published folders: a manifest, created last, makes their files visible to readers."""

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage

    def staging_dir(self, relative: str) -> str:
        return _made(self._local(relative))

    def publish(self, source: str, relative: str) -> bool:
        """Upload all files below an ID of this attempt, then create the manifest."""
        manifest = f"{relative}/{_MANIFEST}"
        if self._storage.size(manifest) is not None:
            return False
        attempt = uuid.uuid4().hex
        names = sorted(os.listdir(source))
        sizes = _concurrently(
            lambda name: self._storage.upload_verified(
                os.path.join(source, name), f"{relative}/{attempt}/{name}"
            ),
            names,
        )
        content = {"attempt": attempt, "files": dict(zip(names, sizes, strict=True))}
        if not self._create_own(manifest, json.dumps(content).encode()):
            for name in names:
                self._storage.remove_object(f"{relative}/{attempt}/{name}")
            return False
        target = self._local(relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():  # a reader on this machine may have downloaded it already
            os.rename(source, target)
        return True

    def local_path(self, relative: str) -> str | None:
        """Return the folder as published from here, or download it."""
        target = self._local(relative)
        content = self._storage.read_object(f"{relative}/{_MANIFEST}")
        if content is None or target.is_dir():
            return None if content is None else str(target)
        manifest = json.loads(content)
        folder, sizes = f"{relative}/{manifest['attempt']}", dict(manifest["files"])
        temporary = target.with_name(f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        temporary.mkdir(parents=True)
        try:
            _concurrently(
                lambda name: self._storage.download(f"{folder}/{name}", str(temporary / name)),
                sizes,
            )
            if any(os.stat(temporary / name).st_size != size for name, size in sizes.items()):
                raise StorageError(
                    f"{self._storage.root}/{relative}: the file sizes differ from those in its "
                    f"{_MANIFEST}"
                )
            with suppress(OSError):  # another process of this machine was faster
                os.rename(temporary, target)
            self._drop_obsolete_copies(relative)
        except FileNotFoundError:
            return None  # removed during the download
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return str(target)

    def remove(self, relative: str) -> None:
        """Remove the manifests first, then the other files, then the local copy."""
        self._storage.remove_object(f"{relative}/{_MANIFEST}")
        for path in sorted(
            self._storage.files_below(relative), key=lambda path: not path.endswith(_MANIFEST)
        ):
            self._storage.remove_object(path)
        self._storage.remove_empty_folders(relative)
        shutil.rmtree(self._local(relative), ignore_errors=True)

    def _drop_obsolete_copies(self, relative: str) -> None:
        """Remove local copies of sibling folders that are no longer in the workspace."""
        parent = os.path.dirname(relative)
        current = {*self._storage.names(parent), os.path.basename(relative)}
        for path in self._local(parent).iterdir():
            if path.name.isdigit() and path.name not in current:
                shutil.rmtree(path, ignore_errors=True)

    def _local(self, relative: str) -> Path:
        return self._storage.local_dir / "work" / inside(relative, self._storage.root)

    def _create_own(self, relative: str, content: bytes) -> bool:
        """Create a file whose content has a unique ID; return whether this content is stored."""
        try:
            if self._storage.create(relative, content):
                return True
        except StorageError:
            present = self._storage.read_object(relative)
            if present is None:
                raise
            return present == content
        return self._storage.read_object(relative) == content


def _concurrently(act: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    with ThreadPoolExecutor(_TRANSFERS, "transfer") as pool:
        return list(pool.map(act, items))


def _made(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


_SECRETS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_CLIENT_SECRET", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
    *("GOOGLE_SERVICE_ACCOUNT_KEY", "HADOOP_DELEGATION_TOKEN", "HADOOP_HTTP_PASSWORD"),
)
"""Environment variables whose values no message may contain."""

_QUERY = re.compile(r"\?[^\s'\"<>)]*")
_USER = re.compile(r"(?<=://)[^\s/@]+@")
_SIGNED = re.compile(
    r"(?i)\b(credential|signature|x-amz-[a-z-]+|delegation|token"
    r"|authorization)\s*[=:]\s*[^\s,;'\"<>]+"
)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_MAX_LENGTH = 300


def without_secrets(text: str) -> str:
    """Return the first line of a message without query strings, user names in URLs, signatures, and
    the values of `_SECRETS`.
    """
    line = text.strip().partition("\n")[0][: 10 * _MAX_LENGTH]
    for name in _SECRETS:
        value = os.environ.get(name, "")
        if len(value) >= 4:
            line = line.replace(value, "[hidden]")
    for pattern in (_QUERY, _USER, _SIGNED, _KEY_ID):
        line = pattern.sub("[hidden]", line)
    return line[:_MAX_LENGTH]
