"""The server's own log of requests, the same from sockets and from the simulation: what politeness
is proved with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Logged(NamedTuple):
    """One request. `answered_at_ms`: just before the last byte was written, or when the client was
    seen to have left.

    So an answer never looks later than the client can have it, but for clients that leave (`left`),
    which are noticed when they are. `status` 0: there was no answer. `retry_after_ms`: what the
    answer asked for, counted from `answered_at_ms`.
    """

    host: str
    path: str
    arrived_at_ms: int
    answered_at_ms: int
    status: int
    connection: int
    retry_after_ms: int = 0
    left: bool = False


def line_of(entry: Logged) -> str:
    return json.dumps(entry) + "\n"


def write_log(path: Path, entries: Iterable[Logged]) -> None:
    path.write_text("".join(map(line_of, entries)), encoding="utf-8")


def read_log(path: Path) -> Iterator[Logged]:
    """Entries in the order in which they were answered; the torn last line of a running server is
    left out.
    """
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield Logged(*json.loads(line))
