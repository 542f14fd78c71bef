"""A workspace in a folder: what is forced to disk, and what a failure leaves. (What all kinds
promise: test_storage_conformance.py.)
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from lycosa.store.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    made = LocalStorage(str(tmp_path))
    made.make_folder("log")
    return made


def test_a_pipe_or_a_device_is_an_empty_file(tmp_path: Path) -> None:
    """In a workspace of a stranger's or an inbox: a pipe that nobody writes to would be waited for,
    /dev/zero never ends.
    """
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    storage = LocalStorage(str(tmp_path))
    assert (storage.read("pipe"), storage.read("device"), storage.read("none")) == (b"", b"", None)
    with pytest.raises(IsADirectoryError):
        storage.read("")


def test_a_file_system_without_hard_links(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert storage.create("a", b"first")
    assert not storage.create("a", b"second")
    assert storage.read("a") == b"first"
    assert "a" in storage.names(".")
    assert not any(name.endswith(".aside") for name in storage.names("."))


def test_a_file_has_its_mode(storage: LocalStorage) -> None:
    storage.create("log/x", b"first", mode=0o600)
    storage.replace("log/y", b"first", mode=0o600)
    assert {stat.S_IMODE(os.stat(storage.path(f"log/{name}")).st_mode) for name in "xy"} == {0o600}


@pytest.mark.parametrize(
    ("act", "call"), [("create", "fsync"), ("create", "link"), ("replace", "replace")]
)
def test_a_failed_write_leaves_nothing(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, act: str, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no space left"):
        getattr(storage, act)("log/x", b"content")
    assert os.listdir(storage.path("log")) == []


def test_fresh_folders_are_new(storage: LocalStorage) -> None:
    storage.make_folder("data/1", fresh=True)
    with pytest.raises(FileExistsError):
        storage.make_folder("data/1", fresh=True)
    storage.make_folder("data/1")
    storage.create("data/file", b"")
    with pytest.raises(FileExistsError):
        storage.make_folder("data/file")
    with pytest.raises(FileExistsError):
        storage.make_folder("data/file/below")


def test_the_names_of_new_folders_are_on_disk(
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


def test_files_being_written_are_not_listed(storage: LocalStorage) -> None:
    Path(storage.path("log/.1234.aside")).write_bytes(b"half")
    assert storage.names("log") == []
