"""The library and the graph, examples in the help, several workspaces, and disk errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from lxml import etree
from typer.testing import CliRunner

from lycosa.cli.help import EXAMPLES
from lycosa.cli.main import COMMANDS, app, load_command
from lycosa.core.errors import UsageError
from tests.cli.conftest import Lycosa
from tests.servers.disks import fill, read_only, small_disk


def test_crawl_compact_rank_export_copy_and_purge(here: Lycosa, site: str, tmp_path: Path) -> None:
    workspace, out = str(tmp_path / "w"), tmp_path / "out"
    options = ("--delay", "0", "--collection", "en", "--set", "collection.language=en", "-q")
    assert here("-w", workspace, "crawl", site, *options).code == 0
    assert here("-w", workspace, "compact", "--full").code == 0
    ranked = here("-w", workspace, "rank", "--json")
    assert (ranked.code, ranked.json["duplicates"]) == (0, 0)
    outcome = here("-w", workspace, "export", "xml", str(out), "--json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["languages"], outcome.json["documents"]) == (1, 2)
    (path,) = (out / "xml" / "en").glob("*/*.xml")
    etree.XMLSchema(etree.parse(str(out / "xml" / "library.xsd"))).assertValid(
        etree.parse(str(path))
    )
    assert "0 new files" in here("-w", workspace, "export", "xml", str(out)).out
    for kind in ("jsonl", "parquet", "text"):
        selection = ("--lang", "en", "--full", "-q")
        assert here("-w", workspace, "export", kind, str(out), *selection).code == 0
        assert list((out / kind / "en").glob("*/*"))
    assert here("-w", workspace, "export", "xml", str(out), "--max-size", "1KiB").code == 2
    table = here("-w", workspace, "status", "--by", "language", "--csv")
    assert table.out.splitlines()[1].startswith("en,2,1,")
    assert here("-w", workspace, "status", "--by", "nothing").code == 2
    assert here("-w", workspace, "status", "--csv").code == 2

    listed = json.loads(here("-w", workspace, "collection", "list", "--json").out)
    assert [(each["name"], each["language"], each["pages"]) for each in listed] == [("en", "en", 2)]
    copy = str(tmp_path / "copy")
    copied = here("-w", workspace, "collection", "copy", "en", copy, "--json")
    assert copied.code == 0, copied.err
    assert copied.json["rows"]["pages"] == 2  # type: ignore[index]
    assert here("-w", copy, "index").code == 0
    assert "eyes.html" in here("-w", copy, "search", "compound eye").out
    purged = here("-w", workspace, "collection", "purge", "en")
    assert purged.code == 0, purged.err
    assert here("-w", workspace, "search", "compound eye").code == 1
    assert here("-w", workspace, "check", "--json").code == 0
    assert here("-w", workspace, "collection", "purge", "en").code in (0, 2)
    assert here("-w", workspace, "collection", "copy", "en", str(tmp_path / "third")).code == 2


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


@pytest.mark.parametrize("command", [["status"], ["sql", "SELECT 1"], ["versions", "http://h/"]])
def test_other_commands_refuse_several_workspaces(tmp_path: Path, command: list[str]) -> None:
    done = CliRunner().invoke(app, ["-w", str(tmp_path / "a"), "-w", str(tmp_path / "b"), *command])
    assert isinstance(done.exception, UsageError)
    assert "only `search` and `serve`" in str(done.exception)


def test_full_and_read_only_disks_are_reported(
    tmp_path: Path, lycosa: Lycosa, workspace: Path
) -> None:
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
