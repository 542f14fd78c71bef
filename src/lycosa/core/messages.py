"""Sentences for people that keep what they are made of, so that the pages can say them in the
reader's language.

A `Message` is its English text, and goes wherever a text does: to the terminal, into JSON. Beside
it stand a code, which stays the same when words are mended, the message in ICU's format, and its
values. `scripts/make_translations.py` gathers the messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLURAL = re.compile(r"\{(\w+), plural, one \{([^{}]*)\} other \{([^{}]*)\}\}")
_VALUE = re.compile(r"\{(\w+)\}")

Value = str | int


class Message(str):
    """A sentence. A value may be one itself. Of ICU's format English needs `{name}` and `{name,
    plural, one {…} other {…}}`, with # for the number; a test holds these to ICU. A message without
    values is plain text.
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
    """Several sentences as one, `a; b; c`; what is no `Message` stays as it is."""
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
