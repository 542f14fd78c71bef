"""Polars threads, release of memory, stop flags, supervised threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

import lycosa
from lycosa.cluster.engines.local import LocalEngine
from lycosa.processes import threads
from lycosa.processes.children import Child, Report, ReportKind
from lycosa.processes.jobs import POLARS_THREADS
from lycosa.processes.memory import give_back
from lycosa.processes.platform import drop_code
from lycosa.processes.threads import FAILED_EXIT, OnError, StopFlag, start_thread


def _report_threads(report: Report) -> None:
    report(ReportKind.WORKING, str(pl.thread_pool_size()))


def _thread_count(_: int) -> int:
    return pl.thread_pool_size()


@pytest.fixture(autouse=True)
def _require_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(POLARS_THREADS, raising=False)
    if (os.cpu_count() or 1) < 2:
        pytest.skip("polars always has one thread on one core")


@pytest.mark.parametrize("setting", ["", "3"])
def test_patient_child_has_one_polars_thread_unless_the_environment_sets_the_number(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting:
        monkeypatch.setenv(POLARS_THREADS, setting)
    child = Child("threads", _report_threads, patient=True)
    assert child.wait(60)
    child.listen()
    assert child.end() == ""
    assert child.reports[0].text == (setting or "1")


@pytest.mark.parametrize(
    "start", ["Child('x', work).wait(60)", "list(LocalEngine(1).map(work, ['']))"]
)
def test_ctrl_c_is_blocked_in_the_first_process(tmp_path: Path, start: str) -> None:
    (tmp_path / "worker.py").write_text(
        "import signal\ndef work(*_):\n    print(signal.SIGINT in signal.pthread_sigmask(0, ()))\n"
    )
    (tmp_path / "main.py").write_text(
        "from lycosa.cluster.engines.local import LocalEngine\n"
        "from lycosa.processes.children import Child\n"
        "from worker import work\n"
        f"if __name__ == '__main__':\n    started = {start}\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n", done.stderr


def test_processes_of_the_local_engine_have_one_polars_thread() -> None:
    engine = LocalEngine(1)
    try:
        assert list(engine.map(_thread_count, [1])) == [1]
    finally:
        engine.close()


@pytest.mark.parametrize(("command", "threads"), [("crawl", "1"), ("index", None)])
def test_only_crawl_limits_polars_to_one_thread(command: str, threads: str | None) -> None:
    code = f"""
import atexit, os, sys
atexit.register(lambda: print(os.environ.get({POLARS_THREADS!r})))
from lycosa.cli import main
sys.argv = ["lycosa", {command!r}, "--help"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(threads)


@pytest.mark.proves("isolation-children")
def test_a_job_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(
        "import time\nfrom lycosa.processes.jobs import job_order\nprint(job_order('x'), "
        "flush=True)\ntime.sleep(60)"
    )
    code = """
import os, time
from lycosa.processes.jobs import start_job
print(start_job("sleeper", {"a": 1}).pid, flush=True)
time.sleep(60)
"""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    }
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        first, second = sorted((parent.stdout.readline(), parent.stdout.readline()))
        assert second == "{'a': 1}\n"
        parent.kill()
        assert parent.stdout.read() == ""  # ends when the job ends, which inherited it
    assert int(first) > 0


LIBC = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
"""

PAGE_FAULTS = """
import resource
from lycosa.processes.memory import tune_memory

tune_memory()
SIZE = 500_000
keep = libc.malloc(SIZE)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    block = libc.malloc(SIZE)
    ctypes.memset(block, 1, SIZE)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _run_program(program: str) -> int:
    """Run a program with the prelude `LIBC`; return the number that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", LIBC + program], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_freed_blocks_of_page_size_are_reused() -> None:
    """Without tuning, the kernel clears new memory for every block of more than 128 KiB."""
    assert _run_program(PAGE_FAULTS) < 2_000


def _resident_kb(kind: str) -> int:
    result = re.search(
        rf"^{kind}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE
    )
    assert result is not None
    return int(result[1])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is released on Linux only")
def test_freed_memory_between_used_blocks_is_released() -> None:
    # the remaining blocks are in the heap, so that it cannot shrink by itself
    blocks = [b"x" * (64_000 + number) for number in range(800)]
    remaining = blocks[::50] + blocks[-1:]
    del blocks
    before = _resident_kb("RssAnon")
    give_back()
    assert _resident_kb("RssAnon") < before - 10_000
    assert len(remaining) == 17


@pytest.mark.skipif(sys.platform != "linux", reason="memory is released on Linux only")
def test_dropped_code_is_loaded_again_when_it_runs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"key": [3, 1, 2], "text": ["c", "a", "b"]})

    def work() -> list[str]:
        frame.sort("key").write_parquet(tmp_path / "x.parquet")
        return (
            pl.scan_parquet(tmp_path / "x.parquet")
            .filter(pl.col("key") > 1)
            .collect()["text"]
            .to_list()
        )

    assert work() == ["b", "c"]
    before = _resident_kb("RssFile")
    drop_code()
    assert _resident_kb("RssFile") < before - 4_000
    assert work() == ["b", "c"]


MEMORY_AFTER_THREADS = """
import threading
from pathlib import Path
from lycosa.processes.memory import steady_memory
from lycosa.processes.platform import trim_malloc

