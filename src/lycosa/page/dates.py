"""Publication dates of pages.

Forms of dates that occur in meta elements, JSON-LD, `time` and feeds.

Only whole dates from 1990 to 2100 are accepted. A date without a zone is taken as UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from lycosa.core.patterns import lazy_pattern

FIRST_YEAR, LAST_YEAR = 1990, 2100

_ISO = lazy_pattern(
    r"\s*(\d{4})-?(\d\d)-?(\d\d)(?:[T\s]\s*(\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?\s*(Z|UTC|GMT"
    r"|[+-]\d\d(?::?\d\d)?)?)?(?!\d)",
    re.IGNORECASE,
)
_NUMBERS = lazy_pattern(
    r"\s*(\d{4})\s?[-/.年년]\s?(\d{1,2})\s?[-/.月월]\s?(\d{1,2})(?!\d)[日일.]?"
    r"(?:\s+(\d{1,2}):(\d\d)(?::(\d\d))?(?!\d))?"
)
_DAY_DOTS = lazy_pattern(
    r"\s*(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})(?!\d)(?:,?\s+(\d{1,2}):(\d\d)(?::(\d\d))?(?!\d))?"
)
_WEEKDAY = r"\s*(?:[A-Za-z]{3,9}(?:\.?,\s*|\.?\s+))?"
_DAY_MONTH_NAME = lazy_pattern(
    _WEEKDAY + r"(\d{1,2})(?:st|nd|rd|th)?[\s-]([A-Za-z]{3})[a-z]*\.?,?[\s-](\d{4}"
    r"|\d\d(?=[\s,]+\d{1,2}:))"
    r"(?:[\s,]+(\d{1,2}):(\d\d)(?::(\d\d))?)?\s*([+-]\d\d:?\d\d|[A-Z]{1,4}\b)?(?!\d)"
)
_MONTH_NAME_DAY = lazy_pattern(
    _WEEKDAY + r"([A-Za-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})(?!\d)"
    r"(?:\s+(\d\d):(\d\d):(\d\d)(?:\s+GMT([+-]\d{4})?)?)?"
)
_ASCTIME = lazy_pattern(
    _WEEKDAY
    + r"([A-Za-z]{3})\s+(\d{1,2})\s+(\d\d):(\d\d):(\d\d)\s+(?:([A-Z]{3,4})\s+)?(\d{4})(?!\d)"
)
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_ZONE_HOURS = {
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9,
}  # fmt: skip
"""RFC 822, section 5.1, and others of feeds that are unambiguous. RFC 822's
military zones count as UTC, since they were used with either sign (RFC 5322, section 4.3).
"""
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}


def parse_date(text: str) -> int | None:
    """Return the milliseconds since 1970 UTC of a date as pages write it, else None.

    Formats: ISO 8601, RFC 3339, RFC 9110 HTTP-date, `Date` of JavaScript and relatives. `3.4.2024`
    is in April.
    """
    text = text[:80]
    match = _ISO.match(text)
    if match:
        year, month, day, hour, minute, second, zone = match.groups()
        return _milliseconds(year, month, day, hour, minute, second, zone)
    match = _NUMBERS.match(text)
    if match:
        year, month, day, hour, minute, second = match.groups()
        return _milliseconds(year, month, day, hour, minute, second, None)
    match = _DAY_DOTS.match(text)
    if match:
        day, month, year, hour, minute, second = match.groups()
        return _milliseconds(year, month, day, hour, minute, second, None)
    match = _DAY_MONTH_NAME.match(text)
    if match:
        day, name, year, hour, minute, second, zone = match.groups()
        return _milliseconds(year, _MONTHS.get(name.lower()), day, hour, minute, second, zone)
    match = _MONTH_NAME_DAY.match(text)
    if match:
        name, day, year, hour, minute, second, zone = match.groups()
        return _milliseconds(year, _MONTHS.get(name.lower()), day, hour, minute, second, zone)
    match = _ASCTIME.match(text)
    if match:
        name, day, hour, minute, second, zone, year = match.groups()
        return _milliseconds(year, _MONTHS.get(name.lower()), day, hour, minute, second, zone)
    return None


def _milliseconds(
    year: str,
    month: str | int | None,
    day: str,
    hour: str | None,
    minute: str | None,
    second: str | None,
    zone: str | None,
) -> int | None:
    number = int(year)
    if len(year) == 2:  # RFC 5322, section 4.3
        number += 2_000 if number < 50 else 1_900
    if month is None or not FIRST_YEAR <= number <= LAST_YEAR:
        return None
    try:
        moment = datetime(
            number,
            int(month),
            int(day),
            int(hour or 0) % 12 + 12 if zone == "PM" else int(hour or 0),
            int(minute or 0),
            min(int(second or 0), 59),
            tzinfo=_zone(zone),
        )
        return int(moment.timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    """Return the time zone. Raises ValueError for an offset of a day or more."""
    if text and text in _ZONE_HOURS:
        return timezone(timedelta(hours=_ZONE_HOURS[text]))
    if not text or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(-offset if text[0] == "-" else offset)
