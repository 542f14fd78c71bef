"""Disk errors in all operations of a workspace, and slow disks.

When fsync fails, the kernel drops the data that it could not write, and a second fsync of the same
bytes succeeds. So no commit may depend on a file whose fsync failed: a later power cut would lose
it.
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
from tests.trust.disk import Disk, Recorder, UnsyncedData, write_tree
from tests.trust.scenario import (
    CallObserver,
    Fault,
    FaultInjector,
    History,
    assert_recovers,
    assert_work_continues,
    new_history,
    run_scenario,
)

__all__ = ["serve"]

SEED = 20261122


def run_until_error(
    workspace: Workspace, history: History, observer: CallObserver
) -> Exception | None:
    """Run the scenario to its end or to the first error, which is returned."""
    fsync, error = os.fsync, None
    try:
        run_scenario(workspace, history, observer)
    except (OSError, LycosaError) as failure:
        error = failure
    os.fsync = fsync  # the observer may have restored its own failing fsync
    history.record(workspace)
    return error


def fail_at_each_call(fail_at: Callable[[int], object]) -> tuple[int, int]:
    """Call `fail_at` with 1, 2, … while it returns true.

    Returns the number of calls that exist and of those that failed.
    """
    stride, at = int(os.environ.get("LYCOSA_FAULT_STRIDE", "1")), 1
    while fail_at(at):
        at += stride
    assert at > 9
    return at - 1, (at - 1) // stride


def fail(initial_workspace: str, root: Path, fault: Fault, at: int) -> FaultInjector:
    """Run the scenario with one fault; assert that no data is lost."""
    shutil.copytree(initial_workspace, root)
    workspace = Workspace.open(str(root))
    history, faults = new_history(workspace), FaultInjector(fault, at)
    error = run_until_error(workspace, history, faults)
    why = f"{fault.value}, call {at}: {faults.happened} caused {error!r}"
    if fault is Fault.SHORT:
        assert error is None, why
    assert_recovers(history, root, faults.durable, why)
    shutil.rmtree(root)
    return faults


@pytest.mark.proves("durability-full-disk")
def test_one_disk_error_loses_no_committed_data(initial_workspace: str, tmp_path: Path) -> None:
    at = random.Random(SEED).randint(1, 400)
    assert fail(initial_workspace, tmp_path / "w", Fault.FALSE_ERROR, at).happened


@pytest.mark.proves("durability-full-disk")
@pytest.mark.prove
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_disk_error_at_any_call_loses_no_committed_data(
    initial_workspace: str, tmp_path: Path, fault: Fault
) -> None:
    print(fail_at_each_call(lambda at: fail(initial_workspace, tmp_path / "w", fault, at).happened))


# RLIMIT_FSIZE also affects writes by libraries: tables and the index are not written by Python.
LIMITED_SCRIPT = """
    import resource, signal, sys
    from lycosa.store.workspace import Workspace
    from tests.trust.scenario import Fault, FaultInjector, new_history, run_scenario

    workspace = Workspace.open(sys.argv[1])
    history = new_history(workspace)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        run_scenario(workspace, history, FaultInjector(Fault.FULL, 0))
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.proves("durability-full-disk")
@pytest.mark.prove
@pytest.mark.parametrize(
    "limit", [100, 300, 600, 1_000, 2_000, 3_000, 4_500, 6_500, 9_000, 13_000, 20_000]
)
def test_file_size_limit_loses_no_committed_data(
    initial_workspace: str, tmp_path: Path, limit: int
) -> None:
    shutil.copytree(initial_workspace, tmp_path / "w")
    workspace = Workspace.open(str(tmp_path / "w"))
    command = [sys.executable, "-c", textwrap.dedent(LIMITED_SCRIPT), workspace.root, str(limit)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    why = f"files limited to {limit} bytes: {output}"
    report = verify(workspace, deep=True)
    assert report.ok, f"{why}: {report.findings}"
    assert_work_continues(workspace, why)


PAGES, WORDS = 500, 12_000
CRAWL_SCRIPT = """
import json, os, resource, sys, threading, time, weakref
from pathlib import Path
from lycosa.processes.memory import tune_memory
from lycosa.crawl.state.batch import Batch
from tests.crawl.sessions import collection, work

tune_memory()
root, url, delay_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
batches, peaks, finished = weakref.WeakSet(), {"batches": 0, "text": 0, "slow_s": 0.0}, threading.Event()
begin = Batch.__init__

def counted(self, *arguments):
    begin(self, *arguments)
    batches.add(self)

def sample():
    while not finished.wait(0.02):
        texts = [batch.text_bytes for batch in list(batches)]
        peaks["batches"] = max(peaks["batches"], sum(map(bool, texts)))
        peaks["text"] = max(peaks["text"], sum(texts))

def slow(descriptor, fsync=os.fsync):
    time.sleep(delay_s)
    peaks["slow_s"] += delay_s
    fsync(descriptor)

Batch.__init__ = counted
os.fsync = slow
observer = threading.Thread(target=sample)
observer.start()
crawled = work(Path(root), [(collection("c"), [url])], settings=("fetch.connections=32",))
finished.set()
observer.join()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({**peaks, "pages": crawled.progress.pages, "commits": crawled.progress.commits, "peak_mb": peak}))
"""


def crawl(root: Path, url: str, delay_s: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CRAWL_SCRIPT, str(root), url, str(delay_s)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    print(delay_s, result)
    return result


@pytest.mark.proves("durability-slow-disk")
@pytest.mark.prove
def test_at_most_two_batches_are_pending_on_a_slow_disk(serve: ServeWeb, tmp_path: Path) -> None:
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
    # crawl.commit_text, and the responses processed in one iteration of the main loop
    limit = 12 * 2**20 + 32 * 2 * 8 * WORDS
    assert slow["commits"] > 3
    assert slow["slow_s"] > 10
    assert slow["batches"] <= 2
    assert slow["text"] <= 2 * limit
    assert slow["peak_mb"] < 1.2 * usual["peak_mb"]


class FailedSyncRecorder(Recorder):
    """Record changes while fsync number `at` fails and its data is dropped."""

    def __init__(self, root: str, at: int) -> None:
        super().__init__(root)
        self.syncs = 0
        self.failed = ""
        self.ineffective_syncs: set[int] = set()
        self._at = at
        self._dropped: tuple[int, int] | None = None  # inode and time of the file
        self._fsync = self._real["fsync"]
        self._real["fsync"] = self._sync

    def _sync(self, descriptor: int) -> None:
        about = self._fstat(descriptor)
        self.syncs += 1
        if self.syncs == self._at:
            self.failed = os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(self.root) or "/"
            if not os.path.isdir(self.root + self.failed):
                self._dropped = (about.st_ino, about.st_mtime_ns)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if (about.st_ino, about.st_mtime_ns) == self._dropped:
            # this fsync succeeds without writing: exclude the change that will be recorded for it
            self.ineffective_syncs.add(len(self.changes))
        self._fsync(descriptor)

    def cut(
        self, unsynced: UnsyncedData, chance: random.Random
    ) -> dict[str, tuple[bytes, int] | None]:
        """Return the state of the disk after a power cut at the end."""
        changes = (
            each for number, each in enumerate(self.changes) if number not in self.ineffective_syncs
        )
        return Disk(changes).cut(unsynced, chance)


def fail_sync(initial_workspace: str, root: Path, at: int) -> FailedSyncRecorder:
    """Assert that a failed fsync and a power cut lose no durable data."""
    original, after_cut = root / "original", root / "after_cut"
    shutil.copytree(initial_workspace, original)
    workspace = Workspace.open(str(original))
    history, recorder = new_history(workspace), FailedSyncRecorder(str(original), at)
    error = run_until_error(workspace, history, recorder)
    why = f"fsync {at}, of {recorder.failed}, caused {error!r}, followed by a power cut"
    write_tree(recorder.cut(UnsyncedData.NOTHING, random.Random(at)), after_cut)
    assert_recovers(history, after_cut, recorder.durable(len(recorder.changes)), why)
    shutil.rmtree(root)
    return recorder


@pytest.mark.proves("durability-failed-fsync")
def test_committed_data_does_not_depend_on_a_file_whose_fsync_failed(
    initial_workspace: str, tmp_path: Path
) -> None:
    assert fail_sync(initial_workspace, tmp_path / "w", random.Random(SEED).randint(1, 60)).failed


@pytest.mark.proves("durability-failed-fsync")
@pytest.mark.prove
def test_failure_of_any_fsync_loses_no_committed_data(
    initial_workspace: str, tmp_path: Path
) -> None:
    print(fail_at_each_call(lambda at: fail_sync(initial_workspace, tmp_path / "w", at).failed))


class SlowDisk:
    """Delay each write and fsync of Python, in all threads."""

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
def test_crawl_on_a_slow_disk_continues_and_does_not_block_readers(
    serve: ServeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """Each page is fetched once, commits are complete, and readers see committed pages."""
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
    page_counts: list[int] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.2):
            workspace = Workspace.open(str(tmp_path / "w"))
            page_counts.append(LiveTables(workspace).scan("pages").collect().height)

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
    assert (len(web.requested_paths()), page_counts) == (pages + 1, sorted(page_counts))
    assert len({count for count in page_counts if count}) > 1  # commits before the end were read
    assert verify(Workspace.open(str(tmp_path / "w")), deep=True).ok