steady_memory()

def anonymous_kb():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])

def work(barrier):
    blocks = [libc.malloc(60_000) for _ in range(100)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    barrier.wait()  # concurrent threads get separate arenas, if the limit permits
    for block in blocks[:-1]:
        libc.free(block)  # the last block stays in use

large = libc.malloc(30_000_000)  # by default, glibc then keeps 60 MB at the end of each arena
libc.free(large)
before = anonymous_kb()
barrier = threading.Barrier(8)
threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
trim_malloc()
print(anonymous_kb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="arenas are glibc's")
def test_memory_of_ended_threads_is_released() -> None:
    """Eight threads allocate 6 MB each and free all but 60 KB."""
    assert _run_program(MEMORY_AFTER_THREADS) < 4_000


ROOT = Path(__file__).resolve().parents[2]

INTERRUPTED = """
import signal, time
from lycosa.processes.threads import StopFlag

flag = StopFlag()
signal.signal(signal.SIGALRM, lambda *_: flag.set())
signal.setitimer(signal.ITIMER_REAL, 0.00031, 0.00037)
rounds = 0
while rounds < 2_000:
    flag = StopFlag()
    while not flag.wait(0.0001):
        pass
    rounds += 1
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_stop_flag_can_be_set_in_a_signal_handler_of_the_waiting_thread() -> None:
    """A `threading.Event` deadlocks here, usually within the first hundred rounds."""
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_stop_flag_wakes_all_waiting_threads() -> None:
    flag = StopFlag()
    woken: list[bool] = []
    waiting = [threading.Thread(target=lambda: woken.append(flag.wait(30))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    flag.set()
    for thread in waiting:
        thread.join(30)
    assert woken == [True, True, True]
    assert flag.is_set()
    assert flag.wait()


def test_wait_for_a_stop_flag_times_out() -> None:
    flag = StopFlag()
    before = time.monotonic()
    assert not flag.wait(0.05)
    assert not flag.is_set()
    assert time.monotonic() - before >= 0.04


def test_failed_thread_is_reported_and_restarted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threads, "_FIRST_PAUSE_S", 0.01)
    runs: list[int] = []

    def fails_twice(limit: int) -> None:
        runs.append(1)
        if len(runs) <= limit:
            raise RuntimeError("broken")

    start_thread(fails_twice, 2, name="fragile", on_error=OnError.RESTART).join(10)
    assert len(runs) == 3
    printed = capsys.readouterr().err
    assert printed.count("RuntimeError: broken") == 2
    assert "lycosa: thread 'fragile' failed; it is restarted in" in printed


def test_failed_task_is_reported_and_not_restarted(capsys: pytest.CaptureFixture[str]) -> None:
    start_thread(lambda: [][1], name="task", on_error=OnError.REPORT).join(10)
    assert "IndexError" in (printed := capsys.readouterr().err)
    assert "thread 'task' failed\n" in printed


def test_failure_of_a_required_thread_ends_the_process() -> None:
    code = """
import time
from lycosa.processes.threads import OnError, start_thread
start_thread(lambda: {}["x"], name="ping", on_error=OnError.END_PROCESS)
time.sleep(30)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=25, check=False
    )
    assert ended.returncode == FAILED_EXIT
    assert "KeyError: 'x'" in ended.stderr


def test_only_the_threads_module_starts_threads() -> None:
    sources = Path(lycosa.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "threading.Thread(" in path.read_text()] == [
        "threads.py"
    ]
