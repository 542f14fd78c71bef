"""Errors sort themselves into retry and stop."""

from __future__ import annotations

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

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, LycosaError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: str(error.__name__))
def test_every_error_has_its_exit_code_and_a_text(error: type[LycosaError]) -> None:
    assert error.exit_code == (2 if issubclass(error, UsageError) else 1)
    assert error.__doc__
    assert issubclass(error, UsageError | WorkError) or error is LycosaError
    assert error.__name__ in (errors.__doc__ or ""), "the tree on top of the file names every error"


def test_a_url_error_says_which_and_why() -> None:
    error = UrlError(Refusal.SCHEME, "mailto:\ud800x")
    assert (error.reason, error.url) == (Refusal.SCHEME, "mailto:\ud800x")
    assert "only http, https" in str(error)
    assert str(error).encode()  # a lone surrogate does not break what prints it


def test_what_may_be_tried_again() -> None:
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


def test_vocabularies_are_lower_case_words() -> None:
    for vocabulary in (FetchError, Refusal, errors.Exclusion):
        values = [member.value for member in vocabulary]
        assert all(value.replace("_", "").isalnum() and value == value.lower() for value in values)
        assert len(values) == len(set(values))
    assert issubclass(ConfigError, UsageError)
