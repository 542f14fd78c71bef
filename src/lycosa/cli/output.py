"""What commands print: JSON, and data for programs."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any, BinaryIO, cast

_NOT_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069]")
"""Control characters that `json` leaves as they are."""


def json_text(document: object, *, indent: int | None = None) -> str:
    """JSON without control characters, those of C1 and bidirectional ones included."""
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=str)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Escaped(io.RawIOBase):
    """Data shown to a person: text, with control characters escaped."""

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


def data_stream() -> BinaryIO:
    """Standard output for data that a program reads. On a terminal it is escaped like all text."""
    return cast("BinaryIO", _Escaped() if sys.stdout.isatty() else sys.stdout.buffer)
