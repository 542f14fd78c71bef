"""The package as it travels: the same files, byte code that is taken as it is, made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.cluster.engines.code import ready_to_ship


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "parcel"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text("WORD = 'first'\n")
    (folder / "data.txt").write_text("kept as it is")
    return folder


def said_by(folder: Path) -> str:
    """What a process says that imports the package from there and compiles nothing."""
    environment = {**os.environ, "PYTHONPATH": str(folder.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    program = "import parcel.inner as inner; print(inner.WORD)"
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_its_byte_code_is_used_wherever_it_is_unpacked(package: Path, tmp_path: Path) -> None:
    ready = ready_to_ship(package)
    assert ready.name == "parcel"
    assert (ready / "data.txt").read_text() == "kept as it is"
    # of another age, as after unpacking
    moved = Path(
        shutil.copytree(ready, tmp_path / "node" / "parcel", copy_function=shutil.copyfile)
    )
    (moved / "inner.py").write_text("raise SystemExit('the source was compiled')\n")
    assert said_by(moved) == "first"


def test_it_is_made_anew_when_the_package_changes_and_only_then(package: Path) -> None:
    first = ready_to_ship(package)
    assert ready_to_ship(package) == first
    (package / "inner.py").write_text("WORD = 'second'\n")
    second = ready_to_ship(package)
    assert second != first
    assert said_by(second) == "second"
    for number in range(6):
        (package / "inner.py").write_text(f"WORD = {number}\n")
        assert said_by(ready_to_ship(package)) == str(number)
    assert len(list(first.parent.parent.iterdir())) <= 6


def test_where_nothing_can_be_written_the_package_travels_as_it_is(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "file"))
    assert ready_to_ship(package) == package
