"""Dates in cookies (RFC 6265 section 5.1.1): they come in every form, and are read by their parts.
Pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DELIMITERS = re.compile(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\D.*)?", re.DOTALL)
_DAY = re.compile(r"(\d{1,2})(?:\D.*)?", re.DOTALL)
_YEAR = re.compile(r"(\d{2,4})(?:\D.*)?", re.DOTALL)
_MONTHS = {
    name: number
    for number, name in enumerate(re.findall("...", "janfebmaraprmayjunjulaugsepoctnovdec"), 1)
}


def parse_cookie_date(text: str) -> int | None:
    """Milliseconds since 1970, or None for what is no date."""
    clock: tuple[int, int, int] | None = None
    day = month = year = None
    for token in _DELIMITERS.split(text):
        if clock is None and (match := _TIME.fullmatch(token)):
            clock = (int(match[1]), int(match[2]), int(match[3]))
        elif day is None and (match := _DAY.fullmatch(token)):
            day = int(match[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS[token[:3].lower()]
        elif year is None and (match := _YEAR.fullmatch(token)):
            year = int(match[1])
    if clock is None or day is None or month is None or year is None:
        return None
    if 70 <= year <= 99:
        year += 1900
    elif year <= 69:
        year += 2000
    if year < 1601:
        return None
    try:
        at = datetime(year, month, day, *clock, tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp()) * 1000
