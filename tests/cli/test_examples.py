"""The examples in the help call commands and options that exist."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.testing import CliRunner

from lycosa.cli.help import EXAMPLES
from lycosa.cli.main import COMMANDS, app, load_command


def test_every_command_has_examples() -> None:
    commands = set()
    for panel in COMMANDS.values():
        for name, (_, line) in panel.items():
            command = load_command(name)
            commands |= {name, *(f"{name} {each}" for each in getattr(command, "commands", {}))}
            words = line.split()[:2]
            assert (command.help or "").split()[:2] == words, name
    assert commands == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_use_existing_commands_and_options(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "110"})
    assert result.exit_code == 0
    for line in EXAMPLES[name]:
        assert f"lycosa {line}\n" in result.output, "an example is one line of the help"
        words = shlex.split(line)
        if words[0] == "-w":
            words = words[2:]
        path = words[:2] if " ".join(words[:2]) in EXAMPLES else words[:1]
        assert " ".join(path).startswith(name.split()[0])
        described = (
            CliRunner()
            .invoke(app, [*path, "--help"], env={"COLUMNS": "110"})
            .output.partition("\n  Examples:")[0]
        )
        for option in (word for word in words if re.fullmatch(r"-{1,2}[a-z][a-z-]*", word)):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", described), f"{option} of {line!r}"
