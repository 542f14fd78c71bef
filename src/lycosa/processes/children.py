"""Child processes that report to their parent and end with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from enum import StrEnum
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import ClaimLost, LycosaError, StorageError, UsageError
from lycosa.core.system_errors import is_disk_full
from lycosa.processes.jobs import OneThread, interrupts_held
from lycosa.processes.platform import end_with_parent
from lycosa.processes.terminal import escape_output


class ReportKind(StrEnum):
    """Kinds of reports of a child."""

    WORKING = "working"  # it has started working
    USAGE = "usage"  # a setting is wrong: a restart would not help
    DISK = "disk"  # the disk is full
    STORAGE = "storage"  # remote storage failed
    LOST = "lost"  # superseded by another process
    FAILED = "failed"  # anything else


@dataclass(slots=True, frozen=True)
class ChildReport:
    """A report of a child."""

    kind: ReportKind
    text: str = ""


Report = Callable[[ReportKind, str], None]

_KINDS = {
    StorageError: ReportKind.STORAGE,
    ClaimLost: ReportKind.LOST,
    UsageError: ReportKind.USAGE,
}


def failure_of(error: Exception) -> ChildReport:
    """Return the report of an error that ends a child; unexpected ones name their type."""
    text = str(error) if isinstance(error, LycosaError) else f"{type(error).__name__}: {error}"
    if is_disk_full(error):
        return ChildReport(ReportKind.DISK, text)
    kinds = (kind for cause, kind in _KINDS.items() if isinstance(error, cause))
    return ChildReport(next(kinds, ReportKind.FAILED), text)


class Child:
    """A spawned process with a pipe for its reports.

    `work` is called there with a `Report` and `arguments`; all are picklable. Children do not
    receive Ctrl-C; their parent ends them. `patient`: polars has one thread there.
    """

    def __init__(
        self, name: str, work: Callable[..., None], *arguments: Any, patient: bool = False
    ) -> None:
        context = spawn_context()
        self._pipe, theirs = context.Pipe(duplex=False)
        threads = OneThread() if patient else None
        self._process = context.Process(
            target=_live, args=(threads, work, theirs, os.getpid(), name, arguments), name=name
        )
        with interrupts_held():
            self._process.start()
        theirs.close()
        self.reports: list[ChildReport] = []
        self._stop_requested = False

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def listen(self) -> None:
        """Receive the reports since the last call."""
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll():
                self.reports.append(self._pipe.recv())

    def has_reported(self, kind: ReportKind) -> bool:
        return any(report.kind is kind for report in self.reports)

    def wait(self, seconds: float) -> bool:
        """Return whether it ended within this time."""
        self._process.join(max(seconds, 0))
        return not self.alive

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._stop_requested = True
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> str:
        """Release a child that has ended; return how it ended, "" if well."""
        self._process.join()
        self.listen()
        self._pipe.close()
        code = self._process.exitcode or 0
        self._process.close()
        last_message = next(
            (
                report.text
                for report in reversed(self.reports)
                if report.kind is not ReportKind.WORKING
            ),
            "",
        )
        if code == -signal.SIGTERM and self._stop_requested:
            return ""  # it had not installed its signal handler yet
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        return last_message or (f"exit code {code}" if code else "")


def spawn_context() -> SpawnContext:
    """Return the context that spawns processes, which inherit the blocked SIGINT of the caller."""
    # the first process would start it after the caller blocked SIGINT, and it unblocks SIGINT
    resource_tracker.ensure_running()
    return multiprocessing.get_context("spawn")


def _live(
    _threads: OneThread | None,
    work: Callable[..., None],
    pipe: Connection,
    parent: int,
    name: str,
    arguments: tuple[Any, ...],
) -> None:
    end_with_parent(parent, name)
    escape_output()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # handled by the parent

    def report(kind: ReportKind, text: str = "") -> None:
        with contextlib.suppress(OSError):  # the parent has ended
            pipe.send(ChildReport(kind, text))

    work(report, *arguments)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
