"""Commands that read an untrusted workspace run no code in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, pickle, sys
from lycosa.cli.main import main

refused = []

def refuse(event, arguments):
    if event == "pickle.find_class":
        refused.append(arguments)
        raise RuntimeError("unpickled")

sys.addaudithook(refuse)
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
assert not refused, refused
try:
    pickle.loads(pickle.dumps(main))
except RuntimeError:
    sys.exit(7)
"""
HOOK_WORKS = 7  # exit code of the program: its audit hook noticed the final unpickling
PLANTED = "import os, pathlib\npathlib.Path(os.environ['LYCOSA_MARK']).write_text(__name__)\n"
MODULES = ("sitecustomize", "lycosa", "polars", "json", "plugin")


@pytest.mark.proves("access-untrusted-workspace")
def test_reading_runs_no_code_of_the_workspace(workspace: Path, site: str, tmp_path: Path) -> None:
    root = tmp_path / "w"
    shutil.copytree(workspace, root)
    for name in MODULES:
        (root / f"{name}.py").write_text(PLANTED)
    reading = (
        ("status",),
        ("search", "moths"),
        ("sql", "SELECT url, title FROM pages"),
        ("explain", f"{site}/"),
        ("versions", f"{site}/"),
        ("site", site.removeprefix("http://")),
        ("check", "--deep"),
        ("export", "text", f"{tmp_path}/text"),
        ("export", "warc", f"{tmp_path}/warc"),
    )
    commands = json.dumps([["-w", str(root), *words] for words in reading])
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, commands],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LYCOSA_MARK": str(tmp_path / "mark")},
    )
    assert done.returncode == HOOK_WORKS, done.stderr
    assert "Moths fly at night" in done.stdout
    assert not (tmp_path / "mark").exists()
