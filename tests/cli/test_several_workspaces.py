"""Which commands take several workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.core.errors import UsageError


@pytest.mark.parametrize("command", [["status"], ["sql", "SELECT 1"], ["versions", "http://h/"]])
def test_other_commands_say_that_they_take_one(tmp_path: Path, command: list[str]) -> None:
    done = CliRunner().invoke(app, ["-w", str(tmp_path / "a"), "-w", str(tmp_path / "b"), *command])
    assert isinstance(done.exception, UsageError)
    assert "only `search` and `serve`" in str(done.exception)
