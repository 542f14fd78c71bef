"""Header fields of requests, in the form that is sent and recorded; Retry-After of responses."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC
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


RETRY_AFTER_CAP_MS = 7 * 86_400_000
"""Maximum Retry-After (a week)."""

# with the unit that some servers write, and a second value that a proxy has appended
_SECONDS = re.compile(r"(\d{1,12})\d*(?:\.\d*)?\s*(?:s|sec|seconds)?(?:\s*,.*)?", re.ASCII | re.I)


def retry_after_ms(value: str | None, now_ms: int, date: str | None = None) -> int:
    """Parse Retry-After (RFC 9110 section 10.2.3: seconds or a date) into milliseconds; 0 if absent
    or invalid.

    `date`: the Date header of the response. If the server's clock is wrong, the longer of the two
    interpretations is used.
    """
    if not value:
        return 0
    text = value.strip()
    if (seconds := _SECONDS.fullmatch(text)) is not None:
        return min(int(seconds[1]) * 1000, RETRY_AFTER_CAP_MS)
    at_ms = _date_ms(text)
    if at_ms is None:
        return 0
    since = min(now_ms, _date_ms(date or "") or now_ms)
    return min(max(at_ms - since, 0), RETRY_AFTER_CAP_MS)


def _date_ms(text: str) -> int | None:
    """Parse an HTTP date in any of its forms (RFC 9110 section 5.6.7). Without a zone: UTC."""
    try:
        at = parsedate_to_datetime(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return None


def retry_after_s(value: str | None) -> float:
    """Return the seconds of a Retry-After header by the clock of this machine, at most 600."""
    return min(retry_after_ms(value, round(time.time() * 1000)), 600_000) / 1000
