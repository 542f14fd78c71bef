"""Errors, descriptions of system errors, and translatable messages."""

from __future__ import annotations

import copy
import errno
import json
import pickle
import re
import runpy
import sqlite3
from pathlib import Path

import pytest

from lycosa.core import errors
from lycosa.core.errors import (
    RETRY_STATUSES,
    ConfigError,
    FetchError,
    LycosaError,
    Refusal,
    UrlError,
    UsageError,
    WorkError,
)
from lycosa.core.messages import Message, listed
from lycosa.core.system_errors import is_disk_full, refusal
from lycosa.serve.web.i18n import interface

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, LycosaError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: str(error.__name__))
def test_error_classes_have_exit_code_and_docstring(error: type[LycosaError]) -> None:
    assert error.exit_code == (2 if issubclass(error, UsageError) else 1)
    assert error.__doc__
    assert issubclass(error, UsageError | WorkError) or error is LycosaError
    assert error.__name__ in (errors.__doc__ or ""), (
        "the tree in the module docstring is incomplete"
    )


def test_url_error_has_url_and_reason() -> None:
    error = UrlError(Refusal.SCHEME, "mailto:\ud800x")
    assert (error.reason, error.url) == (Refusal.SCHEME, "mailto:\ud800x")
    assert "only http, https" in str(error)
    assert str(error).encode()  # a lone surrogate must not break printing


def test_errors_and_statuses_that_are_not_retried() -> None:
    assert {error for error in FetchError if not error.retry} == {
        FetchError.NAME_UNKNOWN,
        FetchError.TLS,
        FetchError.TLS_CERTIFICATE,
        FetchError.HEADERS_TOO_LARGE,
        FetchError.BAD_HTTP,
        FetchError.BAD_ENCODING,
        FetchError.ADDRESS_REFUSED,
        FetchError.BAD_REDIRECT,
        FetchError.UNSUPPORTED_SCHEME,
        FetchError.PARSE_CRASHED,
    }
    assert all(status >= 400 for status in RETRY_STATUSES)
    assert not {400, 401, 403, 404, 410, 451, 501} & RETRY_STATUSES


def test_enum_values_are_unique_lower_case_words() -> None:
    for vocabulary in (FetchError, Refusal, errors.Exclusion):
        values = [member.value for member in vocabulary]
        assert all(value.replace("_", "").isalnum() and value == value.lower() for value in values)
        assert len(values) == len(set(values))
    assert issubclass(ConfigError, UsageError)


def _with_cause(error: Exception, cause: Exception) -> Exception:
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
            _with_cause(RuntimeError("the worker died"), OSError(errno.EIO, "x", "/w/a")),
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
def test_system_error_is_described_with_a_remedy(error: Exception, begins: str, full: bool) -> None:
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
def test_other_errors_are_not_system_refusals(error: Exception | None) -> None:
    assert refusal(error) == ""
    assert not is_disk_full(error)


def test_cyclic_causes_are_handled() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert refusal(first) == ""


ROOT = Path(__file__).parents[2]


def test_message_is_its_english_text() -> None:
    plain = Message(
        "pages",
        "{n, plural, one {# page} other {# pages}} of {host}: {why}",
        n=1,
        host="{n} <b>",
        why=Message("why", "so"),
    )
    assert (plain, json.loads(json.dumps([plain]))) == ("1 page of {n} <b>: so", [plain])
    for again in (pickle.loads(pickle.dumps(plain)), copy.deepcopy(plain)):
        assert (again, again.code, again.message, again.values) == (
            plain,
            "pages",
            plain.message,
            plain.values,
        )
    assert plain.values["why"].code == "why"  # type: ignore[union-attr]


def test_listed_joins_messages() -> None:
    assert (listed([]), listed(["plain"])) == ("", "plain")
    both = listed([Message("a", "one"), "two", Message("b", "three")])
    assert (both, interface("zh").sentence(both).count("；")) == ("one; two; three", 2)


def test_english_messages_equal_those_of_icu() -> None:
    said_messages = runpy.run_path(str(ROOT / "scripts" / "make_translations.py"))["said_messages"]
    english = interface("en")
    result = sorted(said_messages())
    assert len(result) > 100
    for message in result:
        names = set(re.findall(r"\{(\w+)[,}]", message))
        for number in (1, 2, 123):
            plural = set(re.findall(r"\{(\w+), plural", message))
            values: dict[str, str | int] = {
                name: number if name in plural else f"<{name}'s>" for name in names
            }
            if values:
                assert Message("code", message, **values) == english.t(message, **values)
            else:
                assert Message("code", message) == message == english.t(message)
