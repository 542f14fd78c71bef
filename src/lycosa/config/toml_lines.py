"""Where in a TOML file something is set."""

from __future__ import annotations

import tomllib
from typing import Any


def line_of(text: str, location: tuple[str | int, ...]) -> str:
    """`, line N` of the statement that sets `location`; empty where no line is found.

    It is the last line that holds the key's name and before which the file is whole TOML that does
    not set it yet: this way dotted keys, inline tables and texts over several lines need no rules
    of their own.
    """
    names = [part for part in location if isinstance(part, str)]
    if not names:
        return ""
    result = ""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if names[-1] not in line:
            continue
        try:
            before = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # inside a text or an array of several lines
        if _is_set(before, location):
            break
        if not line.lstrip().startswith("#"):
            result = f", line {number + 1}"
    return result


def _is_set(data: Any, location: tuple[str | int, ...]) -> bool:
    for part in location:
        held = (
            part in data
            if isinstance(data, dict)
            else isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if not held:
            return False
        data = data[part]
    return True
