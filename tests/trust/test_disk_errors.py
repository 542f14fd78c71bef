"""The disk is full, fails, or reports a failure, at any operation of a commit, an index generation, a
merge, a purge, a sweep. A slow disk: what waits for it stays bounded.

fsync fails once, and later the power goes: the kernel drops what it could not write, and a second
fsync of the same bytes succeeds. So no commit may depend on a file whose fsync failed.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
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
from tests.trust.scenario import (
    Fault,
    Faults,
    Life,
    Watcher,
    goes_on,
    live,
    new_life,
    survives,
)

__all__ = ["serve"]

SEED = 20261122


def live_until_error(workspace: Workspace, life: Life, watcher: Watcher) -> Exception | None:
    """Live with faults to the end or the first error, and note what is in the log then."""
    fsync, error = os.fsync, None
    try:
        live(workspace, life, watcher)
    except (OSError, LycosaError) as failure:
        error = failure
    os.fsync = fsync  # no fsync fails any more
    life.note(workspace)
    return error


def strides(fail_at: Callable[[int], object]) -> tuple[int, int]:
    """Fail at one call after the other while there are some; the calls and the failures."""
    stride, at = int(os.environ.get("LYCOSA_FAULT_STRIDE", "1")), 1
    while fail_at(at):
        at += stride
    assert at > 9
    return at - 1, (at - 1) // stride


def fail(young: str, root: Path, fault: Fault, at: int) -> Faults:
    """Live with one fault. Whatever had been promised stands, and the next run ends the work."""
    shutil.copytree(young, root)
    workspace = Workspace.open(str(root))
    life, faults = new_life(workspace), Faults(fault, at)
    error = live_until_error(workspace, life, faults)
    why = f"{fault.value}, call {at}: {faults.happened} gave {error!r}"
    if fault is Fault.SHORT:
        assert error is None, why
    survives(life, root, faults.promised, why)
    shutil.rmtree(root)
    return faults


@pytest.mark.proves("durability-full-disk")
def test_a_disk_that_fails_once_loses_nothing(young: str, tmp_path: Path) -> None:
    at = random.Random(SEED).randint(1, 400)
    assert fail(young, tmp_path / "w", Fault.UNANSWERED, at).happened


@pytest.mark.proves("durability-full-disk")
@pytest.mark.prove
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_a_disk_that_fails_at_any_call_loses_nothing(
    young: str, tmp_path: Path, fault: Fault
) -> None:
    print(strides(lambda at: fail(young, tmp_path / "w", fault, at).happened))


# A file that may not grow beyond so many bytes fails as on a full disk, whoever writes it: tables
# and index are not written by Python.
SCRIPT = """
    import resource, signal, sys
    from lycosa.store.workspace import Workspace
    from tests.trust.scenario import Fault, Faults
    from tests.trust.scenario import live, new_life

    workspace = Workspace.open(sys.argv[1])
    life = new_life(workspace)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        live(workspace, life, Faults(Fault.FULL, 0))
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.proves("durability-full-disk")
@pytest.mark.prove
@pytest.mark.parametrize(
    "limit", [100, 300, 600, 1_000, 2_000, 3_000, 4_500, 6_500, 9_000, 13_000, 20_000]
)
def test_files_that_may_not_grow_lose_nothing(young: str, tmp_path: Path, limit: int) -> None:
    shutil.copytree(young, tmp_path / "w")
    workspace = Workspace.open(str(tmp_path / "w"))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), workspace.root, str(limit)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    why = f"no file may have more than {limit} bytes: {output}"
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    goes_on(workspace, why)


