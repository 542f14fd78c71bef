"""The conformance suite of the storage interface, run on every kind of storage."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import xxhash

from lycosa.core.errors import StorageError, UsageError, WorkspaceError
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage, open_storage
from tests.store.locations import KINDS, Locations
from tests.waiting import run_concurrently

pytestmark = pytest.mark.parametrize("storage", KINDS, indirect=True)


@pytest.mark.proves("consistency-log")
def test_exactly_one_concurrent_creator_succeeds(storage: Storage) -> None:
    """A check for existence followed by a write fails here on most rounds."""
    racers, rounds = 4, 1_000 if storage.on_disk else 40
    wins: list[list[int]] = [[] for _ in range(racers)]
    together = threading.Barrier(racers, timeout=60)

    def race(racer: int) -> None:
        for number in range(rounds):
            together.wait()
            if storage.create(f"log/{number}", b"%d" % racer * 100):
                wins[racer].append(number)

    run_concurrently(*(functools.partial(race, racer) for racer in range(racers)))
    assert sorted(number for won in wins for number in won) == list(range(rounds))
    for racer, won in enumerate(wins):
        assert all(storage.read(f"log/{number}") == b"%d" % racer * 100 for number in won)
    # No temporary file is left.
    assert len(storage.names("log")) == len(storage.files_below("log")) == rounds


def test_drafts_are_not_lost_when_finalized_dropped_and_read_concurrently(storage: Storage) -> None:
    content = b"rows" * 1_000
    for number in range(1, 21):
        folder = f"data/{number:08d}-1"
        storage.files.new_folder(folder)
        path = f"{folder}/pages.parquet"
        Path(storage.files.draft_path(path)).write_bytes(content)
        (published,) = storage.files.publish({path: 3})

        def read(
            path: str = path, size: int = published.bytes, digest: str = published.digest
        ) -> None:
            results = storage.files.local_path(path, size, digest)
            time.sleep(0.02)  # polars opens a file only when it reads it
            assert Path(results).read_bytes() == content

        finalize, drop = (
            functools.partial(storage.files.finalize, folder),
            functools.partial(storage.files.drop_drafts, folder),
        )
        run_concurrently(finalize, finalize, drop, read)
        assert storage.files.draft_names(folder) == (["pages.parquet"] if storage.on_disk else [])


@pytest.mark.prove
def test_one_of_several_creating_processes_wins_each_round(
    storage: Storage, locations: Locations, tmp_path: Path
) -> None:
    """The processes run each round at the same time: else the first to start wins all."""
    rounds, racers = 1_000, 3
    script = textwrap.dedent("""
        import sys
        from lycosa.store.storage.storage import open_storage

        storage, racer = open_storage(sys.argv[1]), sys.argv[2]
        for number in map(int, sys.stdin):
            print(int(storage.create(f"log/{number}", racer.encode())), flush=True)
    """)
    with ExitStack() as opened:
        processes = [
            opened.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", script, storage.root, str(racer)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for racer in range(racers)
        ]
        winners = []
        for number in range(rounds):
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
            won = [
                racer
                for racer, process in enumerate(processes)
                if process.stdout is not None and process.stdout.readline() == "1\n"
            ]
            assert len(won) == 1
            winners += won
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
    assert set(winners) == set(range(racers)), "the processes did not race"
    assert all(
        storage.read(f"log/{number}") == str(racer).encode() for number, racer in enumerate(winners)
    )


@pytest.mark.proves("consistency-immutable")
def test_a_file_is_created_whole_and_never_overwritten(storage: Storage) -> None:
    assert storage.create("log/x", b"first")
    assert not storage.create("log/x", b"second")
    assert storage.read("log/x") == b"first"


def test_existing_and_missing_files(storage: Storage) -> None:
    before = time.time() * 1_000 - 2_000  # some storages have times in seconds
    storage.create("log/x", b"content")
    storage.create("log/empty", b"")
    assert (storage.read("log/x"), storage.read("log/empty"), storage.read("log/y")) == (
        b"content",
        b"",
        None,
    )
    assert (
        storage.size("log/x"),
        storage.size("log/empty"),
        storage.size("log/y"),
        storage.size("log/x/y"),
    ) == (7, 0, None, None)
    assert before < (storage.modified_at("log/x") or 0) < time.time() * 1_000 + 2_000
    assert storage.modified_at("log/y") is None
    assert storage.files.digest("log/x") == xxhash.xxh3_128_hexdigest(b"content")
    assert (storage.names("log"), storage.names("nowhere")) == (["empty", "x"], [])
    storage.remove("log/x")
    storage.remove("log/x")
    assert storage.read("log/x") is None
    with pytest.raises(FileNotFoundError):
        storage.files.digest("log/x")


def test_replace_is_atomic(storage: Storage) -> None:
    storage.replace("log/x", b"a" * 100)
    torn: list[bytes | None] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            content = storage.read("log/x")
            if content is None or len(set(content)) != 1 or len(content) not in (100, 50_000):
                torn.append(content)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        storage.replace(
            "log/x", b"ab"[number % 2 :][:1] * (100, 50_000)[number % 2], sync=number % 2 == 0
        )
    ended.set()
    reader.join()
    assert not torn
    assert (storage.read("log/x"), storage.names("log")) == (b"b" * 50_000, ["x"])


def test_names_and_files_below(storage: Storage) -> None:
    for path in (
        "log/b",
        "log/a",
        "data/00000001-1/urls.parquet",
        "data/00000001-1/archive.warc.gz",
        "data/00000002-1/urls.parquet",
    ):
        storage.make_folder(os.path.dirname(path))
        storage.create(path, b"x")
    assert storage.names("log") == ["a", "b"]
    assert storage.names("data") == ["00000001-1", "00000002-1"]
    assert {"data", "log", "workspace.json"} <= set(storage.names("."))
    assert storage.files_below("data") == [
        *("data/00000001-1/archive.warc.gz", "data/00000001-1/urls.parquet"),
        "data/00000002-1/urls.parquet",
    ]
    assert storage.files_below("nowhere") == []
    assert not storage.remove_empty_folders("data")
    storage.remove("data/00000002-1/urls.parquet")
    storage.remove_empty_folders("data")
    assert storage.names("data") == ["00000001-1"]


def test_listing_of_several_pages_is_complete(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The S3 server lists 10 names per page."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(25):
        storage.replace(f"log/{number:08d}.json", b"{}")
    assert storage.names("log") == [f"{number:08d}.json" for number in range(25)]
    assert len(storage.files_below("log")) == 25


@pytest.mark.proves("access-paths")
@pytest.mark.parametrize("path", ["/abs", "..", "log/../../x"])
def test_paths_outside_the_workspace_are_refused(storage: Storage, path: str) -> None:
    for operation in (
        storage.read,
        storage.files.local_path,
        storage.files.draft_path,
        storage.size,
        storage.remove,
    ):
        with pytest.raises(WorkspaceError, match="is outside the workspace"):
            operation(path)


def test_published_files_are_readable_on_another_machine(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = storage.files.new_folder("data/00000001-1")
    with pytest.raises(FileExistsError):
        storage.files.new_folder("data/00000001-1")
    content = {"urls.parquet": b"u" * 1_000, "archive.warc.gz": b"w" * 10, "pages.parquet": b"p"}
    for name, written in content.items():
        Path(folder, name).write_bytes(written)
    assert storage.files.draft_names("data") == ["00000001-1"]
    assert storage.files.draft_names("data/00000001-1") == sorted(content)
    assert storage.files.draft_size("data/00000001-1/urls.parquet") == 1_000
    paths = [f"data/00000001-1/{name}" for name in content]
    assert Path(storage.files.local_path(paths[0])).read_bytes() == content["urls.parquet"]
    published = storage.files.publish(dict.fromkeys(paths, 7))
    assert published == [
        DataFile(path, 7, len(written), xxhash.xxh3_128_hexdigest(written))
        for path, written in zip(paths, content.values(), strict=True)
    ]
    assert storage.files_below("data") == sorted(paths)
    storage.files.finalize("data/00000001-1")
    if not storage.on_disk:
        assert storage.files.draft_names("data") == []
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))  # as on another machine
    other = open_storage(storage.root)
    other.files.prefetch(published)
    for machine in (storage, other):
        for path, written in zip(paths, content.values(), strict=True):
            local = machine.files.local_path(path, len(written), xxhash.xxh3_128_hexdigest(written))
            assert Path(local).read_bytes() == written
    other.remove(paths[0])
    assert not os.path.exists(other.files.local_path(paths[0]))
    assert other.size(paths[0]) is None


def test_published_files_can_be_unpublished_and_dropped(storage: Storage) -> None:
    Path(storage.files.draft_path("base/_/p00/1/urls.parquet")).write_bytes(b"rows")
    storage.files.publish({"base/_/p00/1/urls.parquet": 1})
    storage.files.unpublish("base/_/p00/1/urls.parquet")
    assert storage.files.draft_size("base/_/p00/1/urls.parquet") == 4
    storage.files.drop_drafts("base/_/p00/1")
    storage.remove("base/_/p00/1/urls.parquet")
    assert storage.files.draft_size("base/_/p00/1/urls.parquet") is None
    assert storage.files_below("base") == []


@pytest.mark.parametrize("mebibytes", [11, pytest.param(140, marks=pytest.mark.prove)])
def test_large_files_arrive_complete(
    storage: Storage, mebibytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """11 MiB exceed a part of an S3 download, 140 MiB a part of an upload and an HDFS block."""
    block = os.urandom(1 << 20)
    size = mebibytes * len(block)
    with open(storage.files.draft_path("data/00000001-1/archive.warc.gz"), "wb") as file:
        for _ in range(mebibytes):
            file.write(block)
    (published,) = storage.files.publish({"data/00000001-1/archive.warc.gz": 0})
    assert published.bytes == storage.size("data/00000001-1/archive.warc.gz") == size
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))
    other = open_storage(storage.root)
    assert (
        os.path.getsize(
            other.files.local_path(
                "data/00000001-1/archive.warc.gz", published.bytes, published.digest
            )
        )
        == size
    )
    assert other.files.digest("data/00000001-1/archive.warc.gz") == published.digest


def test_folder_is_published_completely_and_once(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(content: bytes) -> str:
        folder = Path(storage.folders.staging_dir("index")) / f".build-{content.decode()}"
        folder.mkdir()
        for name in ("meta.json", "segment"):
            (folder / name).write_bytes(content)
        return str(folder)

    assert storage.folders.local_path("index/00000001") is None
    assert storage.folders.publish(built(b"first"), "index/00000001")
    loser = built(b"second")
    assert not storage.folders.publish(loser, "index/00000001")
    assert (Path(loser) / "segment").read_bytes() == b"second"
    assert storage.folders.publish(loser, "index/00000002")
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))
    other = open_storage(storage.root)
    for machine in (storage, other):
        assert [name for name in machine.names("index") if name.isdigit()] == [
            "00000001",
            "00000002",
        ]
        for number, content in ((1, b"first"), (2, b"second")):
            results = machine.folders.local_path(f"index/{number:08d}")
            assert results is not None
            assert {path.name: path.read_bytes() for path in Path(results).iterdir()} == {
                "meta.json": content,
                "segment": content,
            }
    storage.folders.remove("index/00000001")
    assert storage.folders.local_path("index/00000001") is None
    assert other.folders.local_path("index/00000001") is None
    assert [name for name in storage.names("index") if name.isdigit()] == ["00000002"]
    storage.folders.remove("index")
    assert storage.files_below("index") == []


@pytest.mark.proves("consistency-generations")
def test_readers_of_a_deleted_folder_see_all_files_or_none(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(storage.folders.staging_dir("index"), ".build-1")
    folder.mkdir()
    for number in range(10):
        (folder / str(number)).write_bytes(b"x" * 10_000)
    storage.folders.publish(str(folder), "index/00000001")
    monkeypatch.setenv("LYCOSA_CACHE", str(tmp_path / "another"))
    other = open_storage(storage.root)
    results: list[int | None] = []
    started = threading.Event()

    def read() -> None:
        started.set()
        while not results or results[-1] is not None:
            path = other.folders.local_path("index/00000001")
            try:
                count = None if path is None else len(os.listdir(path))
            except FileNotFoundError:  # the local folder was removed before it was listed
                count = None
            if path is not None and count != 10 and not os.path.exists(path):
                count = None  # it was removed while it was listed
            results.append(count)

    reader = threading.Thread(target=read)
    reader.start()
    started.wait()
    storage.folders.remove("index/00000001")
    reader.join()
    assert set(results) <= {10, None}


def test_locks_and_scratch_folders_are_local(storage: Storage) -> None:
    storage.make_folder("run")
    Path(storage.lock_path("run/owner.lock")).touch()
    assert os.path.isdir(storage.scratch_dir())
    storage.verify_conditional_put()
    assert storage.names("log") == []
    assert not [name for name in storage.names(".") if name.startswith(".probe")]


def test_unreachable_location_is_an_error_with_its_name(storage: Storage) -> None:
    if storage.on_disk:
        pytest.skip("a local folder needs no connection")
    nowhere = {"s3": "s3://no-such-bucket/x", "we": "webhdfs://127.0.0.1:1/x"}[storage.root[:2]]
    with pytest.raises((StorageError, UsageError), match=nowhere):
        open_storage(nowhere).read("workspace.json")
