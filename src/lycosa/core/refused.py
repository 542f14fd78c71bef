"""What the system refuses - a full disk, a quota, missing rights, too many open files - told in words, with what to do."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OWN = "Run it as the account that owns the files, or give this one the right"
_ADVICE = {
    errno.ENOSPC: "Free some space and do it again",
    errno.EDQUOT: "Free some space or have the quota raised, and do it again",
    errno.EFBIG: "Have larger files allowed (`ulimit -f`; or the file system has a limit of its own)",
    errno.EROFS: "It was mounted so, or the system made it so after a fault of the disk (`dmesg` tells)",
    errno.EIO: "The disk fails (`dmesg` tells more): `lycosa check` says what is damaged",
    errno.EACCES: _OWN,
    errno.EPERM: _OWN,
    errno.EMFILE: "Have more open files allowed (`ulimit -n`)",
    errno.ENFILE: "The whole system has too many open files: end something, or raise fs.file-max",
    errno.ENOMEM: "Free some memory, or give the machine more, and do it again",
}
_RUST = re.compile(r"\(os error (\d+)\)|\bcode: (\d+), kind: ")  # as libraries written in Rust say it
_SQLITE = {"database or disk is full": errno.ENOSPC, "disk I/O error": errno.EIO, "attempt to write a readonly database": errno.EROFS}


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, says that the disk (or a quota) takes no more."""
    return any(number in _FULL for number, _ in _refusals(error))


def refusal(error: BaseException | None) -> str:
    """One sentence for people if an error, or what led to it, is the system's refusal; "" otherwise."""
    for number, path in _refusals(error):
        if number in _ADVICE and (path or number not in (errno.EACCES, errno.EPERM)):  # a port may be refused too, and has no path
            where = f"{path}: " if path else ""
            return f"{where}{os.strerror(number)}. {_ADVICE[number]}; nothing that was committed is lost"
    return ""


def _refusals(error: BaseException | None) -> Iterator[tuple[int, str]]:
    """(errno, path or "") of an error and of what led to it."""
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
        elif found := _RUST.search(text):
            yield int(found[1] or found[2]), ""
        error = error.__cause__ or error.__context__


def _text(path: object) -> str:
    if isinstance(path, str | bytes | os.PathLike):
        return os.fsdecode(path)
    return ""
