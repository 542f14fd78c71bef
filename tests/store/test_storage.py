"""Local storage: fsync, failed writes and links; and the cache of remote files.

The rules for every kind of storage are in test_storage_conformance.py.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.core.errors import WorkspaceError
from lycosa.store.storage.cache import FileCache
from lycosa.store.storage.files import file_digest
from lycosa.store.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    local = LocalStorage(str(tmp_path))
    local.make_folder("log")
    return local


def test_pipe_or_device_is_read_as_an_empty_file(tmp_path: Path) -> None:
    """Untrusted workspaces and inboxes may contain files whose content never ends."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    storage = LocalStorage(str(tmp_path))
    assert (storage.read("pipe"), storage.read("device"), storage.read("none")) == (b"", b"", None)
    with pytest.raises(IsADirectoryError):
        storage.read("")


@pytest.mark.proves("access-links")
def test_writes_and_deletes_behind_a_link_to_a_folder_are_refused(
    storage: LocalStorage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An untrusted workspace may have a link to any folder of this machine."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "1").mkdir()
    for name in ("a.json", "1/b"):
        (outside / name).write_text("mine")
    Path(storage.path("inbox")).symlink_to(outside)
    assert storage.read("inbox/a.json") == b"mine"
    operations: list[Callable[[], object]] = [
        lambda: storage.create("inbox/new", b""),
        lambda: storage.replace("inbox/a.json", b""),
        lambda: storage.remove("inbox/a.json"),
        lambda: storage.remove("inbox/1/b"),
        lambda: storage.make_folder("inbox/new"),
        lambda: storage.remove_empty_folders("inbox"),
        lambda: storage.folders.remove("inbox/1"),
        lambda: storage.files.draft_path("inbox/1/new"),
    ]
    for operation in operations:
        with pytest.raises(WorkspaceError, match=f"inbox is a symbolic link to {outside}"):
            operation()
    assert {str(path.relative_to(outside)) for path in outside.rglob("*")} == {"a.json", "1", "1/b"}
    assert (outside / "a.json").read_text() == (outside / "1/b").read_text() == "mine"


def test_the_workspace_itself_may_be_a_link(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "log" / "link").symlink_to(tmp_path)
    LocalStorage(str(tmp_path / "log" / "link")).replace("log/x", b"new")
    assert storage.read("log/x") == b"new"


def test_create_if_absent_without_hard_links(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert storage.create("a", b"first")
    assert not storage.create("a", b"second")
    assert storage.read("a") == b"first"
    assert "a" in storage.names(".")
    assert not any(name.endswith(".temporary") for name in storage.names("."))


def test_files_have_the_requested_mode(storage: LocalStorage) -> None:
    storage.create("log/x", b"first", mode=0o600)
    storage.replace("log/y", b"first", mode=0o600)
    assert {stat.S_IMODE(os.stat(storage.path(f"log/{name}")).st_mode) for name in "xy"} == {0o600}


@pytest.mark.parametrize(
    ("operation", "call"), [("create", "fsync"), ("create", "link"), ("replace", "replace")]
)
def test_failed_write_leaves_no_file(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, operation: str, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no space left"):
        getattr(storage, operation)("log/x", b"content")
    assert os.listdir(storage.path("log")) == []


def test_fresh_folder_must_not_exist(storage: LocalStorage) -> None:
    storage.make_folder("data/1", fresh=True)
    with pytest.raises(FileExistsError):
        storage.make_folder("data/1", fresh=True)
    storage.make_folder("data/1")
    storage.create("data/file", b"")
    with pytest.raises(FileExistsError):
        storage.make_folder("data/file")
    with pytest.raises(FileExistsError):
        storage.make_folder("data/file/below")


def test_parents_of_new_folders_are_synced(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    storage.make_folder("data/a/b")
    assert synced == [storage.root, storage.path("data"), storage.path("data/a")]
    storage.make_folder("data/a/b")
    assert len(synced) == 3


def test_unfinished_files_are_not_listed(storage: LocalStorage) -> None:
    Path(storage.path("log/.1234.temporary")).write_bytes(b"half")
    assert storage.names("log") == []


def downloading(content: bytes) -> Callable[[str], None]:
    def download(target: str) -> None:
        Path(target).write_bytes(content)

    return download


def put(cache: FileCache, name: str, content: bytes, *, age_s: float = 0.0) -> str:
    """Store a file in the cache that was last used `age_s` seconds ago. Return its path."""
    path = cache.fetch(name, downloading(content), len(content), "")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_least_recently_used_files_are_evicted_until_the_limit_is_met(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    paths = [
        put(cache, f"data/{number}/urls.parquet", b"x" * 1_000, age_s=10_000 - number)
        for number in range(4)
    ]
    cache.limit(2_500)
    assert cache.find("data/0/urls.parquet") == paths[0]  # now the most recently used
    assert FileCache(tmp_path).evict() == 2_000  # the limit holds for other processes too
    assert [os.path.exists(path) for path in paths] == [True, False, False, True]


def test_recently_used_tables_are_not_evicted(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.limit(10)
    table = put(cache, "data/1/urls.parquet", b"x" * 1_000, age_s=600)
    archive = put(cache, "data/1/archive.warc.gz", b"x" * 1_000, age_s=600)
    with open(archive, "rb") as reading:
        cache.evict()
        assert (os.path.exists(table), os.path.exists(archive)) == (True, False)
        assert len(reading.read()) == 1_000


def test_keep_alive_protects_tables_of_a_running_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache(tmp_path)
    cache.limit(10)
    path = put(cache, "data/1/urls.parquet", b"x" * 1_000, age_s=100_000)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 400)
    cache.keep_alive()
    assert cache.evict() == 0
    assert os.path.exists(path)


def test_copy_with_a_wrong_size_or_digest_is_refused_and_deleted(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    for content, size, digest in ((b"short", 9, ""), (b"other", 5, "0" * 32)):
        with pytest.raises(WorkspaceError, match="differs from its log entry"):
            cache.fetch("x.parquet", downloading(content), size, digest)
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []
    (tmp_path / "same").write_bytes(b"other")
    assert cache.fetch(
        "x.parquet", downloading(b"other"), 5, file_digest(str(tmp_path / "same"))
    ) == cache.find("x.parquet")


def test_retain_deletes_other_unused_files(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    paths = [put(cache, f"data/{number}/urls.parquet", b"x", age_s=10_000) for number in range(3)]
    used = put(cache, "data/3/urls.parquet", b"x")
    cache.retain({"data/1/urls.parquet"})
    assert [os.path.exists(path) for path in (*paths, used)] == [False, True, False, True]
    cache.drop("data/3/urls.parquet")
    assert not os.path.exists(used)
