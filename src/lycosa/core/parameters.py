"""Convert parameters of the Python API, whose types `api.checked_calls` has checked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from lycosa.core.errors import UsageError
from lycosa.core.units import parse_duration_ms

_Time = TypeVar("_Time", int, date)  # milliseconds, or a day

Duration = str | float | timedelta
"""A number of seconds, a `timedelta`, or text such as "10m"."""

Settings = Mapping[str, object] | Sequence[str]
"""`{"fetch": {"user_agent": "x"}}`, `{"fetch.user_agent": "x"}` or `["fetch.user_agent=x"]`."""


def duration_ms(name: str, value: Duration | None) -> int | None:
    """Return milliseconds, None for None and "". Raises UsageError."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return parse_duration_ms(value)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e10:
        raise UsageError(
            f"{name}: {value!r} is not a duration: pass seconds, a timedelta, or text such as '10m'"
        )
    return round(seconds * 1000)


def calendar_day(value: date | None) -> date | None:
    """Return the day (UTC) of a date or time, or None."""
    return in_utc(value).date() if isinstance(value, datetime) else value


def moment(value: date) -> datetime:
    """Return a time, of a day its start."""
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def moment_ms(value: date | int) -> int:
    """Return a time in milliseconds since 1970 UTC, of a day its start."""
    if isinstance(value, int):
        return value
    return int(in_utc(moment(value)).replace(tzinfo=UTC).timestamp() * 1000)


def check_period(
    since: _Time | None, until: _Time | None, shown: Callable[[_Time], str] = str
) -> None:
    """Raise UsageError if a period ends before it starts. `shown`: the text of a time."""
    if since is not None and until is not None and since > until:
        raise UsageError(
            f"since ({shown(since)}) is later than until ({shown(until)}): no page can match; "
            "exchange them"
        )


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC; one without a zone is in UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def texts(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """Flatten nested lists of strings and paths. Raises UsageError."""
    items: list[str] = []
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = (values,)
    for value in values:
        if isinstance(value, str):
            items.append(value)
        elif isinstance(value, os.PathLike):
            items.append(os.fspath(value))
        elif isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
            items += texts(name, value)
        else:
            raise UsageError(f"{name}: {value!r} is not text")
    return tuple(items)


def overrides_of(settings: Settings) -> tuple[str, ...]:
    """Return settings in the form of `--set`. Raises UsageError."""
    if isinstance(settings, str):
        return (settings,)
    if not isinstance(settings, Mapping):
        return texts("settings", settings)
    overrides = []
    for section, value in settings.items():
        pairs = value.items() if isinstance(value, Mapping) else ((None, value),)
        for key, each in pairs:
            overrides.append(f"{section}{'' if key is None else f'.{key}'}={_literal(each)}")
    return tuple(overrides)


def _literal(value: object) -> str:
    """Return a value as TOML. Raises UsageError."""
    if isinstance(value, timedelta):
        return f'"{round(value.total_seconds() * 1000)}ms"'
    if isinstance(value, Mapping):
        pairs = (f"{_literal(str(key))} = {_literal(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, os.PathLike):
        value = os.fsdecode(value)
    if not isinstance(value, str | int | float):
        hint = "; leave the setting out for its default" if value is None else ""
        raise UsageError(f"settings: {value!r} cannot be the value of a setting{hint}")
    return json.dumps(value, ensure_ascii=False)
