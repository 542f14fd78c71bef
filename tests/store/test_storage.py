"""What every kind of storage must promise. A new kind joins `KINDS` and runs the same tests."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import xxhash

from lycosa.core.errors import WorkspaceError
from lycosa.store.local_storage import LocalStorage

KINDS: dict[str, Callable[[Path], LocalStorage]] = {"local": lambda folder: LocalStorage(str(folder))}


@pytest.fixture(params=sorted(KINDS))
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStorage:
    made = KINDS[request.param](tmp_path)
    made.make_folder("log")
    return made


def test_of_two_creators_exactly_one_wins_every_time(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking first and writing then let both win 1,305 of 2,000 rounds on a local disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    rounds = 1_000
    wins: list[list[int]] = [[], []]
    together = threading.Barrier(2)

    def race(place: int) -> None:
        for number in range(rounds):
            together.wait()
            if storage.create(f"log/{number}", b"%d" % place * 100):
                wins[place].append(number)

    racers = [threading.Thread(target=race, args=(place,)) for place in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(wins[0] + wins[1]) == list(range(rounds))
    for place in range(2):
        assert all(storage.read(f"log/{number}") == b"%d" % place * 100 for number in wins[place])
    assert len(storage.names("log")) == rounds
    assert len(os.listdir(storage.path("log"))) == rounds  # nothing is left aside


def test_a_file_is_created_whole_and_never_overwritten(storage: LocalStorage) -> None:
    assert storage.create("log/x", b"first", mode=0o600)
    assert not storage.create("log/x", b"second")
    assert storage.read("log/x") == b"first"
    assert stat.S_IMODE(os.stat(storage.path("log/x")).st_mode) == 0o600


@pytest.mark.parametrize(("act", "call"), [("create", "fsync"), ("create", "link"), ("replace", "replace")])
def test_a_failed_write_leaves_nothing(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, act: str, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="no space left"):
        getattr(storage, act)("log/x", b"content")
    assert os.listdir(storage.path("log")) == []


def test_reading_what_is_there_and_what_is_not(storage: LocalStorage) -> None:
    storage.create("log/x", b"content")
    assert (storage.read("log/x"), storage.read("log/y")) == (b"content", None)
    assert (storage.size("log/x"), storage.size("log/y"), storage.size("log/x/y")) == (7, None, None)
    assert storage.digest("log/x") == xxhash.xxh3_128_hexdigest(b"content")
    assert (storage.names("log"), storage.names("nowhere")) == (["x"], [])
    storage.remove("log/x")
    storage.remove("log/x")
    assert storage.read("log/x") is None


def test_replacing_is_all_or_nothing(storage: LocalStorage) -> None:
    storage.replace("log/x", b"a" * 100)
    storage.replace("log/x", b"b")
    assert storage.read("log/x") == b"b"


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


def test_the_names_of_new_folders_are_on_disk(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    storage.make_folder("data/a/b")
    assert synced == [storage.root, storage.path("data"), storage.path("data/a")]
    storage.make_folder("data/a/b")
    assert len(synced) == 3


def test_files_being_written_are_not_listed(storage: LocalStorage) -> None:
    Path(storage.path("log/.1234.aside")).write_bytes(b"half")
    assert storage.names("log") == []


@pytest.mark.parametrize("path", ["/abs", "..", "log/../../x"])
def test_paths_stay_inside(storage: LocalStorage, path: str) -> None:
    with pytest.raises(WorkspaceError, match="leads out"):
        storage.read(path)
