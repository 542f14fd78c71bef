"""The request log of a synthetic web, written by the server and by the simulation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class LogEntry(NamedTuple):
    """One request.

    `answered_at_ms`: just before the last byte was written, so never later than the client receives
    it. With `left`, the client closed the connection first, and it is the time at which the server
    noticed. `status` 0: there was no response. `retry_after_ms`: the requested delay, from
    `answered_at_ms`.
    """

    host: str
    path: str
    arrived_at_ms: int
    answered_at_ms: int
    status: int
    connection: int
    retry_after_ms: int = 0
    left: bool = False


def line_of(entry: LogEntry) -> str:
    return json.dumps(entry) + "\n"


def write_log(path: Path, entries: Iterable[LogEntry]) -> None:
    path.write_text("".join(map(line_of, entries)), encoding="utf-8")


def read_log(path: Path) -> Iterator[LogEntry]:
    """Yield the entries in the order of the responses, without an incomplete last line."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield LogEntry(*json.loads(line))
