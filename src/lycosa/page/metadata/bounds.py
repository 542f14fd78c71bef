"""Bounds and cleaning of untrusted values."""

from __future__ import annotations

import math
import re
from html import unescape
from typing import Any

from lycosa.page.page_parts import fold

MAX_DEPTH = 12  # of nested values
MAX_VALUE = 2_000  # characters of a raw value
MAX_VALUES = 2_000  # raw values of a page
MAX_CHARACTERS = 60_000  # of all raw values of a page
_MAX_KEY = 200
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_MAX_NUMBER = 2**53


def clean(text: str, limit: int = MAX_VALUE) -> str:
    """Return a text on one line, without control characters and lone surrogates, at most `limit`
    characters long.
    """
    if not text:
        return ""
    text = text[: 4 * limit]
    if not text.isprintable():
        text = _UNSAFE.sub(" ", text)
    return fold(text)[:limit].rstrip()


def declared_text(text: str, limit: int = MAX_VALUE) -> str:
    """Return a declared text without the character references that were escaped twice."""
    return clean(unescape(text[: 4 * limit]) if "&" in text else text, limit)


class MetadataBudget:
    """The remaining size of the raw values of a page that may be stored."""

    def __init__(self) -> None:
        self._characters = MAX_CHARACTERS
        self._values = MAX_VALUES

    def text(self, value: str) -> str | None:
        """Return a cleaned text, None once the budget is used up."""
        cleaned = clean(value)
        self._values -= 1
        self._characters -= len(cleaned)
        return cleaned if self._values >= 0 and self._characters >= 0 else None

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a copy of a JSON value within the budget; values that exceed it become None."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or value is None:
            self._values -= 1
            return value
        if isinstance(value, int | float):
            self._values -= 1
            finite = isinstance(value, int) or math.isfinite(value)
            return value if finite and abs(value) <= _MAX_NUMBER else None
        if depth >= MAX_DEPTH:
            return None
        if isinstance(value, list):
            return [part for each in value if (part := self._part(each, depth)) is not None]
        if isinstance(value, dict):
            return {
                clean(str(key), _MAX_KEY): part
                for key, each in value.items()
                if (part := self._part(each, depth)) is not None
            }
        return None

    def _part(self, value: Any, depth: int) -> Any:
        if self._values <= 0 or self._characters <= 0:
            return None
        return self.value(value, depth + 1)
