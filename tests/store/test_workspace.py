"""Creating and opening workspaces; every refusal says what to do."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.store.workspace import FILE, Workspace, sealed
from lycosa.url.domain import bundled_suffix_list
from lycosa.url.normalise import NORMALISER_VERSION


def rewrite(workspace: Workspace, **changes: object) -> str:
    path = Path(workspace.path(FILE))
    document = json.loads(path.read_text())
    del document["digest"]
    path.write_bytes(sealed(json.dumps(document | changes, indent=1).encode()))
    return workspace.root


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    root = Workspace.create(str(tmp_path / "w")).root
    path = Path(root, FILE)
    content = path.read_bytes()
    for place in range(0, len(content) - 1, len(content) // 50):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(WorkspaceError, match=FILE):
            Workspace.open(root)


def test_a_workspace_reads_back_what_it_was_created_with(tmp_path: Path) -> None:
    created = Workspace.create(str(tmp_path / "deep" / "w"), partitions=128)
    opened = Workspace.open(str(tmp_path / "deep" / "w"))
    assert opened.partitions == created.partitions == 128
    assert opened.suffix_list == bundled_suffix_list()
    assert opened.normaliser == NORMALISER_VERSION
    assert opened.domains.registrable("a.b.example.co.uk") == "example.co.uk"
    assert opened.path("data/x") == str(tmp_path / "deep" / "w" / "data" / "x")
    assert opened.state().head == 0


def test_domains_come_from_the_stored_list_not_from_the_program(workspace: Workspace) -> None:
    opened = Workspace.open(rewrite(workspace, suffix_list="com\nexample.com\n"))
    assert opened.domains.registrable("a.b.example.com") == "b.example.com"


@pytest.mark.parametrize("partitions", [0, -1, 4097])
def test_partitions_have_bounds(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(UsageError, match="1 to 4096"):
        Workspace.create(str(tmp_path / "w"), partitions)
    assert not (tmp_path / "w").exists()


def test_a_folder_with_only_a_configuration_may_become_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "lycosa.toml").write_text("# mine\n")
    assert Workspace.open_or_create(str(tmp_path)).root == str(tmp_path)
    assert Workspace.open_or_create(str(tmp_path)).partitions == 64
    assert (tmp_path / "lycosa.toml").read_text() == "# mine\n"


def test_seed_files_beside_a_configuration_do_not_prevent_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "lycosa.toml").write_text("# mine\n")
    (tmp_path / "seeds").mkdir()
    assert Workspace.open_or_create(str(tmp_path)).root == str(tmp_path)


@pytest.mark.parametrize("act", [Workspace.create, Workspace.open_or_create])
def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, act: object) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        WorkspaceError,
        match=r"not empty and not a workspace \(it contains "
        r"'thesis.tex'\)",
    ):
        act(str(tmp_path))  # type: ignore[operator]
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_log_without_its_workspace_file_is_not_overwritten(workspace: Workspace) -> None:
    workspace.claim("w")
    os.unlink(workspace.path(FILE))
    with pytest.raises(WorkspaceError, match=r"the workspace is damaged; restore workspace\.json"):
        Workspace.open_or_create(workspace.root)


def test_creating_twice_is_refused_and_opening_what_is_not_there_too(
    tmp_path: Path, workspace: Workspace
) -> None:
    with pytest.raises(WorkspaceError, match="is already a workspace"):
        Workspace.create(workspace.root)
    with pytest.raises(WorkspaceError, match=r"is not a workspace.*lycosa crawl"):
        Workspace.open(str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("")
    for act in (Workspace.open, Workspace.create, Workspace.open_or_create):
        with pytest.raises(WorkspaceError, match=r"cannot be read as a workspace|is a file"):
            act(str(tmp_path / "file"))


@pytest.mark.parametrize(
    "location", ["ftp://bucket", "memory://x", "https://example.org/w", "hdfs://host/crawl"]
)
def test_storage_without_its_own_create_if_absent_is_refused(location: str) -> None:
    for act in (Workspace.open, Workspace.create, Workspace.open_or_create):
        with pytest.raises(UsageError, match=r"cannot be used for a workspace: use a folder"):
            act(location)


def test_file_urls_and_home_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Workspace.create(f"file://{tmp_path}/a").root == f"{tmp_path}/a"
    assert Workspace.create("~/b").root == f"{tmp_path}/b"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2, but this version needs format 1: upgrade"),
        ({"format": 0}, "has format 0"),
        ({"format": "one"}, "has format 'one'"),
        ({"hash": "md5"}, "has the hash function 'md5'"),
        ({"partitions": 0}, "damaged"),
        ({"partitions": "64"}, "damaged"),
        ({"suffix_list": None}, "damaged"),
        ({"normaliser": None}, "damaged"),
    ],
)
def test_an_unknown_or_damaged_format_is_refused_with_the_remedy(
    workspace: Workspace, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(WorkspaceError, match=message):
        Workspace.open(rewrite(workspace, **changes))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_torn_workspace_file_is_refused(workspace: Workspace, content: bytes) -> None:
    Path(workspace.path(FILE)).write_bytes(content)
    with pytest.raises(WorkspaceError, match="damaged: restore it"):
        Workspace.open(workspace.root)


def test_with_another_normaliser_it_can_be_read_but_not_crawled(workspace: Workspace) -> None:
    opened = Workspace.open(rewrite(workspace, normaliser=NORMALISER_VERSION + 1))
    assert opened.state().head == 0
    with pytest.raises(WorkspaceError, match="can be read and searched, but not crawled"):
        opened.claim("w")


def test_one_of_many_creators_wins_and_all_use_the_same(tmp_path: Path) -> None:
    opened: list[Workspace] = []
    start = threading.Barrier(6)

    def create(partitions: int) -> None:
        start.wait()
        opened.append(Workspace.open_or_create(str(tmp_path / "w"), partitions))

    creators = [threading.Thread(target=create, args=(10 + place,)) for place in range(6)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    assert len(opened) == 6
    assert len({workspace.partitions for workspace in opened}) == 1
    assert os.listdir(tmp_path / "w") == [FILE]


def test_a_place_that_cannot_be_written_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        WorkspaceError,
        match=r"/proc/nowhere/w cannot be initialized as a "
        r"workspace: .*; specify another folder",
    ):
        Workspace.open_or_create("/proc/nowhere/w")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        Workspace.create(str(tmp_path / "w"))


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "data/../../x"])
def test_paths_do_not_lead_out(workspace: Workspace, path: str) -> None:
    with pytest.raises(WorkspaceError, match="is outside the workspace"):
        workspace.path(path)
