"""Commits without polars, for processes that are forked, killed or started often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lycosa.store.log.transaction import CommitContents
from lycosa.store.workspace import Workspace


class FakeBuffer:
    """A table buffer that writes the given bytes as one row."""

    rows = 1

    def __init__(self, content: bytes) -> None:
        self._content = content

    def write(self, path: str) -> None:
        Path(path).write_bytes(self._content)


def commit_rounds(workspace: Workspace, rounds: int, partition: int = 0) -> None:
    """Commit `rounds` times as worker `w<partition>`."""
    claim = workspace.claim(f"w{partition}", [partition])
    for number in range(rounds):
        claim.commit(
            claim.next_folder(),
            {"urls": FakeBuffer(b"x" * (number + 1))},
            CommitContents(counters={"rounds": 1}),
        )


_RACER = """
import sys
from lycosa.store.workspace import Workspace
from tests.store.racing import commit_rounds

commit_rounds(Workspace.open(sys.argv[1]), int(sys.argv[3]), int(sys.argv[2]))
"""


def race(location: str, racers: int, rounds: int) -> None:
    """Run `commit_rounds` in several processes concurrently, one partition each."""
    processes = [
        subprocess.Popen([sys.executable, "-c", _RACER, location, str(partition), str(rounds)])
        for partition in range(racers)
    ]
    assert [process.wait() for process in processes] == [0] * racers
