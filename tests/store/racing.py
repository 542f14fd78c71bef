"""A buffer without polars, and commits of it: for processes that are started often, forked, and
killed.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.store.log.transaction import CommitContents
from lycosa.store.workspace import Workspace


class FakeBuffer:
    """Writes the bytes that it is given; says that they are one row."""

    rows = 1

    def __init__(self, content: bytes) -> None:
        self._content = content

    def write(self, path: str) -> None:
        Path(path).write_bytes(self._content)


def commit_rounds(workspace: Workspace, rounds: int, partition: int = 0) -> None:
    """So many commits of worker `w<partition>`."""
    claim = workspace.claim(f"w{partition}", [partition])
    for number in range(rounds):
        claim.commit(
            claim.next_folder(),
            {"urls": FakeBuffer(b"x" * (number + 1))},
            CommitContents(counters={"rounds": 1}),
        )
