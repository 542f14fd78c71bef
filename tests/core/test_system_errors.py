"""What the system refuses, in words."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from lycosa.core.system_errors import is_disk_full, refusal


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "begins", "full"),
    [
        (
            OSError(errno.ENOSPC, "x", "/w/log/1"),
            "/w/log/1: No space left on device. Free disk space",
            True,
        ),
        (
            OSError(errno.EDQUOT, "x", b"/w/a"),
            "/w/a: Disk quota exceeded. Free disk space or raise the quota",
            True,
        ),
        (ValueError("IO error (os error 28)"), "No space left on device. Free", True),
        (
            ValueError('IoError(Os { code: 30, kind: ReadOnlyFilesystem, message: "…" })'),
            "Read-only file system. It is mounted read-only",
            False,
        ),
        (
            _caused(RuntimeError("the worker died"), OSError(errno.EIO, "x", "/w/a")),
            "/w/a: Input/output error. The disk is failing",
            False,
        ),
        (sqlite3.OperationalError("database or disk is full"), "No space left on device.", True),
        (
            PermissionError(errno.EACCES, "x", "/w/a"),
            "/w/a: Permission denied. Run it as the owner of the files",
            False,
        ),
        (OSError(errno.EMFILE, "x"), "Too many open files. Allow more open files", False),
        (MemoryError(), "Cannot allocate memory. Free memory", False),
    ],
)
def test_a_refusal_is_told_with_what_to_do(error: Exception, begins: str, full: bool) -> None:
    assert refusal(error).startswith(begins)
    assert refusal(error).endswith("; committed data is not lost")
    assert is_disk_full(error) is full


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("a mistake of ours"),
        ConnectionRefusedError(errno.ECONNREFUSED, "x"),
        PermissionError(errno.EACCES, "a port, not a file"),
        FileNotFoundError(errno.ENOENT, "x", "/w/a"),
        sqlite3.OperationalError("no such table: x"),
    ],
)
def test_other_errors_are_not_taken_for_one(error: Exception | None) -> None:
    assert refusal(error) == ""
    assert not is_disk_full(error)


def test_errors_that_lead_to_one_another_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert refusal(first) == ""
