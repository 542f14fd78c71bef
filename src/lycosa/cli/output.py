"""The output of commands: JSON, tables, notes and data for programs."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.matching.matches import StoredMatch

_MAX_POSITIONS = 8  # of a match

_NOT_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069]")
"""Control characters that `json` leaves as they are."""


def json_text(document: object, *, indent: int | None = None) -> str:
    """Return JSON without control characters, those of C1 and bidirectional ones included.

    Dataclasses and pydantic models are objects, and times are as in the JSON API.
    """
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=_plain)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else str(value)


class _Escaped(io.RawIOBase):
    """Data shown to a person: text, with control characters escaped."""

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


def data_stream() -> BinaryIO:
    """Return standard output for data that a program reads. A terminal gets escaped text."""
    return cast("BinaryIO", _Escaped() if sys.stdout.isatty() else sys.stdout.buffer)


@dataclasses.dataclass(frozen=True)
class Output:
    """The output of a command.

    With `--json` the model is printed, else the text and the note, with `--quiet` neither. `text`
    may be a function that prints. `failed`: the exit code is 1.
    """

    model: object
    text: str | Callable[[], object] = ""
    note: str = ""
    failed: bool = False

    def print(self, *, as_json: bool, quiet: bool) -> None:
        """Print the model or the text."""
        if as_json:
            print_json(self.model)
        elif not quiet:
            if callable(self.text):
                self.text()
            elif self.text:
                print(self.text)
            if self.note:
                note(self.note)


def print_json(document: object) -> None:
    """Print one JSON document on standard output."""
    print(json_text(document, indent=2))


def note(message: str) -> None:
    """Print a line for people on standard error."""
    print(message, file=sys.stderr)


def timed_note(message: str) -> None:
    """Print a line for people on standard error, with the time (UTC)."""
    from datetime import UTC

    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}")


def table(rows: list[tuple[str, str]], indent: str = "") -> str:
    """Return two aligned columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{indent}{name.ljust(width)}  {value}" for name, value in rows)


def counts(numbers: Mapping[Any, int], most: int = 8) -> str:
    """Return `en 30, zh 2` for `{"en": 30, "zh": 2}`, largest first."""
    ordered = sorted(
        ((name, number) for name, number in numbers.items() if number), key=lambda item: -item[1]
    )
    shown = ", ".join(f"{name or 'unknown'} {number:,}" for name, number in ordered[:most])
    return shown + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


def status_counts(statuses: Mapping[str, int]) -> str:
    """Return the counts of responses by HTTP status, as `counts` does; 0 is no response."""
    return counts({"no response" if code == "0" else code: n for code, n in statuses.items()})


def omitted(reasons: Sequence[str], unit: str) -> str:
    """Return a line about what is omitted because it is unreadable, with the first reason."""
    if not reasons:
        return ""
    return (
        f"\n{number_of(len(reasons), unit)} omitted, because the archive cannot be read; "
        f"the first: {reasons[0]}"
    )


def print_match(match: StoredMatch, start: str = "") -> None:
    """Print a match on two lines."""
    positions = ", ".join(map(str, match.positions[:_MAX_POSITIONS]))
    more = f" and {match.count - _MAX_POSITIONS} more" if match.count > _MAX_POSITIONS else ""
    print(f"{start}{match.url}  {match.text!r} at {positions}{more}")
    if match.context:
        print(f"    {match.context}")
