"""Compare exported folders."""

from __future__ import annotations

from pathlib import Path


def content(folder: Path) -> dict[str, bytes]:
    """Return relative path -> bytes of all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
