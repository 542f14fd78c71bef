"""Hours of the day in which something is allowed: `22:00-06:00, 12:00-13:30`, UTC. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lycosa.core.errors import UsageError

_DAY = 24 * 60
_MINUTE_MS = 60_000
_SPAN = re.compile(r"(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)")


@dataclass(slots=True, frozen=True)
class Hours:
    """Spans of the day, in minutes after midnight UTC: the first is in, the last is not. Without
    any: always.
    """

    spans: tuple[tuple[int, int], ...] = ()

    def open_at(self, at_ms: int) -> bool:
        """Whether a moment (ms since 1970) lies in one of the spans."""
        minute = at_ms // _MINUTE_MS % _DAY
        return not self.spans or any(_within(minute, start, end) for start, end in self.spans)


def parse_hours(text: str) -> Hours:
    """Read `HH:MM-HH:MM`, several with commas; a span may go over midnight, and `24:00` is the
    day's end. Empty: always.

    Raises:
        UsageError: a part is no span, names no time of day, or is empty (its start is its end).
    """
    if not text.strip():
        return Hours()
    return Hours(tuple(_span(part.strip()) for part in text.split(",")))


def _within(minute: int, start: int, end: int) -> bool:
    return start <= minute < end if start < end else minute >= start or minute < end


def _span(part: str) -> tuple[int, int]:
    match = _SPAN.fullmatch(part)
    if match is None:
        raise UsageError(
            f"{part!r} is not a time range: write HH:MM-HH:MM in UTC, for example 22:00-06:00, "
            "with commas between several ranges"
        )
    start = _minutes(part, match[1], match[2])
    end = _minutes(part, match[3], match[4])
    if start % _DAY == end % _DAY and (start, end) != (0, _DAY):
        raise UsageError(
            f"{part!r} is an empty time range: begin and end must differ; a full day is 00:00-24:00"
        )
    return start % _DAY, end or _DAY


def _minutes(part: str, hours: str, minutes: str) -> int:
    value = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or value > _DAY:
        raise UsageError(f"{part!r}: {hours}:{minutes} is not a time of day (00:00 to 24:00)")
    return value
