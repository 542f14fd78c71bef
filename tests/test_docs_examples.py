"""The code blocks of the tutorials and how-to guides run on the demo sites.

A comment before a block can exclude it, with a reason.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lycosa.commands.demo.demo import free_port, serve_demo_web
from lycosa.config.reading import parse_config

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted([DOCS / "index.md", *DOCS.glob("tutorial/*.md"), *DOCS.glob("how-to/*.md")])
SITES = {
    "https://example.org": "wolfspiders",
    "https://paper.example": "harbour",
    "https://journal.example": "boulangerie",
    "https://ribao.example": "chayuan",
    "https://radio.example": "niwa",
}
"""Origin in the docs -> demo site."""

QUICK = (
    *("collection.delay=0s", "collection.courtesy_factor=0", "crawl.patience=1s"),
    "index.heap=15MiB",
)
SETTINGS = [word for each in QUICK for word in ("--set", each)]
_BLOCK = re.compile(r"((?:^<!-- .* -->\n)?)^( *)```(\w+)(.*)\n((?:.*\n)*?) *```$", re.M)
_LANGUAGES = {"sh", "python", "toml", "ini", "yaml", "json"}


class Block(NamedTuple):
    """A code block: language, file name, reason why it is not run, and content."""

    language: str
    title: str
    not_run: str
    text: str


def _blocks(path: Path) -> list[Block]:
    blocks = []
    for comment, indent, language, options, text in _BLOCK.findall(
        path.read_text(encoding="utf-8")
    ):
        title = re.search(r'title="(.+)"', options)
        reason = re.search(r"not run: (.+) -->", comment)
        lines = "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))
        blocks.append(
            Block(language, title[1] if title else "", reason[1] if reason else "", lines)
        )
    return blocks


@pytest.fixture(scope="module")
def origins() -> Iterator[dict[str, str]]:
    with serve_demo_web() as web:
        yield {public: web.origins[name] for public, name in SITES.items()}


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of shell blocks: `lycosa` has no delay, and stops servers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (
        ("lycosa", ["-m", "tests.docs_command", str(free_port(8100, 8999)), *SETTINGS]),
        ("python3", []),
    ):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    python = os.pathsep.join([str(DOCS.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": python}


def _run_shell(text: str, folder: Path, shell: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_block_of_a_page_runs(
    path: Path,
    origins: dict[str, str],
    shell: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in _blocks(path):
        text = block.text
        for public, origin in origins.items():
            text = text.replace(public, origin)
        if block.language == "toml" and block.title.endswith("lycosa.toml"):
            parse_config(text)
            file = folder / block.title
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if block.language == "json":
            json.loads(text)
        if block.not_run:
            continue
        if block.language == "sh":
            _run_shell(text, folder, shell)
        if block.language == "python":
            workspace = f'Workspace("lycosa-data", {QUICK!r})'
            exec(
                compile(text.replace('Workspace("lycosa-data")', workspace), path.name, "exec"),
                names,
            )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_code_blocks_are_fenced_and_have_a_language(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = _blocks(path)
    assert len(blocks) * 2 == len(re.findall(r"^ *```", text, flags=re.M))
    assert {block.language for block in blocks} <= _LANGUAGES
    assert not re.search(r"\n\n    (?![-*\d ])", _BLOCK.sub("", text)), "an indented code block"


def test_most_shell_blocks_are_run() -> None:
    blocks = [block for path in PAGES for block in _blocks(path) if block.language == "sh"]
    run = [block for block in blocks if not block.not_run]
    assert len(run) >= 40
    assert len(run) > 3 * (len(blocks) - len(run))
