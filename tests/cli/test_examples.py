"""The examples in the help call commands and options that exist."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from lycosa.cli.examples import EXAMPLES
from lycosa.cli.main import COMMANDS, app


def test_every_command_has_examples() -> None:
    assert {*COMMANDS, *(str(group.name) for group in app.registered_groups)} == EXAMPLES.keys()


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_uses_existing_commands_and_options(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "-w":
        words = words[2:]
    group = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    path = words[:2] if words[1:] and words[1] in getattr(group, "commands", {}) else words[:1]
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "110"})
    assert result.exit_code == 0
    assert f"lycosa {line}" in result.output or path != words[:1]
    for option in re.findall(r"(?<= )-{1,2}[a-z][a-z-]*", f" {' '.join(words[1:])}"):
        assert re.search(rf"{re.escape(option)}\b", result.output), f"{option} of {line!r}"
