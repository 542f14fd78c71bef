"""Hours of the day: spans, midnight, and what is wrong with others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.core.hours import Hours, parse_hours


def at(text: str) -> int:
    """A time of some day, in ms since 1970."""
    hours, minutes = text.split(":")
    return (20_000 * 1_440 + int(hours) * 60 + int(minutes)) * 60_000


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("22:00-06:00", ("22:00", "23:59", "00:00", "05:59"), ("06:00", "12:00", "21:59")),
        ("9:30-17:00", ("09:30", "16:59"), ("09:29", "17:00", "00:00")),
        ("00:00-24:00", ("00:00", "12:00", "23:59"), ()),
        ("20:00-24:00", ("20:00", "23:59"), ("00:00", "19:59")),
        ("20:00-00:00", ("20:00", "23:59"), ("00:00", "19:59")),
        ("24:00-01:00", ("00:00", "00:59"), ("01:00", "23:59")),
        ("01:00-02:00, 03:00 - 04:00", ("01:30", "03:30"), ("02:30", "00:30", "04:00")),
        ("", ("00:00", "12:34"), ()),
    ],
)
def test_hours(text: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    hours = parse_hours(text)
    assert [time for time in inside if not hours.open_at(at(time))] == []
    assert [time for time in outside if hours.open_at(at(time))] == []


@pytest.mark.parametrize(
    "text",
    [
        "22-6",
        "22:00",
        "25:00-03:00",
        "24:01-03:00",
        "10:60-11:00",
        "10:00-10:00",
        "10:00-11:00,",
        "x",
        "24:00-00:00",
    ],
)
def test_what_are_no_hours_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"HH:MM-HH:MM|not a time of day|empty time range"):
        parse_hours(text)


@given(st.integers(0, 1_439), st.integers(0, 1_439), st.integers(0, 1_439))
def test_a_span_and_its_complement_share_the_day(start: int, end: int, minute: int) -> None:
    if start != end:
        moment = minute * 60_000
        assert Hours(((start, end),)).open_at(moment) != Hours(((end, start),)).open_at(moment)
