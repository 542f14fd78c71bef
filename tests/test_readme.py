"""Every command of README.md runs on the demo sites."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lycosa import Workspace
from lycosa.commands.demo.demo import DemoWeb
from tests.cli.conftest import run_here
from tests.servers.demo import web as web
from tests.test_examples import QUICK

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
(PYTHON,) = re.findall(r"```python\n(.*?)```", README, re.S)
COMMANDS = re.findall(r"^ {4}(\S[^#\n]*?)(?: +#.*)?$", README.replace(PYTHON, ""), re.M)
LYCOSA = [line for line in COMMANDS if line.startswith("lycosa ")]
OTHER_COMMANDS = {"make demo", "make test", "pip install ."}
"""Run by continuous integration and tests/commands/test_demo.py."""
OUTPUTS: Mapping[str, str] = {
    "crawl": r"^  pages +18 in ",
    "search": r"^ 1\. .+\n    http://127\.0\.2\.1:\d+/",
    "explain": r"^in default +visited: fetched and processed$",
    "site": r"^broken links: 1 to 1 target$",
    "changes": r"^new: 18$",
    "hunt": r"^ +1\. 0\.\d\d  .+\n +http://127\.0\.2\.2:\d+/en/",
    "watch": r"^watch-[0-9a-f]{14}$",
    "monitor": r"^http://127\.0\.2\.1:\d+/ is monitored",
    "exclude": r"^deleted   .* pages 18, ",
}
"""Command -> regular expression of its output."""
SERVERS = ("serve", "run")
_LISTENING = re.compile(r"http://127\.0\.0\.1:\d+")


def _on_loopback(command: str, web: DemoWeb) -> list[str]:
    """Return the arguments of a command, with demo sites in place of public ones."""
    site, other = web.origins["wolfspiders"], web.origins["harbour"]
    for public, local in (
        ("https://example.org/page", f"{site}/life/eyes.html"),
        ("https://example.org", site),
        ("domain:example.org", f"domain:{urlsplit(site).hostname}"),
        ("example.org", urlsplit(site).netloc),
        ("https://docs.python.org/3", f"{other}/en"),
        ("how do I read CSV files?", "when is the mudflat walk?"),
    ):
        command = command.replace(public, local)
    return shlex.split(command)[1:]


def test_every_command_has_an_expected_output() -> None:
    assert len(LYCOSA) > 10
    assert set(COMMANDS) - set(LYCOSA) == OTHER_COMMANDS
    assert {line.split()[1] for line in LYCOSA} == {*OUTPUTS, *SERVERS}


def test_the_commands_run_in_order(
    web: DemoWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lycosa-data").mkdir()
    (tmp_path / "lycosa-data" / "lycosa.toml").write_text(QUICK)
    for line in LYCOSA:
        words = _on_loopback(line, web)
        if words[0] in SERVERS:
            _serves(words)
            continue
        outcome = run_here(*words)
        outcome.expect(0)
        assert re.search(OUTPUTS[words[0]], outcome.out, re.M), f"{line}\n{outcome.out}"
    assert Workspace().search("spider", site=urlsplit(web.origins["wolfspiders"]).netloc).total == 0


def _serves(words: list[str]) -> None:
    """Run a server until its search page responds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lycosa", *words, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        origin = next(
            match[0] for line in process.stdout if (match := _LISTENING.search(line)) is not None
        )
        with urllib.request.urlopen(f"{origin}/?q=spider+mother", timeout=30) as response:
            assert "/life/mothers.html" in response.read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in rest


def test_the_python_example_runs(
    web: DemoWeb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lycosa-data").mkdir()
    (tmp_path / "lycosa-data" / "lycosa.toml").write_text(QUICK)
    example = PYTHON.replace("https://example.org", web.origins["wolfspiders"])
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    hits = re.findall(r"^http://127\.0\.2\.1:\d+/\S* .+$", capsys.readouterr().out, re.M)
    assert len(hits) == len(names["workspace"].search("what you look for")) > 3
