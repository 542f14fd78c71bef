"""Plug-ins are found wherever `importlib.metadata` finds them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from lycosa.core.entry_points import plugin_entry_points

NAMES = "[lycosa]\nmoths = moths.plugin\n"
OTHERS = "[console_scripts]\nmoths = moths:main\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is alone on `sys.path`."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    plugin_entry_points.cache_clear()
    yield tmp_path
    plugin_entry_points.cache_clear()


def install(folder: Path, name: str, text: str) -> None:
    place = folder / name
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: moths\nVersion: 1\n")
    (place / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: moths\nVersion: 1\n")
    (place / "entry_points.txt").write_text(text)


@pytest.mark.parametrize("name", ["moths-1.dist-info", "moths.egg-info"])
def test_an_installed_plugin_is_found(folder: Path, name: str) -> None:
    install(folder, name, OTHERS + NAMES)
    assert [each.value for each in plugin_entry_points()] == ["moths.plugin"]


def test_a_plugin_in_an_archive_or_egg_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, egg = folder / "moths.zip", folder / "moths-1.egg"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("moths-1.dist-info/METADATA", "Name: moths\nVersion: 1\n")
        file.writestr("moths-1.dist-info/entry_points.txt", NAMES)
    install(egg, "EGG-INFO", NAMES)
    for place in (archive, egg):
        monkeypatch.setattr("sys.path", [str(place)])
        plugin_entry_points.cache_clear()
        assert [each.value for each in plugin_entry_points()] == ["moths.plugin"]


def test_other_packages_have_no_plugins(folder: Path) -> None:
    install(folder, "moths-1.dist-info", OTHERS)
    assert list(plugin_entry_points()) == list(entry_points(group="lycosa")) == []
