"""Simulate power cuts by replaying recorded changes of a folder.

A recording contains, in order: the contents of files, the names of files and folders, and the
files and folders that were synced. POSIX guarantees nothing for a change that was not synced: it
may be on disk completely, in part or not at all. Only a rename is atomic. `UnsyncedData` selects
how much of it is left.

Changes are detected by scanning the whole folder before and after each call of `os` that may
change it. So files that libraries write without Python (tables, the index) are recorded too. The
syncs of these libraries are not detected and are ignored.
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
_TICK_NS = 20_000_000  # a file changed this recently may change again with the same ctime


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


class UnsyncedData(Enum):
    """How much unsynced data is left after a power cut."""

    ALL = "all of it (the machine stopped, the disk did not)"
    NOTHING = "none of it (only synced names and bytes are left)"
    NAMES = "all names but no bytes (files are empty)"
    ZEROS = "all names, with zeros instead of bytes"
    RANDOM = "a random part of the changes and of each file"


@dataclass(slots=True, frozen=True)
class ContentChange:
    """A file has new content."""

    file: int
    content: bytes
    mode: int


@dataclass(slots=True, frozen=True)
class NameChange:
    """Names that changed atomically; node None means deleted."""

    changes: tuple[tuple[int, str, int | None], ...]
    folders: frozenset[int] = frozenset()  # the nodes in `changes` that are folders


@dataclass(slots=True, frozen=True)
class Sync:
    """fsync of a file or folder succeeded."""

    node: int


Change = ContentChange | NameChange | Sync


@dataclass(slots=True)
class _Node:
    """A file or folder as of the last scan."""

    node: int
    stamp: tuple[int, int]
    content: bytes = b""
    entries: dict[str, int] = field(default_factory=dict)  # for folders: name -> inode


class Recorder:
    """Record the changes of one folder.

    `on_call` is called after each recorded call of `os`. It may read the folder but not write.
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
        self._nodes_by_inode: dict[int, _Node] = {}
        self._last_node = ROOT
        self._root_inode = os.stat(root).st_ino
        self._nodes_by_inode[self._root_inode] = _Node(ROOT, _FOLDER)
        self._scan()
        for change in list(self.changes):  # the initial content counts as synced
            if isinstance(change, ContentChange):
                self.changes.append(Sync(change.file))
        self.changes.extend(Sync(item.node) for item in self._nodes_by_inode.values())
        self.start = len(self.changes)

    def mark(self, what: str, number: int) -> None:
        """Record that `what` is durable up to `number` from now on."""
        with self._lock:
            self._scan()
            self.marks.append((len(self.changes), what, number))

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Record the calls of `os` in all threads while the context is open."""
        try:
            with replaced(self._real, self._wrapped):
                yield self
        finally:
            self._scan()

    def durable(self, at: int) -> dict[str, int]:
        """Return the last durable number of each kind before change number `at`."""
        return {what: number for place, what, number in self.marks if place <= at}

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if self._busy and self._lock._is_owned():  # type: ignore[attr-defined]  # own scan
                return call(*arguments, **options)
            if name == "open" and not (
                arguments[1] if len(arguments) > 1 else options.get("flags", 0)
            ) & (os.O_CREAT | os.O_TRUNC):
                return call(*arguments, **options)
            with self._lock:
                self._scan()
                result = call(*arguments, **options)
                if name == "fsync":
                    item = self._nodes_by_inode.get(self._fstat(arguments[0]).st_ino)
                    if item is not None:
                        self.changes.append(Sync(item.node))
                self._scan()
                self.calls += 1
                if self.on_call is not None:
                    self._busy = True
                    try:
                        self.on_call()
                    finally:
                        self._busy = False
                return result

        return run

    def _scan(self) -> None:
        """Record the changes since the last scan."""
        self._busy = True
        try:
            matches: dict[int, _Node] = {}
            names: dict[tuple[int, str], int] = {}
            contents: list[ContentChange] = []
            self._walk(self.root, self._root_inode, matches, names, contents)
            before = {
                (item.node, name): inode
                for item in self._nodes_by_inode.values()
                for name, inode in item.entries.items()
            }
            # grouped by node: a deleted name and a new name of one node are a rename
            changed: dict[int, list[tuple[int, str, int | None]]] = {}
            for place, inode in before.items():
                if place not in names:
                    changed.setdefault(self._nodes_by_inode[inode].node, []).append((*place, None))
            for place, inode in names.items():
                if (
                    before.get(place) != inode
                    or self._nodes_by_inode[inode].node != matches[inode].node
                ):
                    changed.setdefault(matches[inode].node, []).append(
                        (*place, matches[inode].node)
                    )
            folders = frozenset(item.node for item in matches.values() if item.stamp == _FOLDER)
            self.changes.extend(contents)
            self.changes.extend(
                NameChange(tuple(each), folders & {node}) for node, each in changed.items()
            )
            self._nodes_by_inode = matches
        finally:
            self._busy = False

    def _walk(
        self,
        path: str,
        inode: int,
        matches: dict[int, _Node],
        names: dict[tuple[int, str], int],
        contents: list[ContentChange],
    ) -> None:
        old = self._nodes_by_inode.get(inode)
        here = matches[inode] = _Node(
            self._new_node() if old is None or old.stamp != _FOLDER else old.node, _FOLDER
        )
        try:
            entries = sorted(self._scandir(path), key=lambda entry: entry.name)
        except FileNotFoundError:  # deleted meanwhile by a thread of a library
            return
        for entry in entries:
            try:
                about = self._stat(entry.path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(about.st_mode):
                self._walk(entry.path, about.st_ino, matches, names, contents)
            elif about.st_ino not in matches and not self._file(
                entry.path, about, matches, contents
            ):
                continue
            here.entries[entry.name] = about.st_ino
            names[(here.node, entry.name)] = about.st_ino

    def _file(
        self,
        path: str,
        about: os.stat_result,
        matches: dict[int, _Node],
        contents: list[ContentChange],
    ) -> bool:
        old = self._nodes_by_inode.get(about.st_ino)
        if old is not None and old.stamp == _FOLDER:
            old = None  # the inode of a deleted folder was reused
        stamp = (about.st_ctime_ns, about.st_size)
        if old is not None and old.stamp == stamp and self._now() - about.st_ctime_ns > _TICK_NS:
            matches[about.st_ino] = old
            return True
        try:
            content = self._read(path)
        except FileNotFoundError:
            return False
        if old is None or old.content != content:
            node = self._new_node() if old is None else old.node
            contents.append(ContentChange(node, content, stat.S_IMODE(about.st_mode)))
            matches[about.st_ino] = _Node(node, stamp, content)
        else:
            matches[about.st_ino] = _Node(old.node, stamp, content)
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

    def _new_node(self) -> int:
        self._last_node += 1
        return self._last_node

    @staticmethod
    def _now() -> int:
        return time.time_ns()


@dataclass(slots=True)
class _File:
    synced: bytes = b""
    now: bytes = b""
    mode: int = 0o644


class Disk:
    """A disk to which the changes of a recording are applied."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._files: dict[int, _File] = {}
        self._folders = {ROOT}
        self._synced_names: dict[tuple[int, str], int] = {}
        self._pending: list[NameChange] = []
        for change in changes:
            self.apply(change)

    def apply(self, change: Change) -> None:
        if isinstance(change, ContentChange):
            file = self._files.setdefault(change.file, _File())
            file.now, file.mode = change.content, change.mode
        elif isinstance(change, NameChange):
            self._folders |= change.folders
            self._pending.append(change)
        elif change.node in self._folders:
            touched = [
                named
                for named in self._pending
                if any(folder == change.node for folder, _, _ in named.changes)
            ]
            for named in touched:
                _apply_names(self._synced_names, named)
            self._pending = [named for named in self._pending if named not in touched]
        else:
            file = self._files.setdefault(change.node, _File())
            file.synced = file.now

    def cut(
        self, unsynced: UnsyncedData, chance: random.Random
    ) -> dict[str, tuple[bytes, int] | None]:
        """Return the state after a power cut: path -> (content, mode) or None."""
        names = dict(self._synced_names)
        for named in self._pending:
            if unsynced is not UnsyncedData.NOTHING and (
                unsynced is not UnsyncedData.RANDOM or chance.random() < 0.5
            ):
                _apply_names(names, named)
        entries: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in names.items():
            entries.setdefault(folder, []).append((name, node))
        contents = {
            node: self._content(node, unsynced, chance)
            for node in sorted(set(names.values()) - self._folders)
        }
        tree: dict[str, tuple[bytes, int] | None] = {}

        def walk(folder: int, path: str) -> None:
            for name, node in entries.get(folder, ()):
                here = f"{path}{name}"
                if node in self._folders:
                    tree[here] = None
                    walk(node, f"{here}/")
                else:
                    tree[here] = (
                        contents[node],
                        self._files[node].mode if node in self._files else 0o644,
                    )

        walk(ROOT, "")
        return tree

    def _content(self, node: int, unsynced: UnsyncedData, chance: random.Random) -> bytes:
        file = self._files.get(node, _File())
        if unsynced is UnsyncedData.ALL or file.synced == file.now:
            return file.now
        if unsynced is UnsyncedData.ZEROS:
            return _zeroed(file, _remaining(file), len(file.now))
        if unsynced is not UnsyncedData.RANDOM:
            return file.synced
        same = _remaining(file)
        match chance.randrange(4):
            case 0:
                return file.synced
            case 1:
                return file.now
            case 2:
                return file.now[: chance.randint(same, max(same, len(file.now)))]
            case _:
                start = chance.randint(same, max(same, len(file.now)))
                return _zeroed(file, start, chance.randint(start, max(start, len(file.now))))


def _remaining(file: _File) -> int:
    """Return the number of leading bytes that are unchanged since fsync."""
    if file.now.startswith(file.synced):
        return len(file.synced)
    return next(
        (
            place
            for place, (one, other) in enumerate(zip(file.synced, file.now, strict=False))
            if one != other
        ),
        len(file.now),
    )


def _zeroed(file: _File, start: int, end: int) -> bytes:
    return file.now[:start] + bytes(end - start) + file.now[end:]


def _apply_names(names: dict[tuple[int, str], int], named: NameChange) -> None:
    for folder, name, node in named.changes:
        if node is None:
            names.pop((folder, name), None)
        else:
            names[(folder, name)] = node


def write_tree(tree: dict[str, tuple[bytes, int] | None], root: Path) -> None:
    """Write a state returned by `Disk.cut` to a folder."""
    root.mkdir(parents=True)
    for path, contents in tree.items():
        target = root / path
        if contents is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[0])
        target.chmod(contents[1])
