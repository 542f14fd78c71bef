"""Noticing that lycosa.toml or a seed file was changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from lycosa.core.clock import Clock
from lycosa.crawl.session.workspace_config import decode_config
from lycosa.store.storage.storage import open_storage

LOOK_EVERY_MS = 1_000

_Signature = tuple[int, int, int]


class SettingsWatch:
    """Looks at files once a second. A change counts when two looks in a row found the same: not
    while a file is being written.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_look = 0
        self._signatures: dict[str, _Signature] = {}
        self._seen: dict[str, _Signature] = {}

    def watch(self, paths: Iterable[str]) -> None:
        """Watch these files and no others. One that was not watched before is known as it stands:
        call this before reading it.
        """
        self._signatures = {path: self._signatures.get(path) or _look(path) for path in paths}
        self._seen = {}

    def changed(self) -> bool:
        """Whether a file has changed since it was known, or since the last time that this was said.
        Call it as often as you like.
        """
        now = self._clock.monotonic_ms()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_EVERY_MS
        seen = {path: _look(path) for path in self._signatures}
        settled = seen != self._signatures and seen == self._seen
        self._seen = seen
        if settled:
            self._signatures = seen
        return settled


def read_text(path: str) -> str:
    """A settings file's text, of a workspace on S3 or HDFS too; empty if there is none. Raises
    OSError, ConfigError.
    """
    place, name = os.path.split(path)
    if "://" in place:
        return decode_config(open_storage(place).read(name) or b"", path)
    file = Path(path)
    return decode_config(file.read_bytes(), path) if file.is_file() else ""


def _look(path: str) -> _Signature:
    place, name = os.path.split(path)
    try:
        if "://" in place:
            storage = open_storage(place)
            return storage.modified_at(name) or 0, storage.size(name) or 0, 0
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
