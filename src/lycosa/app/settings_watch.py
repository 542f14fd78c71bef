"""Noticing that lycosa.toml or a seed file was changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from lycosa.core.clock import Clock

LOOK_EVERY_MS = 1_000

_Signature = tuple[tuple[str, int, int, int], ...]


class SettingsWatch:
    """Looks at files once a second. A change counts when two looks in a row found the same: not while a file is being written."""

    def __init__(self, paths: Iterable[str], clock: Clock) -> None:
        self._clock = clock
        self._next_look = 0
        self.watch(paths)

    def watch(self, paths: Iterable[str]) -> None:
        """Watch these files; as they stand now they are known."""
        self._paths = tuple(paths)
        self._known = self._seen = self._signature()

    def changed(self) -> bool:
        """Whether they have changed since `watch`, or since the last time that this was said. Call it as often as you like."""
        now = self._clock.monotonic_ms()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_EVERY_MS
        signature = self._signature()
        settled = signature != self._known and signature == self._seen
        self._seen = signature
        if settled:
            self._known = signature
        return settled

    def _signature(self) -> _Signature:
        return tuple(_look(path) for path in self._paths)


def read_text(path: Path) -> str:
    """A settings file's text; empty if there is none. Raises OSError, UnicodeDecodeError."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _look(path: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, status.st_mtime_ns, status.st_size, status.st_ino
