"""Durations, sizes and times, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.core.units import (
    format_duration,
    format_size,
    format_time,
    parse_duration_ms,
    parse_size,
    write_size,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("0.0", 0),
        ("0s", 0),
        ("250ms", 250),
        ("10s", 10_000),
        ("1.5s", 1_500),
        ("1.0005s", 1_000),
        ("5m", 300_000),
        ("5min", 300_000),
        ("1.5h", 5_400_000),
        ("1d", 86_400_000),
        ("2w", 1_209_600_000),
        ("1m30s", 90_000),
        ("1h 30m 5s", 5_405_000),
        (" 10 s ", 10_000),
        ("10S", 10_000),
        ("1MIN", 60_000),
        ("100000000000.001s", 100_000_000_000_001),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "10",
        "s",
        "-5s",
        "+5s",
        "10 parsecs",
        "1s foo",
        "foo 1s",
        "1.s",
        ".5s",
        "1e3s",
        "1,5s",
        "٣s",
        "1ſ",
        "nan s",
        "infs",
        "9" * 400 + "s",
        "9" * 25 + "d",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_500, "1.5s"),
        (59_999, "59.999s"),
        (60_000, "1m"),
        (90_000, "1m30s"),
        (3_600_000, "1h"),
        (3_600_001, "1h1ms"),
        (86_400_000, "1d"),
        (604_800_000, "7d"),
        (90_061_001, "1d1h1m1s1ms"),
        (12.4, "12ms"),
        (0.4, "0s"),
    ],
)
def test_durations_are_written(milliseconds: float, text: str) -> None:
    assert format_duration(milliseconds) == text


@given(st.integers(0, 2**53))
def test_durations_are_read_as_written(milliseconds: int) -> None:
    assert parse_duration_ms(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("0B", 0),
        ("512", None),
        ("512B", 512),
        ("1kb", 1_000),
        ("1KiB", 1_024),
        ("10MiB", 10 * 2**20),
        ("10mib", 10 * 2**20),
        ("1.5MiB", 3 * 2**19),
        ("2GB", 2_000_000_000),
        ("1 TiB", 2**40),
        (" 1 KiB ", 1_024),
        ("0.5B", 0),
        ("", None),
        ("MiB", None),
        ("-1B", None),
        ("1PB", None),
        ("1KiB1B", None),
        ("1e3B", None),
        ("٣B", None),
        ("9" * 400 + "B", None),
        ("9000000TiB", None),
    ],
)
def test_sizes_are_read(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(UsageError, match="size"):
            parse_size(text)
    else:
        assert parse_size(text) == size


@given(st.integers(0, 2**53))
def test_sizes_are_read_as_written(size: int) -> None:
    assert parse_size(write_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1_500, "1500B"),
        (2**16, "64KiB"),
        (10 * 2**20, "10MiB"),
        (2**40, "1TiB"),
        (2**50, "1024TiB"),
    ],
)
def test_sizes_are_written_exactly(size: int, text: str) -> None:
    assert write_size(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1_023, "1023B"),
        (1_024, "1KiB"),
        (1_500, "1.5KiB"),
        (100 * 1_024 + 600, "101KiB"),
        (2**20 - 1, "1MiB"),
        (10 * 2**20, "10MiB"),
        (5.25 * 2**30, "5.2GiB"),
        (3 * 2**40, "3.0TiB"),
    ],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 2**53))
def test_sizes_for_people_are_near(size: int) -> None:
    assert abs(parse_size(format_size(size)) - size) <= max(0.5, size * 0.06)


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_256_778_999, "2026-11-21T10:26:18Z"),
        (-1_000, "1969-12-31T23:59:59Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
    ],
)
def test_times(at_ms: int, text: str) -> None:
    assert format_time(at_ms) == text
