"""Cache of a remote workspace's data files on this machine's disk, shared by all processes.

A copy appears by one rename, complete and verified. The cache is bounded by bytes and evicts the
least recently used copies, but none that was requested within `_GRACE_S`: polars opens a file only
when it reads it. Open files stay readable.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from lycosa.core.errors import WorkspaceError
from lycosa.store.storage.files import TEMPORARY_SUFFIX, file_digest

DEFAULT_BYTES = 10 * 2**30

_GRACE_S = {".parquet": 1_800.0}
_SHORT_GRACE_S = 60.0  # WARC, CDXJ: readers open them immediately
_ASIDE_S = 86_400.0  # older unfinished files belong to dead processes
_CHECK_SHARE = 64  # the bound is checked after each 1/64 of it was added
_USE_S = 86_400.0  # how long a living process protects copies that it requested
_TOUCH_S = 300.0


def cache_root() -> Path:
    """Return the folder of this user's copies and drafts: `LYCOSA_CACHE`, else `lycosa` in
    `XDG_CACHE_HOME` (`~/.cache`).
    """
    own = os.environ.get("LYCOSA_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "lycosa"


class FileCache:
    """Copies of one workspace's files, by their paths in it. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._files = folder / "files"
        self._limit_file = folder / "limit"
        self._added = -1  # bytes since the bound was checked; -1: never checked
        self._in_use: dict[str, float] = {}  # table files -> when this process requested them
        self._touched = time.monotonic()
        self._lock = threading.Lock()

    def limit(self, size: int) -> None:
        """Set the bound for all processes of this machine."""
        self._files.mkdir(parents=True, exist_ok=True)
        temporary = self._limit_file.with_name(f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        temporary.write_text(str(size))
        os.replace(temporary, self._limit_file)

    def path(self, relative: str) -> str:
        """Return the path of a file's copy, whether it exists or not."""
        return os.path.join(self._files, relative)

    def find(self, relative: str) -> str | None:
        """Return the path of a file's copy if it exists, and mark it as used."""
        path = self.path(relative)
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        self._mark(path)
        return path

    def fetch(self, relative: str, download: Callable[[str], None], size: int, digest: str) -> str:
        """Download a file and return its path.

        Raises:
            WorkspaceError: `size`, or `digest` if given, are not those of the file.
            Errors of `download`.
        """
        path = self.path(relative)
        temporary = self._temporary_path(path)
        try:
            download(temporary)
            fetched = os.stat(temporary).st_size
            if fetched != size or (digest and file_digest(temporary) != digest):
                what = (
                    f"it has {fetched} bytes, but {size} according to the log"
                    if fetched != size
                    else "its bytes have changed"
                )
                raise WorkspaceError(
                    f"{relative} differs from its log entry: {what}; run `lycosa check`"
                )
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        self._mark(path)
        self._count(fetched)
        return path

    def adopt(self, relative: str, source: str) -> str | None:
        """Link a file of this machine as the copy unless there is one; return the path of the copy,
        None if another process removed both.
        """
        path = self.path(relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(source, path)
        except (FileExistsError, FileNotFoundError):
            return self.find(relative)
        except OSError:  # no hard links
            temporary = self._temporary_path(path)
            try:
                shutil.copyfile(source, temporary)
                os.replace(temporary, path)
            except FileNotFoundError:
                return self.find(relative)
            finally:
                Path(temporary).unlink(missing_ok=True)
        os.utime(path)
        self._mark(path)
        self._count(os.stat(path).st_size)
        return path

    def drop(self, relative: str) -> None:
        """Remove a file's copy, if there is one."""
        path = self.path(relative)
        Path(path).unlink(missing_ok=True)
        with self._lock:
            self._in_use.pop(path, None)

    def keep_alive(self) -> None:
        """Mark the copies in use by this process every few minutes against eviction."""
        now = time.monotonic()
        with self._lock:
            if now - self._touched < _TOUCH_S:
                return
            self._touched = now
            self._in_use = {path: at for path, at in self._in_use.items() if now - at < _USE_S}
            paths = list(self._in_use)
        for path in paths:
            try:
                os.utime(path)
            except FileNotFoundError:
                with self._lock:
                    self._in_use.pop(path, None)

    def retain(self, paths: Collection[str]) -> None:
        """Remove the copies of all other files after their grace period."""
        retained = {self.path(path) for path in paths}
        now = time.time()
        for used, _, path in self._copies():
            if path not in retained and now - used > _grace_s(path):
                Path(path).unlink(missing_ok=True)

    def evict(self) -> int:
        """Remove copies until the bound is met, as far as grace periods allow. Returns the bytes
        removed.
        """
        copies = self._copies()
        over = sum(size for _, size, _ in copies) - self._limit()
        removed = 0
        now = time.time()
        for used, size, path in sorted(copies):
            if removed >= over:
                break
            if now - used > _grace_s(path):
                Path(path).unlink(missing_ok=True)
                removed += size
        return removed

    def _copies(self) -> list[tuple[float, int, str]]:
        """Return (last use in s since 1970, bytes, path) of every copy.

        Remove unfinished files of dead processes.
        """
        copies: list[tuple[float, int, str]] = []
        now = time.time()
        for folder, _, names in os.walk(self._files):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue  # another process evicts too
                if not name.endswith(TEMPORARY_SUFFIX):
                    copies.append((status.st_mtime, status.st_size, path))
                elif now - status.st_mtime > _ASIDE_S:
                    Path(path).unlink(missing_ok=True)
        return copies

    def _limit(self) -> int:
        try:
            return int(self._limit_file.read_text())
        except (FileNotFoundError, ValueError):
            return DEFAULT_BYTES

    def _temporary_path(self, path: str) -> str:
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")

    def _mark(self, path: str) -> None:
        if path.endswith(".parquet"):
            with self._lock:
                self._in_use[path] = time.monotonic()

    def _count(self, size: int) -> None:
        with self._lock:
            first = self._added < 0
            self._added = max(0, self._added) + size
            check = first or self._added * _CHECK_SHARE >= self._limit()
            if check:
                self._added = 0
        if check:
            self.evict()


def _grace_s(path: str) -> float:
    return _GRACE_S.get(os.path.splitext(path)[1], _SHORT_GRACE_S)
