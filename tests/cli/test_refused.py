"""Commands on a disk that is full, or that nothing may be written to: one message, and what only
reads still works.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.conftest import Lycosa
from tests.servers.disks import fill, read_only, small_disk


def test_a_full_disk_and_a_read_only_one(tmp_path: Path, lycosa: Lycosa, workspace: Path) -> None:
    with small_disk(tmp_path / "disk", "48m") as disk:
        copy = disk / "w"
        shutil.copytree(workspace, copy)

        def refused(*command: str) -> str:
            outcome = lycosa("-w", str(copy), *command)
            assert (outcome.code, outcome.err.count("\n")) == (1, 1), outcome.err
            assert outcome.err.startswith(f"lycosa: {copy}/")
            return outcome.err

        fill(disk / "ballast", 0)
        for command in (("rank",), ("crawl",), ("collection", "pause", "default")):
            assert "No space left on device. Free disk space" in refused(*command)
        (disk / "ballast").unlink()
        with read_only(disk):
            assert "Read-only file system" in refused("exclude", "host:gone.example")
            assert "Compound eyes" in lycosa("-w", str(copy), "search", "eye").out
            assert "no errors" in lycosa("-w", str(copy), "check", "--deep").out
        assert lycosa("-w", str(copy), "rank").code == 0
