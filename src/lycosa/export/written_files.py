"""Files that exports wrote into a folder, so that a later export removes those of removed pages."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import xxhash

from lycosa.store.storage.files import file_digest, whole_file

STATE = ".lycosa-files.json"
"""File with the names and digests of the files, by export."""


class WrittenFiles:
    """The files of one export into a folder.

    `selection` identifies it: the workspace, the kind of export and its options. Files that have
    changed since they were written are never removed; those that another export into this folder
    wrote, only if this one needs a folder of their name, or a file in place of theirs.
    """

    def __init__(self, folder: Path, *selection: str) -> None:
        self._folder = folder
        self._export = xxhash.xxh3_128_hexdigest("\n".join(selection).encode())
        self._files: dict[str, str] = {}
        self._unreadable: set[str] = set()
        self._replaced = 0

    def write(self, name: str, data: bytes) -> None:
        """Write a file completely or not at all, unless it has this content already."""
        path = self._folder / name
        self._files[name] = xxhash.xxh3_128_hexdigest(data)
        if not path.is_file():
            self._make_room(path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
        elif path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        part = path.with_name(".part~")
        part.write_bytes(data)
        os.replace(part, path)

    def keep(self, name: str) -> None:
        """Keep the file that an earlier export wrote, because its page cannot be read now."""
        self._unreadable.add(name)

    def is_repeated(self) -> bool:
        """Return whether an earlier call of this export wrote into the folder."""
        return self._export in self._exports()

    def finish(self) -> int:
        """Remove the files that only an earlier call of this export wrote; return their number."""
        exports = self._exports()
        earlier = exports.pop(self._export, {})
        others = {name for files in exports.values() for name in files}
        removed = self._replaced
        for name, digest in earlier.items():
            if name in self._unreadable:
                self._files[name] = digest
            elif name not in self._files and name not in others:
                removed += self._remove(name, digest)
        exports[self._export] = self._files
        with whole_file(self._folder / STATE) as draft:
            draft.write_text(json.dumps(exports, sort_keys=True), encoding="ascii")
        return removed

    def _exports(self) -> dict[str, dict[str, str]]:
        try:
            exports = json.loads((self._folder / STATE).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        valid = isinstance(exports, dict) and all(
            isinstance(each, dict) for each in exports.values()
        )
        return exports if valid else {}

    def _make_room(self, path: Path, name: str) -> None:
        """Remove files of earlier exports where a folder is needed now, or in a folder where a file
        is.

        Raises:
            OSError: another file or folder is in the way.
        """
        if _in_the_way(path) is None:
            return
        for files in self._exports().values():
            for each, digest in files.items():
                if f"{name}/".startswith(f"{each}/") or each.startswith(f"{name}/"):
                    self._replaced += self._remove(each, digest)
        if (other := _in_the_way(path)) is not None:
            raise FileExistsError(errno.EEXIST, f"{other} is in the way, move or remove it")

    def _remove(self, name: str, digest: str) -> bool:
        path = self._folder / name
        try:
            inside = path.resolve().is_relative_to(self._folder.resolve())
            if not inside or file_digest(str(path)) != digest:
                return False
            path.unlink()
        except OSError:
            return False
        with suppress(OSError):  # until a folder is not empty
            for parent in path.relative_to(self._folder).parents[:-1]:
                (self._folder / parent).rmdir()
        return True


def _in_the_way(path: Path) -> Path | None:
    """Return the folder in place of a file, or the file in place of one of its folders."""
    return path if path.is_dir() else next((each for each in path.parents if each.is_file()), None)
