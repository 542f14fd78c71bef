"""fsync fails once, and later the power goes. The kernel forgets what it could not write: a second
fsync of the same bytes succeeds and puts nothing on the disk. So what a commit promises may rest on
no file whose fsync failed, however often it is tried again.

And a disk that is slow: the crawl goes on, readers too, and what waits stays bounded.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lycosa.core.errors import LycosaError
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.crawl.conftest import ServeWeb, page, serve
from tests.crawl.sessions import collection, work
from tests.trust.disk import Disk, Leaves, Recorder, lay
from tests.trust.scenario import live, new_life, survives

__all__ = ["serve"]

SEED = 20261122


class FailedSync(Recorder):
    """A recording in which the fsync of number `at` fails, and what it was to write is
    forgotten.
    """

    def __init__(self, root: str, at: int) -> None:
        super().__init__(root)
        self.syncs = 0
        self.failed = ""
        self.void: set[int] = set()
        self._at = at
        self._forgotten: tuple[int, int] | None = None  # inode and time of the file
        self._fsync = self._real["fsync"]
        self._real["fsync"] = self._sync

    def _sync(self, descriptor: int) -> None:
        about = self._fstat(descriptor)
        self.syncs += 1
        if self.syncs == self._at:
            self.failed = os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(self.root) or "/"
            if not os.path.isdir(self.root + self.failed):
                self._forgotten = (about.st_ino, about.st_mtime_ns)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if (about.st_ino, about.st_mtime_ns) == self._forgotten:
            # where this call will be noted: it says "done", and nothing was
            self.void.add(len(self.changes))
        self._fsync(descriptor)

    def mend(self) -> None:
        """No fsync fails any more."""
        os.fsync = self._fsync

    def left(self, leaves: Leaves, chance: random.Random) -> dict[str, tuple[bytes, int] | None]:
        """What a power cut at the end leaves."""
        changes = (each for number, each in enumerate(self.changes) if number not in self.void)
        return Disk(changes).cut(leaves, chance)


def fail(young: str, root: Path, at: int) -> FailedSync:
    """Live with one failed fsync, then cut the power. Whatever had been promised stands, and the
    next run ends the work.
    """
    alive, dead = root / "alive", root / "dead"
    shutil.copytree(young, alive)
    workspace = Workspace.open(str(alive))
    life, recorder = new_life(workspace), FailedSync(str(alive), at)
    error: Exception | None = None
    try:
        live(workspace, life, recorder)
    except (OSError, LycosaError) as failure:
        error = failure
    recorder.mend()
    life.note(workspace)
    why = f"fsync {at}, of {recorder.failed}, gave {error!r}; then the power went"
    lay(recorder.left(Leaves.NOTHING, random.Random(at)), dead)
    survives(life, dead, recorder.promised(len(recorder.changes)), why)
    shutil.rmtree(root)
    return recorder


def test_what_is_promised_rests_on_no_file_whose_fsync_failed(young: str, tmp_path: Path) -> None:
    assert fail(young, tmp_path / "w", random.Random(SEED).randint(1, 60)).failed


@pytest.mark.prove
def test_any_fsync_may_fail(young: str, tmp_path: Path) -> None:
    stride = int(os.environ.get("LYCOSA_FAULT_STRIDE", "1"))
    at = 1
    while (recorder := fail(young, tmp_path / "w", at)).failed:
        at += stride
    print(f"{(at - 1) // stride} of {recorder.syncs} fsyncs failed")
    assert at > 9


class SlowDisk:
    """Each write and fsync of Python's takes so long, in whichever thread."""

    def __init__(self, delay_s: float) -> None:
        self.calls = 0
        self._delay_s = delay_s

    def slow(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            time.sleep(self._delay_s)
            return call(*arguments, **options)

        return run


@pytest.mark.prove
@pytest.mark.parametrize("delay_s", [0.05, 0.2])
def test_a_crawl_on_a_slow_disk_goes_on_and_readers_do_not_wait(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """50 and 200 ms for every write and fsync: all is fetched once, commits are whole, and who
    reads meanwhile finds what is committed.
    """
    pages = 30
    site = {
        f"/{number}.html": page(
            f"/{number + 1}.html" if number + 1 < pages else "/", text=f"page {number}"
        )
        for number in range(pages)
    }
    web = serve({"/index.html": page("/0.html"), **site})
    disk = SlowDisk(delay_s)
    real = {name: getattr(os, name) for name in ("write", "fsync", "link", "rename", "replace")}
    for name, call in real.items():
        monkeypatch.setattr(os, name, disk.slow(call))
    seen: list[int] = []
    waits: list[float] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.2):
            began = time.thread_time()
            workspace = Workspace.open(str(tmp_path / "w"))
            seen.append(LiveTables(workspace).scan("pages").collect().height)
            waits.append(time.thread_time() - began)

    Workspace.create(str(tmp_path / "w"), partitions=4)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        crawled = work(
            tmp_path / "w",
            [(collection("c"), [web.url()])],
            settings=("crawl.commit_pages=8", "crawl.commit_interval=500ms"),
        )
    finally:
        over.set()
        reader.join()
    assert crawled.progress.ended == "finished"
    assert disk.calls > 60
    assert len(web.asked()) == pages + 1
    assert seen == sorted(seen)
    assert len({each for each in seen if each}) > 1  # some of it was there before the end
    assert verify(Workspace.open(str(tmp_path / "w")), deep=True).ok
