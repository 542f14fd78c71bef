"""Supervised background threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lycosa
from lycosa.processes import threads
from lycosa.processes.threads import FAILED_EXIT, OnError, start_thread


def test_a_failed_thread_is_printed_and_restarted(
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


def test_a_task_that_fails_is_printed_and_over(capsys: pytest.CaptureFixture[str]) -> None:
    start_thread(lambda: [][1], name="task", on_error=OnError.REPORT).join(10)
    assert "IndexError" in (printed := capsys.readouterr().err)
    assert "thread 'task' failed\n" in printed


def test_a_thread_that_the_process_needs_ends_it() -> None:
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


def test_no_other_module_starts_threads() -> None:
    sources = Path(lycosa.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "threading.Thread(" in path.read_text()] == [
        "threads.py"
    ]
