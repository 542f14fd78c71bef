"""Arguments that may be a file, a URL or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from lycosa.core.errors import UsageError


def is_file(source: str) -> bool:
    """Return whether an argument names an existing file, or standard input (`-`)."""
    return source == "-" or ("://" not in source and Path(source).exists())


def read_input(source: str) -> bytes:
    """Return the content of a file, or of standard input (`-`).

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{source} cannot be read: {error.strerror}; give a file or a URL"
        ) from None
