"""What an archive must not hold: credentials that we send, and the sessions that they opened.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REDACTED = "[redacted]"
SECRET_FIELDS = frozenset(("authorization", "cookie"))

_SET_COOKIE = re.compile(
    # a cookie may be a value alone, a line folded
    rb"^(set-cookie[ \t]*+:(?:(?:[^=;\r\n]|\r?\n[ \t])*+=)?+)(?:[^;\r\n]|\r?\n[ \t])*+",
    re.IGNORECASE | re.MULTILINE,
)


def redacted_fields(headers: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Request fields as they are recorded: Authorization and Cookie were sent, what stood in them
    is nobody's business.
    """
    if not any(name.lower() in SECRET_FIELDS for name, _ in headers):
        return headers
    return [(name, REDACTED if name.lower() in SECRET_FIELDS else value) for name, value in headers]


def without_sessions(response_head: bytes) -> bytes:
    """A response head whose cookies have names and attributes, but no values."""
    return _SET_COOKIE.sub(lambda match: match[1] + REDACTED.encode(), response_head)
