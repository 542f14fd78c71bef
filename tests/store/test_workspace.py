"""Creating and opening workspaces, build folders, and the compact map of archive files."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.core.errors import StorageError, UsageError, WorkspaceError
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME, ArchiveFiles, folder_numbers
from lycosa.store.storage import hdfs
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.staging import build_folder
from lycosa.store.workspace import FILE, Workspace, sealed
from lycosa.url.domain import bundled_suffix_list
from lycosa.url.normalise import NORMALISER_VERSION
from tests.waiting import run_concurrently


def rewrite(workspace: Workspace, **changes: object) -> str:
    """Change fields of the workspace file. Return the root of the workspace."""
    path = Path(workspace.path(FILE))
    document = json.loads(path.read_text())
    del document["digest"]
    path.write_bytes(sealed(json.dumps(document | changes, indent=1).encode()))
    return workspace.root


def test_any_changed_byte_is_detected(tmp_path: Path) -> None:
    root = Workspace.create(str(tmp_path / "w")).root
    path = Path(root, FILE)
    content = path.read_bytes()
    for position in range(0, len(content) - 1, len(content) // 50):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(WorkspaceError, match=FILE):
            Workspace.open(root)


def test_opened_workspace_equals_the_created_one(tmp_path: Path) -> None:
    created = Workspace.create(str(tmp_path / "deep" / "w"), partitions=128)
    opened = Workspace.open(str(tmp_path / "deep" / "w"))
    assert opened.partitions == created.partitions == 128
    assert opened.suffix_list == bundled_suffix_list()
    assert opened.normaliser == NORMALISER_VERSION
    assert opened.domains.registrable("a.b.example.co.uk") == "example.co.uk"
    assert opened.path("data/x") == str(tmp_path / "deep" / "w" / "data" / "x")
    assert opened.state().head == 0


def test_domains_use_the_stored_suffix_list(workspace: Workspace) -> None:
    opened = Workspace.open(rewrite(workspace, suffix_list="com\nexample.com\n"))
    assert opened.domains.registrable("a.b.example.com") == "b.example.com"


@pytest.mark.parametrize("partitions", [0, -1, 4097])
def test_partitions_have_bounds(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(UsageError, match="1 to 4096"):
        Workspace.create(str(tmp_path / "w"), partitions)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("folders", [[], ["seeds"]])
def test_folder_with_a_configuration_may_become_a_workspace(
    tmp_path: Path, folders: list[str]
) -> None:
    (tmp_path / "lycosa.toml").write_text("# mine\n")
    for name in folders:
        (tmp_path / name).mkdir()
    assert Workspace.open_or_create(str(tmp_path)).root == str(tmp_path)
    assert Workspace.open_or_create(str(tmp_path)).partitions == 64
    assert (tmp_path / "lycosa.toml").read_text() == "# mine\n"


@pytest.mark.parametrize("operation", [Workspace.create, Workspace.open_or_create])
def test_folder_with_other_files_is_refused(tmp_path: Path, operation: object) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        WorkspaceError,
        match=r"not empty and not a workspace \(it contains 'thesis.tex'\)",
    ):
        operation(str(tmp_path))  # type: ignore[operator]
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_log_without_its_workspace_file_is_not_overwritten(workspace: Workspace) -> None:
    workspace.claim("w")
    os.unlink(workspace.path(FILE))
    with pytest.raises(WorkspaceError, match=r"the workspace is damaged; restore workspace\.json"):
        Workspace.open_or_create(workspace.root)


def test_existing_workspace_is_not_created_and_missing_one_not_opened(
    tmp_path: Path, workspace: Workspace
) -> None:
    with pytest.raises(WorkspaceError, match="is already a workspace"):
        Workspace.create(workspace.root)
    with pytest.raises(WorkspaceError, match=r"is not a workspace.*lycosa crawl"):
        Workspace.open(str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("")
    for operation, message in (
        (Workspace.open, "file is not a workspace: "),
        (Workspace.create, "file is a file: "),
        (Workspace.open_or_create, "file is a file: "),
    ):
        with pytest.raises(WorkspaceError, match=message):
            operation(str(tmp_path / "file"))


@pytest.mark.parametrize(
    "location", ["ftp://bucket", "memory://x", "https://example.org/w", "hdfs://host/crawl"]
)
def test_storage_without_create_if_absent_is_refused(location: str) -> None:
    for operation in (Workspace.open, Workspace.create, Workspace.open_or_create):
        with pytest.raises(UsageError, match=r"cannot be used for a workspace: use a folder"):
            operation(location)


class _NameNode:
    """Redirects to its first DataNode that is not excluded."""

    def __init__(self, nodes: list[str], failing: set[str]) -> None:
        self.nodes, self.failing, self.session = nodes, failing, self
        self.requested: list[str] = []

    def _call(self, *_: object, excludedatanodes: str = "", **query: object) -> SimpleNamespace:
        others = [node for node in self.nodes if node not in excludedatanodes.split(",")]
        if not others:
            raise RuntimeError("Failed to find datanode")
        return SimpleNamespace(headers={"Location": others[0]})

    def get(self, url: str) -> requests.Response:
        self.requested.append(url)
        if url in self.failing:
            raise requests.ConnectionError(url)
        answer = requests.Response()
        answer.status_code, answer._content = 200, b"content"
        return answer


@pytest.mark.parametrize("nodes", [["a", "b", "c"], ["a", "b"]])
def test_all_failed_datanodes_of_hdfs_are_excluded(
    nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = hdfs.HdfsStorage("webhdfs", "127.0.0.1", 9870, "w")
    name_node = _NameNode(nodes, {"a", "b"})
    monkeypatch.setattr(storage._per_thread, "files", name_node, raising=False)
    monkeypatch.setattr(hdfs, "_address", lambda url: url)
    monkeypatch.setattr("lycosa.store.storage.hdfs.time.sleep", lambda _: None)
    if "c" in nodes:
        assert storage.read_object("file") == b"content"
        assert name_node.requested == ["a", "b", "c"]
    else:  # when no other one is left, they are requested again
        with pytest.raises(StorageError, match="ConnectionError"):
            storage.read_object("file")
        assert name_node.requested == ["a", "b"] * 5


def test_file_urls_and_home_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Workspace.create(f"file://{tmp_path}/a").root == f"{tmp_path}/a"
    assert Workspace.create("~/b").root == f"{tmp_path}/b"


@pytest.mark.proves("consistency-versions")
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
def test_damaged_workspace_file_is_refused(workspace: Workspace, content: bytes) -> None:
    Path(workspace.path(FILE)).write_bytes(content)
    with pytest.raises(WorkspaceError, match="damaged: restore it"):
        Workspace.open(workspace.root)


def test_workspace_with_another_normaliser_can_be_read_but_not_crawled(
    workspace: Workspace,
) -> None:
    opened = Workspace.open(rewrite(workspace, normaliser=NORMALISER_VERSION + 1))
    assert opened.state().head == 0
    with pytest.raises(WorkspaceError, match="can be read and searched, but not crawled"):
        opened.claim("w")


def test_concurrent_creators_use_the_same_workspace(tmp_path: Path) -> None:
    opened: list[Workspace] = []

    def create(partitions: int) -> None:
        opened.append(Workspace.open_or_create(str(tmp_path / "w"), partitions))

    run_concurrently(*(partial(create, 10 + number) for number in range(6)))
    assert (len(opened), len({workspace.partitions for workspace in opened})) == (6, 1)
    assert os.listdir(tmp_path / "w") == [FILE]


def test_unwritable_location_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        WorkspaceError,
        match=r"/proc/nowhere/w cannot be initialized as a workspace: .*; specify another folder",
    ):
        Workspace.open_or_create("/proc/nowhere/w")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        Workspace.create(str(tmp_path / "w"))


@pytest.mark.proves("access-paths")
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "data/../../x"])
def test_paths_outside_the_workspace_are_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(WorkspaceError, match="is outside the workspace"):
        workspace.path(path)


def build_folder_names(workspace: Workspace) -> list[str]:
    return sorted(
        path.name for path in Path(workspace.storage.folders.staging_dir("graph")).iterdir()
    )


def test_build_folder_is_deleted_unless_published(workspace: Workspace) -> None:
    with build_folder(workspace.storage, "graph") as build:
        (build / "a").write_bytes(b"a")
        assert workspace.storage.folders.publish(str(build), "graph/00000001")
    with suppress(ValueError), build_folder(workspace.storage, "graph") as build:
        (build / "a").write_bytes(b"a")
        raise ValueError
    assert build_folder_names(workspace) == ["00000001"]


def test_build_folders_of_killed_processes_are_deleted_when_no_build_runs(
    workspace: Workspace,
) -> None:
    for name in (".build-old", ".0123.temporary"):
        folder = Path(workspace.storage.folders.staging_dir("graph"), name)
        folder.mkdir()
        (folder / "pages.parquet").write_bytes(b"half")
    with build_folder(workspace.storage, "graph") as first:
        assert build_folder_names(workspace) == [first.name]
        with build_folder(workspace.storage, "graph") as second:
            assert build_folder_names(workspace) == sorted([first.name, second.name])
    assert build_folder_names(workspace) == []


PATHS = st.one_of(
    st.builds(
        "data/{:08d}-{}/{}".format,
        st.integers(0, 40),
        st.integers(0, 5),
        st.sampled_from([WARC_NAME, CDXJ_NAME]),
    ),
    st.sampled_from(
        [
            "data/a.warc.gz",
            "data/00000001-01/archive.warc.gz",
            "data/000000001-1/archive.warc.gz",
            "",
            "data/00000001-1/x",
        ]
    ),
)
FILES = st.builds(
    lambda entry, size, digest: DataFile("", 0, size, digest, entry),
    st.integers(1, 2**40),
    st.integers(0, 2**50),
    st.one_of(st.integers(0, 2**128 - 1).map("{:032x}".format), st.just("")),
)


def in_order(files: dict[str, DataFile]) -> list[tuple[str, DataFile]]:
    """Sort by claim and folder; then other paths and files without a digest, by path."""

    def sort_key(item: tuple[str, DataFile]) -> tuple[bool, tuple[int, int], str]:
        path, file = item
        numbers = folder_numbers(path.split("/")[1]) if path.endswith(f"/{WARC_NAME}") else None
        canonical = numbers and path == f"data/{numbers[0]:08d}-{numbers[1]}/{WARC_NAME}"
        return (
            (False, numbers, "") if numbers and canonical and file.digest else (True, (0, 0), path)
        )

    return sorted(files.items(), key=sort_key)


@given(st.lists(st.tuples(PATHS, st.none() | FILES), max_size=80), st.lists(PATHS, max_size=5))
@settings(max_examples=300)
def test_archive_files_behave_like_a_dict(
    changes: list[tuple[str, DataFile | None]], others: list[str]
) -> None:
    files, expected = ArchiveFiles(WARC_NAME), dict[str, DataFile]()
    for number, (path, file) in enumerate(changes):
        if file is None:
            assert files.pop(path, None) == expected.pop(path, None)
        else:
            files[path] = expected[path] = file._replace(path=path)
        if number % 7 == 6:
            files._merged()
    for path in others:
        assert files.get(path) == expected.get(path)
    assert list(files.items()) == in_order(expected)
    assert len(files) == len(expected)
    assert files == expected
    assert files.total_bytes == sum(file.bytes for file in expected.values())
    for path in others:
        assert (path in files) == (path in expected)
        assert files.get(path) == expected.get(path)
    assert set(others) & files.keys() == set(others) & expected.keys()
    again = ArchiveFiles.from_document(WARC_NAME, json.loads(json.dumps(files.document())))
    assert list(again.items()) == in_order(expected)
    assert again.document() == files.document()
    for path in [*others, *expected]:
        assert again.get(path) == expected.get(path)


def test_archive_files_need_little_memory() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(30_000):
        files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"] = DataFile(
            "", 0, 10**7, f"{number:032x}", number + 1
        )
    assert len(files) == 30_000
    assert len(files._changes) < 8_000
    assert files._merged().nbytes <= 44 * 30_000
    for number in range(0, 30_000, 2):
        del files[f"data/{number % 40:08d}-{number}/{WARC_NAME}"]
    assert list(files.values())[:3] == [
        DataFile(f"data/00000001-{number}/{WARC_NAME}", 0, 10**7, f"{number:032x}", number + 1)
        for number in (1, 41, 81)
    ]
    assert len(files) == 15_000


def test_archive_files_are_serialised_as_columns() -> None:
    files = ArchiveFiles(WARC_NAME)
    for number in range(1_000):
        files[f"data/00000007-{number}/{WARC_NAME}"] = DataFile(
            "", 0, 10_000 + number, f"{number:032x}", 2 * number + 1
        )
    document = files.document()
    assert (document["folders"], document["entries"]) == ([7 << 24, *[1] * 999], [1, *[2] * 999])
    assert len(json.dumps(document, separators=(",", ":"))) < 45 * 1_000
    for broken in ({"bytes": [1]}, {"folders": [-1]}, {"digests": "xx"}, {"others": [["x"]]}):
        with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
            ArchiveFiles.from_document(WARC_NAME, document | broken)
