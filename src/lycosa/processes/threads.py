"""Background threads, and the flag that stops them.

All threads start here, so that unhandled exceptions are printed; then the thread restarts, the
process ends, or the thread is over, by its policy.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, Protocol, assert_never

FAILED_EXIT: Final = 70
"""Exit code of a process that a failed thread ended (EX_SOFTWARE of sysexits.h)."""

_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 60.0


class OnError(Enum):
    """Reaction to an unhandled exception of a thread."""

    RESTART = auto()  # after 1 s, doubled by each further failure up to 60 s
    END_PROCESS = auto()  # the process is useless without the thread; its parent restarts it
    REPORT = auto()  # the thread is over


def start_thread(
    target: Callable[..., object], *arguments: Any, name: str, on_error: OnError
) -> threading.Thread:
    """Start a daemon thread that ends when `target` returns."""
    thread = background_thread(target, *arguments, name=name, on_error=on_error)
    thread.start()
    return thread


def background_thread(
    target: Callable[..., object], *arguments: Any, name: str, on_error: OnError
) -> threading.Thread:
    """Create a thread as `start_thread` does, without starting it."""
    return threading.Thread(
        target=_supervise, args=(target, arguments, on_error), name=name, daemon=True
    )


class PollingThread:
    """Calls `poll` at intervals in a thread of its own, from `start` until `end`.

    `poll` returns a problem, or ""; `report` gets it once for as long as it lasts.
    """

    def __init__(
        self,
        poll: Callable[[], str],
        interval_s: float,
        report: Callable[[str], None],
        *,
        name: str,
    ) -> None:
        self._poll, self._interval_s, self._report = poll, interval_s, report
        self._problem = ""
        self.ending = threading.Event()
        self._thread = background_thread(self._run, name=name, on_error=OnError.RESTART)

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> None:
        """Poll now: in the thread, or after its end."""
        problem = self._poll()
        if problem and problem != self._problem:
            self._report(problem)
        self._problem = problem

    def end(self) -> None:
        """End the thread after a running call. Idempotent; allowed without `start`."""
        self.ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self.ending.wait(self._interval_s):
            self.poll()


def _supervise(
    target: Callable[..., object], arguments: tuple[Any, ...], on_error: OnError
) -> None:
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            target(*arguments)
        except Exception as error:  # noqa: BLE001 - every exception is printed and handled
            name = threading.current_thread().name
            match on_error:
                case OnError.RESTART:
                    _print(error, f"thread {name!r} failed; it is restarted in {pause_s:.0f} s")
                case OnError.END_PROCESS:
                    _print(error, f"thread {name!r} failed; process {os.getpid()} ends")
                    os._exit(FAILED_EXIT)
                case OnError.REPORT:
                    _print(error, f"thread {name!r} failed")
                    return
                case _:
                    assert_never(on_error)
        else:
            return
        threading.Event().wait(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _print(error: Exception, line: str) -> None:
    stream = sys.stderr
    if stream is not None:
        stream.write("".join(traceback.format_exception(error)) + f"lycosa: {line}\n")
        stream.flush()


class Stoppable(Protocol):
    """A worker, a cluster or a hunt."""

    def stop(self) -> None:
        """Commit the fetched pages, and end soon. May be called from a signal handler."""
        ...


class StopFlag:
    """A flag that is set once, by any thread or signal handler, and can be waited for.

    A handler must not set a `threading.Event`: it runs in the main thread, which may hold the lock
    of the event. `queue.SimpleQueue.put` is reentrant.
    """

    __slots__ = ("_set", "_wakes")

    def __init__(self) -> None:
        self._set = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self._set = True
        self._wakes.put(None)

    def stop(self) -> None:
        """Set the flag (`Stoppable.stop`)."""
        self.set()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the flag, at most this time. Return whether it is set."""
        if not self._set:
            try:
                self._wakes.get(timeout=timeout_s)
            except queue.Empty:
                return self._set
            self._wakes.put(None)  # for other waiting threads
        return True
