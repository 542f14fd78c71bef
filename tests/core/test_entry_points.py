"""Plug-ins are discovered in the same places as by `importlib.metadata`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from lycosa.core.entry_points import plugin_entry_points

PLUGIN = "[lycosa]\nmoths = moths.plugin\n"
SCRIPT = "[console_scripts]\nmoths = moths:main\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder of `sys.path`."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    plugin_entry_points.cache_clear()
    yield tmp_path
    plugin_entry_points.cache_clear()


def install(folder: Path, name: str, text: str) -> None:
    target = folder / name
    target.mkdir(parents=True)
    for file in ("METADATA", "PKG-INFO"):
        (target / file).write_text("Metadata-Version: 2.1\nName: moths\nVersion: 1\n")
    (target / "entry_points.txt").write_text(text)


@pytest.mark.parametrize("name", ["moths-1.dist-info", "moths.egg-info"])
def test_installed_plugin_is_discovered(folder: Path, name: str) -> None:
    install(folder, name, SCRIPT + PLUGIN)
    assert [each.value for each in plugin_entry_points()] == ["moths.plugin"]


def test_plugin_in_an_archive_or_egg_is_discovered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, egg = folder / "moths.zip", folder / "moths-1.egg"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("moths-1.dist-info/METADATA", "Name: moths\nVersion: 1\n")
        file.writestr("moths-1.dist-info/entry_points.txt", PLUGIN)
    install(egg, "EGG-INFO", PLUGIN)
    for path in (archive, egg):
        monkeypatch.setattr("sys.path", [str(path)])
        plugin_entry_points.cache_clear()
        assert [each.value for each in plugin_entry_points()] == ["moths.plugin"]


def test_other_packages_have_no_plugins(folder: Path) -> None:
    install(folder, "moths-1.dist-info", SCRIPT)
    assert list(plugin_entry_points()) == list(entry_points(group="lycosa")) == []
