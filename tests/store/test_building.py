"""Build folders: there for their maker, gone afterwards, and cleared of what a killed one left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lycosa.store.storage.staging import build_folder
from lycosa.store.workspace import Workspace


def left(workspace: Workspace) -> list[str]:
    return sorted(
        path.name for path in Path(workspace.storage.folders.staging_dir("graph")).iterdir()
    )


def test_a_build_folder_goes_unless_it_is_published(workspace: Workspace) -> None:
    with build_folder(workspace.storage, "graph") as build:
        (build / "a").write_bytes(b"a")
        assert workspace.storage.folders.publish(str(build), "graph/00000001")
    with suppress(ValueError), build_folder(workspace.storage, "graph") as build:
        (build / "a").write_bytes(b"a")
        raise ValueError
    assert left(workspace) == ["00000001"]


def test_what_a_killed_maker_left_is_cleared_when_nobody_builds(workspace: Workspace) -> None:
    for name in (".build-old", ".0123.aside"):
        (Path(workspace.storage.folders.staging_dir("graph")) / name).mkdir()
        (Path(workspace.storage.folders.staging_dir("graph")) / name / "pages.parquet").write_bytes(
            b"half"
        )
    with build_folder(workspace.storage, "graph") as first:
        assert left(workspace) == [first.name]
        with build_folder(workspace.storage, "graph") as second:
            assert left(workspace) == sorted([first.name, second.name])
    assert left(workspace) == []
