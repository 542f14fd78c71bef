"""How many threads polars has in the processes that Lycosa starts."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from lycosa.cluster.engines.local import LocalEngine
from lycosa.processes.children import Child, News, Tell
from lycosa.processes.parentage import POLARS_THREADS


def _threads(tell: Tell) -> None:
    tell(News.WORKING, str(pl.thread_pool_size()))


def _threads_for(_: int) -> int:
    return pl.thread_pool_size()


@pytest.fixture(autouse=True)
def _two_threads_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(POLARS_THREADS, raising=False)
    if (os.cpu_count() or 1) < 2:
        pytest.skip("on one core polars has one thread anyway")


@pytest.mark.parametrize("setting", ["", "3"])
def test_a_patient_child_has_one_thread_of_polars_or_what_the_environment_says(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting:
        monkeypatch.setenv(POLARS_THREADS, setting)
    child = Child("threads", _threads, patient=True)
    assert child.wait(60)
    child.listen()
    assert child.end() == ""
    assert child.reports[0].text == (setting or "1")


def test_the_processes_of_the_local_engine_have_one() -> None:
    engine = LocalEngine(1)
    try:
        assert list(engine.map(_threads_for, [1])) == [1]
    finally:
        engine.close()


@pytest.mark.parametrize(("command", "threads"), [("crawl", "1"), ("index", None)])
def test_lycosa_crawl_has_one_and_who_asks_a_question_has_all(
    command: str, threads: str | None
) -> None:
    code = f"""
import atexit, os, sys
atexit.register(lambda: print(os.environ.get({POLARS_THREADS!r})))
from lycosa.cli import main
sys.argv = ["lycosa", {command!r}, "--help"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(threads)


def test_a_job_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(
        "import time\nfrom lycosa.processes.children import job_order\nprint(job_order('x'), "
        "flush=True)\ntime.sleep(60)"
    )
    code = """
import os, time
from lycosa.processes.children import start_job
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
        assert parent.stdout.read() == ""  # the job held it open
    assert int(first) > 0
