"""Header fields of requests, in the form that is sent and recorded; Retry-After of responses."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import ConfigError

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"

_BAD_FIELD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def default_fields(settings: FetchSettings) -> list[bytes]:
    """Return the field lines of every request, without line ends. The product token remains the
    first word of the User-Agent.

    Raises:
        ConfigError: a setting contains line ends or control characters.
    """
    agent = (
        f"{settings.user_agent} (+{settings.contact})" if settings.contact else settings.user_agent
    )
    fields = [("User-Agent", agent), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING)]
    if settings.accept_language:
        fields.append(("Accept-Language", settings.accept_language))
    lines = field_lines(fields)
    if len(lines) != len(fields):
        raise ConfigError(
            "fetch.user_agent, fetch.contact and fetch.accept_language must not "
            "contain line breaks or control characters"
        )
    return lines


def field_lines(headers: Sequence[tuple[str, str]]) -> list[bytes]:
    """Return header lines. Values from a server (an ETag) may have any content, so invalid fields
    are omitted.
    """
    return [
        f"{name}: {value.strip()}".encode("utf-8", "replace")
        for name, value in headers
        if value.strip() and not _BAD_FIELD.search(name + value)
    ]


def with_fields(defaults: Sequence[bytes], own: Sequence[bytes]) -> list[bytes]:
    """Return the default lines and those of a request, which replace defaults of that name."""
    names = {line.partition(b":")[0].lower() for line in own}
    return [*(line for line in defaults if line.partition(b":")[0].lower() not in names), *own]


def head_end(fields: Sequence[bytes]) -> bytes:
    """Return the lines as the end of a request's head."""
    return b"".join(field + b"\r\n" for field in fields) + b"\r\n"


REDACTED = "[redacted]"
SECRET_FIELDS = frozenset(("authorization", "cookie"))

_SET_COOKIE = re.compile(
    # a cookie may be a value alone, a line folded
    rb"^(set-cookie[ \t]*+:(?:(?:[^=;\r\n]|\r?\n[ \t])*+=)?+)(?:[^;\r\n]|\r?\n[ \t])*+",
    re.IGNORECASE | re.MULTILINE,
)


def redacted_fields(headers: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return request fields without the values of Authorization and Cookie."""
    if not any(name.lower() in SECRET_FIELDS for name, _ in headers):
        return headers
    return [(name, REDACTED if name.lower() in SECRET_FIELDS else value) for name, value in headers]


def without_sessions(response_head: bytes) -> bytes:
    """Return a response head without the values of its cookies."""
    return _SET_COOKIE.sub(lambda match: match[1] + REDACTED.encode(), response_head)


def retry_after_s(value: str | None) -> float:
    """Return the seconds of a Retry-After header (RFC 9110 section 10.2.3), at most 600.

    0 without a valid value.
    """
    if not value:
        return 0.0
    try:
        seconds = (
            float(value)
            if value.strip().isdigit()
            else parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(600.0, max(0.0, seconds))
