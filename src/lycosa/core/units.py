"""Durations and sizes with units: `10s`, `1.5h`, `64MiB`.

`format_duration` and `write_size` are exact; `format_size` rounds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

from lycosa.core.errors import UsageError

_DURATION_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_SIZES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_SIZES_BY_LOWER = {unit.lower(): size for unit, size in _SIZES.items()}
_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([a-zA-Z]+)\s*")
_DURATION = re.compile(
    rf"(?:[0-9]{{1,30}}(?:\.[0-9]{{1,30}})?\s*(?:{'|'.join(_DURATION_MS)})\s*)+",
    re.IGNORECASE | re.ASCII,
)
_LIMIT = 2**53
"""Maximum of milliseconds (285,000 years) or bytes (8 PiB), exact in every JSON reader."""


def parse_duration_ms(text: str) -> int:
    """Return a duration in milliseconds: `"1m30s"` -> 90000.

    Units: ms s m (min) h d w; `0` needs none.

    Raises:
        UsageError: no unit, an unknown unit, a negative value, or more than 285,000 years.
    """
    stripped = text.strip()
    if re.fullmatch(r"0+(\.0+)?", stripped):
        return 0
    if not _DURATION.fullmatch(stripped):
        raise UsageError(
            f"{text!r} is not a duration: write a number and a unit, as in 500ms, 10s, 5m, 2h, 1d"
        )
    parts = _PART.findall(stripped)
    total = sum(Decimal(number) * _DURATION_MS[unit.lower()] for number, unit in parts)
    if total > _LIMIT:
        raise UsageError(f"{text!r} is too long for a duration")
    return round(total)


def format_duration(milliseconds: float) -> str:
    """Format a duration of at least 0, exact to the millisecond.

    90000 -> `"1m30s"`, 1500 -> `"1.5s"`.
    """
    rest = round(milliseconds)
    if rest < 1_000:
        return f"{rest}ms" if rest else "0s"
    if rest < 60_000:
        return f"{rest / 1000:g}s"
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    if rest:
        parts.append(f"{rest}ms")
    return "".join(parts)


def parse_size(text: str) -> int:
    """Return a size in bytes: `"64MiB"` -> 67108864.

    Units: B KB MB GB KiB MiB GiB TiB, in any case; `0` needs none.

    Raises:
        UsageError: no unit, an unknown one, a negative value, or more than 8 PiB.
    """
    stripped = text.strip()
    if stripped == "0":
        return 0
    match = _PART.fullmatch(stripped)
    unit = _SIZES_BY_LOWER.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"{text!r} is not a size: write a number and a unit, as in 512KiB, 10MiB, 2GB"
        )
    size = Decimal(match[1]) * unit
    if size > _LIMIT:
        raise UsageError(f"{text!r} is too large for a size")
    return round(size)


def write_size(size: int) -> str:
    """Format a size exactly, in the largest binary unit that divides it.

    65536 -> `"64KiB"`, 1500 -> `"1500B"`.
    """
    if size == 0:
        return "0B"
    unit = next(unit for unit in ("TiB", "GiB", "MiB", "KiB", "B") if size % _SIZES[unit] == 0)
    return f"{size // _SIZES[unit]}{unit}"


def format_size(size: float) -> str:
    """Format a size with at most one decimal: 10485760 -> `"10MiB"`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1023.5:  # 1024 is written in the next unit
            return (
                f"{size:.0f}{unit}"
                if unit == "B" or size >= 100
                else f"{size:.1f}{unit}".replace(".0", "")
            )
        size /= 1024
    return f"{size:.1f}TiB"


def format_time(at_ms: int) -> str:
    """Format milliseconds since 1970 as `2026-11-21T10:26:18Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970 of a time with a time zone."""
    return round(moment.timestamp() * 1000)


def number_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 link`, `2,000 links`.

    `plural`: only if it is not formed with s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