PAGES, WORDS = 500, 12_000
CRAWL = """
import json, os, resource, sys, threading, time, weakref
from pathlib import Path
from lycosa.processes.memory import tune_memory
from lycosa.crawl.state.batch import Batch
from tests.crawl.sessions import collection, work

tune_memory()
root, url, delay_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
batches, most, over = weakref.WeakSet(), {"batches": 0, "text": 0, "slow_s": 0.0}, threading.Event()
begin = Batch.__init__

def watched(self, *arguments):
    begin(self, *arguments)
    batches.add(self)

def look():
    while not over.wait(0.02):
        texts = [batch.text_bytes for batch in list(batches)]
        most["batches"] = max(most["batches"], sum(map(bool, texts)))
        most["text"] = max(most["text"], sum(texts))

def slow(descriptor, fsync=os.fsync):
    time.sleep(delay_s)
    most["slow_s"] += delay_s
    fsync(descriptor)

Batch.__init__ = watched
os.fsync = slow
watcher = threading.Thread(target=look)
watcher.start()
crawled = work(Path(root), [(collection("c"), [url])], settings=("fetch.connections=32",))
over.set()
watcher.join()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({**most, "pages": crawled.progress.pages, "commits": crawled.progress.commits, "peak_mb": peak}))
"""


def crawl(root: Path, url: str, delay_s: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, str(root), url, str(delay_s)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    print(delay_s, result)
    return result


@pytest.mark.proves("durability-slow-disk")
@pytest.mark.prove
def test_two_batches_wait_for_a_slow_disk_and_no_more(serve: ServeWeb, tmp_path: Path) -> None:
    chance = random.Random(7)
    words = [f"{chance.randrange(16**6):x}" for _ in range(3_000)]
    site = {
        f"/{number}.html": page(text=" ".join(chance.choices(words, k=WORDS)))
        for number in range(PAGES)
    }
    web = serve({"/index.html": page(*site), **site})
    usual = crawl(tmp_path / "usual", web.url(), 0.0)
    slow = crawl(tmp_path / "slow", web.url(), 0.3)
    assert usual["pages"] == slow["pages"] == PAGES + 1
    # crawl.commit_text, and what ends in one turn of the loop
    limit = 12 * 2**20 + 32 * 2 * 8 * WORDS
    assert slow["commits"] > 3
    assert slow["slow_s"] > 10
    assert slow["batches"] <= 2
    assert slow["text"] <= 2 * limit
    assert slow["peak_mb"] < 1.2 * usual["peak_mb"]


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

    def left(self, leaves: Leaves, chance: random.Random) -> dict[str, tuple[bytes, int] | None]:
        """What a power cut at the end leaves."""
        changes = (each for number, each in enumerate(self.changes) if number not in self.void)
        return Disk(changes).cut(leaves, chance)


def fail_sync(young: str, root: Path, at: int) -> FailedSync:
    """Live with one failed fsync, then cut the power. Whatever had been promised stands, and the
    next run ends the work.
    """
    alive, dead = root / "alive", root / "dead"
    shutil.copytree(young, alive)
    workspace = Workspace.open(str(alive))
    life, recorder = new_life(workspace), FailedSync(str(alive), at)
    error = live_until_error(workspace, life, recorder)
    why = f"fsync {at}, of {recorder.failed}, gave {error!r}; then the power went"
    lay(recorder.left(Leaves.NOTHING, random.Random(at)), dead)
    survives(life, dead, recorder.promised(len(recorder.changes)), why)
    shutil.rmtree(root)
    return recorder


@pytest.mark.proves("durability-failed-fsync")
def test_what_is_promised_rests_on_no_file_whose_fsync_failed(young: str, tmp_path: Path) -> None:
    assert fail_sync(young, tmp_path / "w", random.Random(SEED).randint(1, 60)).failed


@pytest.mark.proves("durability-failed-fsync")
@pytest.mark.prove
def test_any_fsync_may_fail(young: str, tmp_path: Path) -> None:
    print(strides(lambda at: fail_sync(young, tmp_path / "w", at).failed))


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


@pytest.mark.proves("durability-slow-disk")
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
    assert (len(web.asked()), seen) == (pages + 1, sorted(seen))
    assert len({each for each in seen if each}) > 1  # some of it was there before the end
    assert verify(Workspace.open(str(tmp_path / "w")), deep=True).ok
