"""Units, clocks, time ranges of a day, and parameters of the Python API."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa import Workspace
from lycosa.config.reading import parse_config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.hours import Hours, parse_hours
from lycosa.core.parameters import duration_ms, overrides_of, texts
from lycosa.core.units import (
    format_duration,
    format_size,
    format_time,
    parse_duration_ms,
    parse_size,
    write_size,
)
from tests.waiting import ManualClock


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
def test_parse_duration(text: str, milliseconds: int) -> None:
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
def test_invalid_durations_are_refused(text: str) -> None:
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
def test_format_duration(milliseconds: float, text: str) -> None:
    assert format_duration(milliseconds) == text


@given(st.integers(0, 2**53))
def test_formatted_durations_are_parsed_exactly(milliseconds: int) -> None:
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
def test_parse_size(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(UsageError, match="size"):
            parse_size(text)
    else:
        assert parse_size(text) == size


@given(st.integers(0, 2**53))
def test_written_sizes_are_parsed_exactly(size: int) -> None:
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
def test_write_size(size: int, text: str) -> None:
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
def test_format_size(size: float, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(0, 2**53))
def test_formatted_sizes_are_within_six_percent(size: int) -> None:
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
def test_format_time(at_ms: int, text: str) -> None:
    assert format_time(at_ms) == text


def test_system_clock_returns_milliseconds() -> None:
    clock: Clock = SystemClock()
    before, reading, after = time.time(), clock.now_ms(), time.time()
    assert before * 1000 - 1 <= reading <= after * 1000 + 1
    assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < 1000


def test_system_clock_is_monotonic() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)


def test_manual_clock_changes_only_by_advance() -> None:
    clock: Clock = (manual := ManualClock(5_000))
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_000, 5_000)
    manual.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_250, 5_250)


def at(text: str) -> int:
    """Return a time of a fixed day in ms since 1970."""
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
def test_hours_are_open_within_their_ranges(
    text: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
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
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"HH:MM-HH:MM|not a time of day|empty time range"):
        parse_hours(text)


@given(st.integers(0, 1_439), st.integers(0, 1_439), st.integers(0, 1_439))
def test_a_range_and_its_complement_cover_the_day(start: int, end: int, minute: int) -> None:
    if start != end:
        moment = minute * 60_000
        assert Hours(((start, end),)).open_at(moment) != Hours(((end, start),)).open_at(moment)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (None, None),
        ("", None),
        (0, 0),
        ("0", 0),
        (5, 5_000),
        (0.25, 250),
        ("10m", 600_000),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_duration_arguments(value: Any, milliseconds: int | None) -> None:
    assert duration_ms("delay", value) == milliseconds


@pytest.mark.parametrize(
    "value", [-1, True, [], float("nan"), float("inf"), timedelta(seconds=-1), "soon", b"1s"]
)
def test_invalid_duration_arguments_are_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="duration"):
        duration_ms("delay", value)


def test_text_arguments() -> None:
    assert texts("urls", "a") == ("a",)
    assert texts("urls", ["a", ("b", "c"), Path("d")]) == ("a", "b", "c", "d")
    assert texts("urls", (name for name in "ab")) == ("a", "b")
    for invalid in ([1], [b"a"], [{"a": 1}]):
        with pytest.raises(UsageError, match="urls"):
            texts("urls", invalid)


def test_overrides_from_a_mapping() -> None:
    settings = {
        "fetch": {
            "user_agent": 'say "hi"',
            "http2": False,
            "connect_timeout": timedelta(seconds=3),
            "connect_to": ("a:1:b:2",),
        },
        "crawl.commit_pages": 7,
    }
    config = parse_config("", overrides=overrides_of(settings))
    assert (config.fetch.user_agent, config.fetch.http2, config.fetch.connect_timeout) == (
        'say "hi"',
        False,
        3_000,
    )
    assert (config.fetch.connect_to, config.crawl.commit_pages) == (("a:1:b:2",), 7)
    assert overrides_of(["a.b=1"]) == overrides_of("a.b=1") == ("a.b=1",)
    for invalid, message in ((object(), "cannot be the value"), (None, "leave the setting out")):
        with pytest.raises(UsageError, match=message):
            overrides_of({"fetch": {"contact": invalid}})


def test_overrides_of_nested_mappings_and_paths() -> None:
    fields = {"title": "h1", "links": {"css": 'a[rel="x y"]', "list": True}}
    settings = {"collection": {"name": "c", "fields": fields}, "fetch": {"ca_file": Path("/x y")}}
    config = parse_config("[[collection]]", overrides=overrides_of(settings))
    assert config.fetch.ca_file == "/x y"
    assert {
        name: (field.css, field.list) for name, field in config.collection[0].fields.items()
    } == {"title": ("h1", False), "links": ('a[rel="x y"]', True)}


@pytest.mark.parametrize(
    "call",
    [
        lambda ws: ws.crawl("http://127.0.0.1:9/", max_time=-5),
        lambda ws: ws.crawl("http://127.0.0.1:9/", max_pages="3"),
        lambda ws: ws.crawl("http://127.0.0.1:9/", delay=[]),
        lambda ws: ws.crawl(["http://127.0.0.1:9/", 5]),
        lambda ws: ws.search(5),
        lambda ws: ws.search("x", count=-1),
        lambda ws: ws.search("x", feedback="maybe"),
        lambda ws: ws.add(None),
    ],
)
def test_invalid_parameters_are_usage_errors(tmp_path: Path, call: Any) -> None:
    with pytest.raises(LycosaError) as raised:
        call(Workspace(tmp_path / "w"))
    assert raised.value.exit_code == 2
    assert not (tmp_path / "w").exists()
