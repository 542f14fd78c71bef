"""Files that exports wrote into a folder, so that a later export removes those of removed pages."""

from __future__ import annotations

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
    changed since they were written, or that another export into this folder wrote, are never
    removed.
    """

    def __init__(self, folder: Path, *selection: str) -> None:
        self._folder = folder
        self._export = xxhash.xxh3_128_hexdigest("\n".join(selection).encode())
        self._files: dict[str, str] = {}
        self._unreadable: set[str] = set()

    def write(self, name: str, data: bytes) -> None:
        """Write a file completely or not at all, unless it has this content already."""
        path = self._folder / name
        self._files[name] = xxhash.xxh3_128_hexdigest(data)
        try:
            if path.stat().st_size == len(data) and path.read_bytes() == data:
                return
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
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
        removed = 0
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
