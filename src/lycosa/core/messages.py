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
        said = super().__new__(cls, _english(message, values) if values else message)
        said.code, said.message, said.values = code, message, values
        return said

    def __reduce__(self) -> tuple[Any, ...]:
        return _said, (self.code, self.message, dict(self.values))


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


def _said(code: str, message: str, values: Mapping[str, Value]) -> Message:
    return Message(code, message, **values)


def _english(message: str, values: Mapping[str, Value]) -> str:
    def plural(found: re.Match[str]) -> str:
        number = values[found[1]]
        return found[2 if number == 1 else 3].replace("#", f"{number:,}")

    chosen = _PLURAL.sub(plural, message)
    return _VALUE.sub(lambda found: str(values[found[1]]), chosen)
