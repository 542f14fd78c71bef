"""What a Python programmer passes to the API."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lycosa import Workspace
from lycosa.config.reading import parse_config
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.parameters import duration_ms, overrides_of, texts, whole_number


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
def test_durations(value: Any, milliseconds: int | None) -> None:
    assert duration_ms("delay", value) == milliseconds


@pytest.mark.parametrize(
    "value", [-1, True, [], float("nan"), float("inf"), timedelta(seconds=-1), "soon", b"1s"]
)
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(UsageError, match="duration"):
        duration_ms("delay", value)


@pytest.mark.parametrize("value", [-1, 1.5, "3", True])
def test_what_is_no_whole_number(value: Any) -> None:
    with pytest.raises(UsageError, match="depth"):
        whole_number("depth", value)


def test_texts() -> None:
    assert texts("urls", "a") == ("a",)
    assert texts("urls", ["a", ("b", "c"), Path("d")]) == ("a", "b", "c", "d")
    assert texts("urls", (name for name in "ab")) == ("a", "b")
    for wrong in ([1], [b"a"], [{"a": 1}]):
        with pytest.raises(UsageError, match="urls"):
            texts("urls", wrong)


def test_settings_as_a_mapping() -> None:
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
    with pytest.raises(UsageError, match="cannot be the value"):
        overrides_of({"fetch": {"contact": object()}})


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
def test_wrong_parameters_are_usage_errors(tmp_path: Path, call: Any) -> None:
    with pytest.raises(LycosaError) as raised:
        call(Workspace(tmp_path / "w"))
    assert raised.value.exit_code == 2
    assert not (tmp_path / "w").exists()
