"""One or several processes that serve the pages of a workspace, also while a daemon crawls it. They
are restarted when they die.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from lycosa.core.errors import LycosaError, UsageError, WorkError
from lycosa.core.units import format_duration
from lycosa.crawl.session.workspace_config import read_config
from lycosa.processes.children import Child, Report, ReportKind
from lycosa.processes.threads import OnError, start_thread
from lycosa.search.federation.federated_search import open_federated_search
from lycosa.serve.server import ServerOptions, listen, run_server
from lycosa.serve.web.access import new_key

_PAUSE_S, _MAX_PAUSE_S = 2.0, 300.0
_POLL_S = 0.1
_START_S = 60.0


def serve_workspace(report: Report, served: ServerOptions) -> None:
    """Serve until SIGTERM. The first report is WORKING with the address."""
    try:
        config = read_config(served.root, served.overrides)
        with contextlib.ExitStack() as stack:
            others = config.search.peers or config.search.workspaces
            source = (
                stack.enter_context(
                    contextlib.closing(
                        open_federated_search([served.root], [], config, own_name="")
                    )
                )
                if others
                else None
            )
            run_server(served, config.serve, source, lambda line: report(ReportKind.WORKING, line))
    except LycosaError as error:
        report(ReportKind.USAGE if error.exit_code == 2 else ReportKind.FAILED, str(error))
        raise SystemExit(error.exit_code) from None


class ServerProcesses:
    """Use as a context manager: after `start`, the pages are served, and processes that die are
    restarted, until its end.

    With several `processes` the kernel distributes the connections among them; a session opened at
    one is valid at all.
    """

    def __init__(
        self, served: ServerOptions, report: Callable[[str], None], processes: int = 1
    ) -> None:
        self._served = replace(served, key=new_key(), shared=processes > 1)
        self._report = report
        self._processes = processes
        self._started = threading.Event()
        self._ending = threading.Event()
        self._error: LycosaError | None = None
        self._reservation: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> ServerProcesses:
        return self

    def start(self) -> None:
        """Start serving, and return when the pages are served.

        Raises:
            WorkError, UsageError: the port is in use, or the address is not one of this machine.
        """
        with listen(self._served.host, self._served.port):
            pass  # fails at once if another program uses the port
        if self._served.shared:
            self._reservation = _reserve_port(self._served.host, self._served.port)
            self._served = replace(self._served, port=int(self._reservation.getsockname()[1]))
        for number in range(self._processes):
            self._threads.append(
                start_thread(
                    self._supervise, number == 0, name=f"pages-{number}", on_error=OnError.RESTART
                )
            )
        if not self._started.wait(_START_S):
            raise WorkError(f"the web server did not accept connections within {_START_S:g} s")
        if self._error is not None:
            raise self._error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        if self._reservation is not None:
            self._reservation.close()

    def _supervise(self, first: bool) -> None:
        """Start the processes, in one thread: the kernel ends a child with the thread that started
        it. The `first` one reports the address.
        """
        pause_s = _PAUSE_S
        while not self._ending.is_set():
            child = Child("pages", serve_workspace, self._served)
            announced = False
            while child.alive and not self._ending.is_set():
                child.listen()
                if child.has_reported(ReportKind.WORKING) and not announced:
                    announced, pause_s = True, _PAUSE_S
                    if first:
                        self._report(
                            next(
                                report.text
                                for report in child.reports
                                if report.kind is ReportKind.WORKING
                            )
                        )
                        self._started.set()
                child.wait(_POLL_S)
            if self._ending.is_set():
                child.terminate()
                if not child.wait(10):
                    child.kill()
                child.end()
                return
            reason = child.end()
            if first and not self._started.is_set():
                kind = UsageError if child.has_reported(ReportKind.USAGE) else WorkError
                self._error = kind(reason or "the web server ended before it accepted connections")
                self._started.set()
                return
            self._report(
                f"the web server process ended: {reason}; restarting it in "
                f"{format_duration(pause_s * 1000)}"
            )
            self._ending.wait(pause_s)
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)


def _reserve_port(host: str, port: int) -> socket.socket:
    """Return a socket that reserves the port, so that all processes use the same one if 0 was
    given; it never listens.
    """
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    reservation = socket.socket(family, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reservation.bind(address)
    return reservation
