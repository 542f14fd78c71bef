"""JSON objects of other programs, and of files that may be damaged."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any


def json_object(content: bytes | None) -> dict[str, Any]:
    """Return the object in a JSON text; {} for any other content, and None. Never raises."""
    document: object = None
    with suppress(ValueError, RecursionError):
        document = json.loads(content or b"null")
    return document if isinstance(document, dict) else {}
