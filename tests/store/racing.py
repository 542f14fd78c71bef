"""A buffer without polars: for processes that are started often, forked, and killed."""

from __future__ import annotations

from pathlib import Path


class FakeBuffer:
    """Writes the bytes that it is given; says that they are one row."""

    rows = 1

    def __init__(self, content: bytes) -> None:
        self._content = content

    def write(self, path: str) -> None:
        Path(path).write_bytes(self._content)
