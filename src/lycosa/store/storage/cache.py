"""Copies of a remote workspace's data files on this machine's disk, bounded by bytes, shared by all
processes of the machine.

A copy appears by one rename, whole and verified. When they pass the bound, those go first that were
asked for longest ago; never one that was asked for just now (`_GRACE_S`), for polars opens a file
only when it reads it. What is open stays readable.
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
from lycosa.store.storage.local import ASIDE_SUFFIX, file_digest

DEFAULT_BYTES = 10 * 2**30

_GRACE_S = {".parquet": 1_800.0}
_SHORT_GRACE_S = 60.0  # of other files (WARC, CDXJ): readers open them at once
_ASIDE_S = 86_400.0  # a file that was begun so long ago is a dead process's
_LOOK_SHARE = 64  # the bound is looked at when a 1/64 of it has come since
_HELD_S = 86_400.0  # how long a process that lives keeps what it was given from leaving
_TOUCH_S = 300.0


def cache_root() -> Path:
    """Where all copies and drafts of this user lie: `LYCOSA_CACHE`, else `lycosa` in
    `XDG_CACHE_HOME` (`~/.cache`).
    """
    own = os.environ.get("LYCOSA_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "lycosa"


class FileCache:
    """The copies of one workspace's files, by their paths in it. Any thread may use it."""

    def __init__(self, folder: Path) -> None:
        self._files = folder / "files"
        self._limit_file = folder / "limit"
        self._since = -1  # bytes that came since the bound was looked at; -1: never looked
        # table files that this process may still read by path, and when it asked
        self._given: dict[str, float] = {}
        self._touched = time.monotonic()
        self._lock = threading.Lock()

    def limit(self, size: int) -> None:
        """Set the bound, for every process of this machine."""
        self._files.mkdir(parents=True, exist_ok=True)
        aside = self._limit_file.with_name(f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")
        aside.write_text(str(size))
        os.replace(aside, self._limit_file)

    def path(self, relative: str) -> str:
        """Where a file's copy lies, or would lie."""
        return os.path.join(self._files, relative)

    def find(self, relative: str) -> str | None:
        """A file's copy, if there is one; it was asked for now."""
        path = self.path(relative)
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        self._note(path)
        return path

    def fetch(self, relative: str, download: Callable[[str], None], size: int, digest: str) -> str:
        """Copy a file here. `size` and `digest` (if not "") must be its own.

        Raises:
            WorkspaceError: they are not.
            whatever `download` raises.
        """
        path = self.path(relative)
        aside = self._aside(path)
        try:
            download(aside)
            fetched = os.stat(aside).st_size
            if fetched != size or (digest and file_digest(aside) != digest):
                what = (
                    f"it has {fetched} bytes, but {size} according to the log"
                    if fetched != size
                    else "its bytes have changed"
                )
                raise WorkspaceError(
                    f"{relative} differs from its log entry: {what}; run `lycosa check`"
                )
            os.replace(aside, path)
        finally:
            Path(aside).unlink(missing_ok=True)
        self._note(path)
        self._came(fetched)
        return path

    def adopt(self, relative: str, source: str) -> str | None:
        """Link a file of this machine's disk as the copy, unless there is one. Returns its path,
        None if neither is there any more: another process was first.
        """
        path = self.path(relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(source, path)
        except (FileExistsError, FileNotFoundError):
            return self.find(relative)
        except OSError:  # no hard links here
            aside = self._aside(path)
            try:
                shutil.copyfile(source, aside)
                os.replace(aside, path)
            except FileNotFoundError:
                return self.find(relative)
            finally:
                Path(aside).unlink(missing_ok=True)
        os.utime(path)
        self._note(path)
        self._came(os.stat(path).st_size)
        return path

    def drop(self, relative: str) -> None:
        """Remove a file's copy, if there is one."""
        path = self.path(relative)
        Path(path).unlink(missing_ok=True)
        with self._lock:
            self._given.pop(path, None)

    def hold(self) -> None:
        """Keep what this process was given from being taken for forgotten. Call it now and then: it
        does something every few minutes.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._touched < _TOUCH_S:
                return
            self._touched = now
            self._given = {
                path: asked for path, asked in self._given.items() if now - asked < _HELD_S
            }
            held = list(self._given)
        for path in held:
            try:
                os.utime(path)
            except FileNotFoundError:
                with self._lock:
                    self._given.pop(path, None)

    def retain(self, paths: Collection[str]) -> None:
        """Remove the copies of all files but these, as far as their grace allows."""
        kept = {self.path(path) for path in paths}
        now = time.time()
        for used, _, path in self._copies():
            if path not in kept and now - used > _grace_s(path):
                Path(path).unlink(missing_ok=True)

    def evict(self) -> int:
        """Bring the copies below the bound, as far as their grace allows. Returns the bytes
        removed.
        """
        found = self._copies()
        over = sum(size for _, size, _ in found) - self._limit()
        removed = 0
        now = time.time()
        for used, size, path in sorted(found):
            if removed >= over:
                break
            if now - used > _grace_s(path):
                Path(path).unlink(missing_ok=True)
                removed += size
        return removed

    def _copies(self) -> list[tuple[float, int, str]]:
        """(last use in s since 1970, bytes, path) of every copy; what dead processes had begun is
        removed.
        """
        found: list[tuple[float, int, str]] = []
        now = time.time()
        for folder, _, names in os.walk(self._files):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue  # another process evicts too
                if not name.endswith(ASIDE_SUFFIX):
                    found.append((status.st_mtime, status.st_size, path))
                elif now - status.st_mtime > _ASIDE_S:
                    Path(path).unlink(missing_ok=True)
        return found

    def _limit(self) -> int:
        try:
            return int(self._limit_file.read_text())
        except (FileNotFoundError, ValueError):
            return DEFAULT_BYTES

    def _aside(self, path: str) -> str:
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f".{uuid.uuid4().hex}{ASIDE_SUFFIX}")

    def _note(self, path: str) -> None:
        if path.endswith(".parquet"):
            with self._lock:
                self._given[path] = time.monotonic()

    def _came(self, size: int) -> None:
        with self._lock:
            first = self._since < 0
            self._since = max(0, self._since) + size
            look = first or self._since * _LOOK_SHARE >= self._limit()
            if look:
                self._since = 0
        if look:
            self.evict()


def _grace_s(path: str) -> float:
    return _GRACE_S.get(os.path.splitext(path)[1], _SHORT_GRACE_S)
