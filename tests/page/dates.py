"""Times as the parsers return them."""

from __future__ import annotations

from datetime import UTC, datetime


def ms(*parts: int) -> int:
    """Return a UTC time, given as year, month, day, ..., in ms since 1970."""
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type,misc]
