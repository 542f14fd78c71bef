"""A flag that signal handlers set."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from lycosa.processes.stopping import StopFlag

ROOT = Path(__file__).resolve().parents[2]

INTERRUPTED = """
import signal, time
from lycosa.processes.stopping import StopFlag

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


def test_a_handler_sets_it_while_the_same_thread_is_about_to_wait() -> None:
    """With a `threading.Event` in its place this hangs, mostly within the first hundred rounds."""
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_all_who_wait_are_woken() -> None:
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


def test_not_set_within_the_time() -> None:
    flag = StopFlag()
    before = time.monotonic()
    assert not flag.wait(0.05)
    assert not flag.is_set()
    assert time.monotonic() - before >= 0.04
