"""Messages with advice about errors of the system: full disk, quota, permissions, open files."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OWN = "Run it as the owner of the files, or grant this account access"
_ADVICE = {
    errno.ENOSPC: "Free disk space and try again",
    errno.EDQUOT: "Free disk space or raise the quota, and try again",
    errno.EFBIG: "Allow larger files (`ulimit -f`, or a limit of the file system)",
    errno.EROFS: "It is mounted read-only, perhaps because of a disk error (see `dmesg`)",
    errno.EIO: "The disk is failing (see `dmesg`): run `lycosa check` to find the damage",
    errno.EACCES: _OWN,
    errno.EPERM: _OWN,
    errno.EMFILE: "Allow more open files (`ulimit -n`)",
    errno.ENFILE: "The system has too many open files: stop other programs, or raise fs.file-max",
    errno.ENOMEM: "Free memory or add more, and try again",
}
# messages of libraries in Rust
_RUST = re.compile(r"\(os error (\d+)\)|\bcode: (\d+), kind: ")
_SQLITE = {
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "attempt to write a readonly database": errno.EROFS,
}


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes is a full disk or quota."""
    return any(number in _FULL for number, _ in _refusals(error))


def refusal(error: BaseException | None) -> str:
    """Return a message if an error or one of its causes is an error of the system, else ""."""
    for number, path in _refusals(error):
        # errors about ports have no path
        if number in _ADVICE and (path or number not in (errno.EACCES, errno.EPERM)):
            where = f"{path}: " if path else ""
            return f"{where}{os.strerror(number)}. {_ADVICE[number]}; committed data is not lost"
    return ""


def refusal_in(error: BaseException, folder: str) -> str:
    """Return the message of `refusal` if the error is about a file of a folder, else ""."""
    place = os.path.realpath(folder)
    for _, path in _refusals(error):
        if path:
            real = os.path.realpath(path)
            if place in (real, os.path.commonpath((real, place))) or place.startswith(f"{real}/"):
                return refusal(error)
    return ""


def _refusals(error: BaseException | None) -> Iterator[tuple[int, str]]:
    """Return (errno, path or "") of an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        text = str(error)
        if isinstance(error, OSError) and error.errno:
            yield error.errno, _text(error.filename)
        elif isinstance(error, MemoryError):
            yield errno.ENOMEM, ""
        elif isinstance(error, sqlite3.Error):
            if text in _SQLITE:
                yield _SQLITE[text], ""
        elif match := _RUST.search(text):
            yield int(match[1] or match[2]), ""
        error = error.__cause__ or error.__context__


def _text(path: object) -> str:
    if isinstance(path, str | bytes | os.PathLike):
        return os.fsdecode(path)
    return ""
