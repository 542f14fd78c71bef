"""What a power cut leaves: every change of a folder is recorded as it happens, then replayed up to
any moment, less what was not synced.

A recording holds, in order: what files hold, which names lead to them, and which files and folders
were synced. POSIX promises of a change that was not synced nothing: it may be there, in part, or
not; a rename alone is there or not. `Leaves` says how much is left.

Changes are found by looking at the whole folder before and after each call of `os` that may change
it, so what libraries write without Python (tables, the index) is recorded too. Their own syncs are
not seen: they count for nothing.
"""

from __future__ import annotations

import os
import random
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

CALLS = (
    "open",
    "write",
    "fsync",
    "link",
    "unlink",
    "remove",
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "ftruncate",
)
ROOT = 0
_FOLDER = (0, -1)  # the stamp of folders
_TICK_NS = 20_000_000  # a file changed as lately as this may change again without a new time


@contextmanager
def replaced(
    calls: dict[str, Callable[..., Any]], wrap: Callable[[str, Callable[..., Any]], object]
) -> Iterator[None]:
    """Replace functions of `os` by wrappers while the context is open."""
    for name, call in calls.items():
        setattr(os, name, wrap(name, call))
    try:
        yield
    finally:
        for name, call in calls.items():
            setattr(os, name, call)


class Leaves(Enum):
    """How much of what was not synced a power cut leaves."""

    ALL = "all of it: the machine stopped, the disk did not"
    NOTHING = "nothing: names and bytes that were synced"
    NAMES = "all names, and no bytes: files are empty"
    ZEROS = "all names, and zeros for bytes"
    CHANCE = "each change or not, files in part"


@dataclass(slots=True, frozen=True)
class Wrote:
    """A file holds this now."""

    file: int
    content: bytes
    mode: int


@dataclass(slots=True, frozen=True)
class Named:
    """Names that changed at once: (folder, name) -> the file or folder behind it, None: none."""

    changes: tuple[tuple[int, str, int | None], ...]
    folders: frozenset[int] = frozenset()  # of what is named, those that are folders


@dataclass(slots=True, frozen=True)
class Synced:
    """fsync of a file or folder returned."""

    node: int


Change = Wrote | Named | Synced


@dataclass(slots=True)
class _Seen:
    """A file or folder that the last look found."""

    node: int
    stamp: tuple[int, int]
    content: bytes = b""
    entries: dict[str, int] = field(default_factory=dict)  # of a folder: name -> inode


