"""Matches of texts in pages, on the terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lycosa.cli.options import date_ms
from lycosa.core.units import parse_duration_ms

if TYPE_CHECKING:
    from lycosa.matching.matches import StoredMatch

_MAX_POSITIONS = 8


def print_match(match: StoredMatch, start: str = "") -> None:
    """Print a match on two lines."""
    positions = ", ".join(map(str, match.positions[:_MAX_POSITIONS]))
    more = f" and {match.count - _MAX_POSITIONS} more" if match.count > _MAX_POSITIONS else ""
    print(f"{start}{match.url}  {match.text!r} at {positions}{more}")
    if match.context:
        print(f"    {match.context}")


def start_of(text: str) -> datetime:
    """Return a start: a date, or an age such as 7d.

    Raises:
        UsageError: it is neither.
    """
    if "-" in text:
        return datetime.fromtimestamp(date_ms(text) / 1000, UTC)
    return datetime.now(UTC) - timedelta(milliseconds=parse_duration_ms(text))
