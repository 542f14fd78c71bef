"""Remove credentials from messages: libraries quote URLs with signatures, tokens and keys."""

from __future__ import annotations

import os
import re

_SECRETS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_CLIENT_SECRET", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
    *("GOOGLE_SERVICE_ACCOUNT_KEY", "HADOOP_DELEGATION_TOKEN", "HADOOP_HTTP_PASSWORD"),
)
"""Environment variables whose values no message may contain."""

_QUERY = re.compile(r"\?[^\s'\"<>)]*")
_USER = re.compile(r"(?<=://)[^\s/@]+@")
_SIGNED = re.compile(
    r"(?i)\b(credential|signature|x-amz-[a-z-]+|delegation|token"
    r"|authorization)\s*[=:]\s*[^\s,;'\"<>]+"
)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_MAX_LENGTH = 300


def without_secrets(text: str) -> str:
    """Return the first line of a message without query strings, user names in URLs, signatures, and
    the values of `_SECRETS`.
    """
    line = text.strip().partition("\n")[0][: 10 * _MAX_LENGTH]
    for name in _SECRETS:
        value = os.environ.get(name, "")
        if len(value) >= 4:
            line = line.replace(value, "[hidden]")
    for pattern in (_QUERY, _USER, _SIGNED, _KEY_ID):
        line = pattern.sub("[hidden]", line)
    return line[:_MAX_LENGTH]