class Recorder:
    """Records the changes of one folder. `on_change` is called after each of them, with its number;
    it may read, not write.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.changes: list[Change] = []
        self.calls = 0
        self.marks: list[tuple[int, str, int]] = []
        self.on_call: Callable[[], None] | None = None
        self._real = {name: getattr(os, name) for name in CALLS}
        self._scandir, self._stat, self._fstat = os.scandir, os.stat, os.fstat
        self._lock = threading.RLock()
        self._busy = False
        self._seen: dict[int, _Seen] = {}
        self._nodes = ROOT
        self._root_inode = os.stat(root).st_ino
        self._seen[self._root_inode] = _Seen(ROOT, _FOLDER)
        self._look()
        for change in list(self.changes):  # what is there now is safe
            if isinstance(change, Wrote):
                self.changes.append(Synced(change.file))
        self.changes.extend(Synced(seen.node) for seen in self._seen.values())
        self.start = len(self.changes)

    def mark(self, what: str, number: int) -> None:
        """Note that something was promised: from here on no cut may lose it."""
        with self._lock:
            self._look()
            self.marks.append((len(self.changes), what, number))

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """While this runs, calls of `os` in all threads are recorded."""
        try:
            with replaced(self._real, self._wrapped):
                yield self
        finally:
            self._look()

    def promised(self, at: int) -> dict[str, int]:
        """The last number promised of each kind before a change."""
        return {what: number for place, what, number in self.marks if place <= at}

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if self._busy and self._lock._is_owned():  # type: ignore[attr-defined]  # we are looking ourselves
                return call(*arguments, **options)
            if name == "open" and not (
                arguments[1] if len(arguments) > 1 else options.get("flags", 0)
            ) & (os.O_CREAT | os.O_TRUNC):
                return call(*arguments, **options)
            with self._lock:
                self._look()
                result = call(*arguments, **options)
                if name == "fsync":
                    seen = self._seen.get(self._fstat(arguments[0]).st_ino)
                    if seen is not None:
                        self.changes.append(Synced(seen.node))
                self._look()
                self.calls += 1
                if self.on_call is not None:
                    self._busy = True
                    try:
                        self.on_call()
                    finally:
                        self._busy = False
                return result

        return run

    def _look(self) -> None:
        """Note what changed since the last look."""
        self._busy = True
        try:
            matches: dict[int, _Seen] = {}
            names: dict[tuple[int, str], int] = {}
            wrote: list[Wrote] = []
            self._walk(self.root, self._root_inode, matches, names, wrote)
            before = {
                (seen.node, name): inode
                for seen in self._seen.values()
                for name, inode in seen.entries.items()
            }
            # by what is named: an old name that goes and a new one are a rename
            changed: dict[int, list[tuple[int, str, int | None]]] = {}
            for place, inode in before.items():
                if place not in names:
                    changed.setdefault(self._seen[inode].node, []).append((*place, None))
            for place, inode in names.items():
                if before.get(place) != inode or self._seen[inode].node != matches[inode].node:
                    changed.setdefault(matches[inode].node, []).append(
                        (*place, matches[inode].node)
                    )
            folders = frozenset(seen.node for seen in matches.values() if seen.stamp == _FOLDER)
            self.changes.extend(wrote)
            self.changes.extend(
                Named(tuple(each), folders & {node}) for node, each in changed.items()
            )
            self._seen = matches
        finally:
            self._busy = False

    def _walk(
        self,
        path: str,
        inode: int,
        matches: dict[int, _Seen],
        names: dict[tuple[int, str], int],
        wrote: list[Wrote],
    ) -> None:
        old = self._seen.get(inode)
        here = matches[inode] = _Seen(
            self._new() if old is None or old.stamp != _FOLDER else old.node, _FOLDER
        )
        try:
            entries = sorted(self._scandir(path), key=lambda entry: entry.name)
        except FileNotFoundError:  # a thread of a library works beside us
            return
        for entry in entries:
            try:
                about = self._stat(entry.path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(about.st_mode):
                self._walk(entry.path, about.st_ino, matches, names, wrote)
            elif about.st_ino not in matches and not self._file(entry.path, about, matches, wrote):
                continue
            here.entries[entry.name] = about.st_ino
            names[(here.node, entry.name)] = about.st_ino

    def _file(
        self, path: str, about: os.stat_result, matches: dict[int, _Seen], wrote: list[Wrote]
    ) -> bool:
        old = self._seen.get(about.st_ino)
        if old is not None and old.stamp == _FOLDER:
            old = None  # the number of a folder that is gone
        stamp = (about.st_ctime_ns, about.st_size)
        if old is not None and old.stamp == stamp and self._now() - about.st_ctime_ns > _TICK_NS:
            matches[about.st_ino] = old
            return True
        try:
            content = self._read(path)
        except FileNotFoundError:
            return False
        if old is None or old.content != content:
            node = self._new() if old is None else old.node
            wrote.append(Wrote(node, content, stat.S_IMODE(about.st_mode)))
            matches[about.st_ino] = _Seen(node, stamp, content)
        else:
            matches[about.st_ino] = _Seen(old.node, stamp, content)
        return True

    def _read(self, path: str) -> bytes:
        descriptor = self._real["open"](path, os.O_RDONLY)
        try:
            parts = []
            while part := os.read(descriptor, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def _new(self) -> int:
        self._nodes += 1
        return self._nodes

    @staticmethod
    def _now() -> int:
        return time.time_ns()


@dataclass(slots=True)
class _File:
    safe: bytes = b""
    now: bytes = b""
    mode: int = 0o644


class Disk:
    """A disk to which the changes of a recording are applied; `cut`: its state after a power cut."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._files: dict[int, _File] = {}
        self._folders = {ROOT}
        self._safe: dict[tuple[int, str], int] = {}
        self._pending: list[Named] = []
        for change in changes:
            self.apply(change)

    def apply(self, change: Change) -> None:
        if isinstance(change, Wrote):
            file = self._files.setdefault(change.file, _File())
            file.now, file.mode = change.content, change.mode
        elif isinstance(change, Named):
            self._folders |= change.folders
            self._pending.append(change)
        elif change.node in self._folders:
            touched = [
                named
                for named in self._pending
                if any(folder == change.node for folder, _, _ in named.changes)
            ]
            for named in touched:
                _name(self._safe, named)
            self._pending = [named for named in self._pending if named not in touched]
        else:
            file = self._files.setdefault(change.node, _File())
            file.safe = file.now

    def cut(self, leaves: Leaves, chance: random.Random) -> dict[str, tuple[bytes, int] | None]:
        """Relative path -> (content, mode) of each file, None for a folder."""
        names = dict(self._safe)
        for named in self._pending:
            if leaves is not Leaves.NOTHING and (
                leaves is not Leaves.CHANCE or chance.random() < 0.5
            ):
                _name(names, named)
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in names.items():
            below.setdefault(folder, []).append((name, node))
        held = {
            node: self._content(node, leaves, chance)
            for node in sorted(set(names.values()) - self._folders)
        }
        left: dict[str, tuple[bytes, int] | None] = {}

        def walk(folder: int, path: str) -> None:
            for name, node in below.get(folder, ()):
                here = f"{path}{name}"
                if node in self._folders:
                    left[here] = None
                    walk(node, f"{here}/")
                else:
                    left[here] = (
                        held[node],
                        self._files[node].mode if node in self._files else 0o644,
                    )

        walk(ROOT, "")
        return left

    def _content(self, node: int, leaves: Leaves, chance: random.Random) -> bytes:
        file = self._files.get(node, _File())
        if leaves is Leaves.ALL or file.safe == file.now:
            return file.now
        if leaves is Leaves.ZEROS:
            return _zeroed(file, _remaining(file), len(file.now))
        if leaves is not Leaves.CHANCE:
            return file.safe
        same = _remaining(file)
        match chance.randrange(4):
            case 0:
                return file.safe
            case 1:
                return file.now
            case 2:
                return file.now[: chance.randint(same, max(same, len(file.now)))]
            case _:
                start = chance.randint(same, max(same, len(file.now)))
                return _zeroed(file, start, chance.randint(start, max(start, len(file.now))))


def _remaining(file: _File) -> int:
    """How many bytes at the start of a file are as they were when it was synced."""
    if file.now.startswith(file.safe):
        return len(file.safe)
    return next(
        (
            place
            for place, (one, other) in enumerate(zip(file.safe, file.now, strict=False))
            if one != other
        ),
        len(file.now),
    )


def _zeroed(file: _File, start: int, end: int) -> bytes:
    return file.now[:start] + bytes(end - start) + file.now[end:]


def _name(names: dict[tuple[int, str], int], named: Named) -> None:
    for folder, name, node in named.changes:
        if node is None:
            names.pop((folder, name), None)
        else:
            names[(folder, name)] = node


def lay(left: dict[str, tuple[bytes, int] | None], root: Path) -> None:
    """Make the folder that a cut left."""
    root.mkdir(parents=True)
    for path, held in left.items():
        target = root / path
        if held is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(held[0])
        target.chmod(held[1])
