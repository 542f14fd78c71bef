"""Time ranges of the day in UTC: `22:00-06:00, 12:00-13:30`."""

from __future__ import annotations

import re

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError

_DAY = 24 * 60
_MINUTE_MS = 60_000
_SPAN = re.compile(r"(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)")


@dataclass(slots=True, frozen=True)
class Hours:
    """Ranges [begin, end) in minutes after midnight UTC; none: always."""

    spans: tuple[tuple[int, int], ...] = ()

    def open_at(self, at_ms: int) -> bool:
        """Return whether a time (ms since 1970) is in one of the ranges."""
        minute = at_ms // _MINUTE_MS % _DAY
        return not self.spans or any(_within(minute, start, end) for start, end in self.spans)


def parse_hours(text: str) -> Hours:
    """Parse `HH:MM-HH:MM`, several with commas. A range may include midnight; "": always.

    Raises:
        UsageError: a range is invalid or empty.
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
