"""Copies on this machine: bounded, verified, never taken away from who has just asked for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.core.errors import WorkspaceError
from lycosa.store.storage.cache import FileCache
from lycosa.store.storage.files import file_digest


def holding(content: bytes) -> Callable[[str], None]:
    """A download."""

    def download(target: str) -> None:
        Path(target).write_bytes(content)

    return download


def put(cache: FileCache, name: str, content: bytes, *, age_s: float = 0.0) -> str:
    path = cache.fetch(name, holding(content), len(content), "")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_the_longest_unused_go_first_until_the_rest_fits(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    paths = [
        put(cache, f"data/{number}/urls.parquet", b"x" * 1_000, age_s=10_000 - number)
        for number in range(4)
    ]
    cache.limit(2_500)
    assert cache.find("data/0/urls.parquet") == paths[0]  # asked for: the newest now
    assert FileCache(tmp_path).evict() == 2_000  # another process knows the bound too
    assert [os.path.exists(path) for path in paths] == [True, False, False, True]


def test_what_was_asked_for_just_now_stays_whatever_the_bound(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    cache.limit(10)
    table = put(cache, "data/1/urls.parquet", b"x" * 1_000, age_s=600)
    archive = put(cache, "data/1/archive.warc.gz", b"x" * 1_000, age_s=600)
    with open(archive, "rb") as reading:
        cache.evict()
        assert (os.path.exists(table), os.path.exists(archive)) == (True, False)
        assert len(reading.read()) == 1_000


def test_a_living_process_keeps_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FileCache(tmp_path)
    cache.limit(10)
    path = put(cache, "data/1/urls.parquet", b"x" * 1_000, age_s=100_000)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 400)
    cache.keep_alive()
    assert cache.evict() == 0
    assert os.path.exists(path)


def test_a_copy_that_is_not_the_file_is_refused_and_not_kept(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    for content, size, digest in ((b"short", 9, ""), (b"other", 5, "0" * 32)):
        with pytest.raises(WorkspaceError, match="differs from its log entry"):
            cache.fetch("x.parquet", holding(content), size, digest)
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []
    (tmp_path / "same").write_bytes(b"other")
    assert cache.fetch(
        "x.parquet", holding(b"other"), 5, file_digest(str(tmp_path / "same"))
    ) == cache.find("x.parquet")


def test_only_files_that_count_are_retained(tmp_path: Path) -> None:
    cache = FileCache(tmp_path)
    paths = [put(cache, f"data/{number}/urls.parquet", b"x", age_s=10_000) for number in range(3)]
    used = put(cache, "data/3/urls.parquet", b"x")
    cache.retain({"data/1/urls.parquet"})
    assert [os.path.exists(path) for path in (*paths, used)] == [False, True, False, True]
    cache.drop("data/3/urls.parquet")
    assert not os.path.exists(used)
