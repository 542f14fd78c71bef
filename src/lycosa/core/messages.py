"""Translatable messages.

A `Message` is a string, its English text, with a stable code, the ICU message format and its values
as attributes. `scripts/make_translations.py` collects the messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLURAL = re.compile(r"\{(\w+), plural, one \{([^{}]*)\} other \{([^{}]*)\}\}")
_VALUE = re.compile(r"\{(\w+)\}")

Value = str | int


class Message(str):
    """A message. Values may be messages.

    Supported parts of the ICU format: `{name}` and `{name, plural, one {…} other {…}}`, with # for
    the number. A message without values is plain text.
    """

    __slots__ = ("code", "message", "values")

    code: str
    message: str
    values: Mapping[str, Value]

    def __new__(cls, code: str, message: str, **values: Value) -> Message:
        self_text = super().__new__(cls, _english(message, values) if values else message)
        self_text.code, self_text.message, self_text.values = code, message, values
        return self_text

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_message, (self.code, self.message, dict(self.values))


def listed(parts: Sequence[str]) -> str:
    """Join messages as `a; b; c`; plain strings are not translated."""
    if not parts:
        return ""
    *before, last = parts
    return (
        Message("listed", "{first}; {second}", first=listed(before), second=last)
        if before
        else last
    )


def _make_message(code: str, message: str, values: Mapping[str, Value]) -> Message:
    return Message(code, message, **values)


def _english(message: str, values: Mapping[str, Value]) -> str:
    def plural(match: re.Match[str]) -> str:
        number = values[match[1]]
        return match[2 if number == 1 else 3].replace("#", f"{number:,}")

    chosen = _PLURAL.sub(plural, message)
    return _VALUE.sub(lambda result: str(values[result[1]]), chosen)
