"""The engine of one machine: objects in child processes, on unix sockets."""

from __future__ import annotations

import atexit
import contextlib
import hmac
import math
import os
import pickle
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from itertools import islice
from multiprocessing.connection import Connection, Listener, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from lycosa.cluster.engine import LOCAL, Item, Node, Result, Unreachable
from lycosa.cluster.engines.local_remote import KEY_BYTES, LocalRemote
from lycosa.cluster.engines.object_host import CallResult, ObjectHost
from lycosa.core.errors import LycosaError, UsageError, WorkError
from lycosa.processes.children import spawn_context
from lycosa.processes.jobs import OneThread
from lycosa.processes.platform import end_with_parent
from lycosa.processes.terminal import escape_output
from lycosa.processes.threads import OnError, StopFlag, start_thread

NODE = "local"
"""The name of the one node."""

_RESTART_PAUSE_S = 0.1
_MAX_END_NOTES = 1_000
"""Maximum number of stored reasons of ended objects, a file for each."""
_AHEAD = 2
"""Items of a map in progress for each process: results are returned in order, and memory stays
bounded.
"""

_CLOSE_S = 8.0
"""Time limit for closing an object after SIGTERM or the parent's death."""
_BACKLOG = 128


class LocalEngine:
    """See `lycosa.cluster.engine.Engine`.

    `processes`: number of processes for `map`; 0: one for each CPU.
    """

    name = LOCAL
    dashboard = ""

    def __init__(self, processes: int = 0) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._folder = tempfile.mkdtemp(prefix="lycosa-")  # mode 0700
        self._key = secrets.token_bytes(KEY_BYTES)
        self._context = spawn_context()
        # A child gets a signal when the thread that started it ends, so one thread starts all.
        # Children inherit the blocked SIGINT: their parent handles Ctrl-C.
        self._starter = ThreadPoolExecutor(
            1, "engine", signal.pthread_sigmask, (signal.SIG_BLOCK, {signal.SIGINT})
        )
        self._children: dict[LocalRemote, SpawnProcess] = {}
        self._supervisors: set[threading.Thread] = set()
        self._ended: deque[LocalRemote] = deque()
        self._number = 0
        self._lock = threading.Lock()
        self._closed = False
        atexit.register(self.close)  # before multiprocessing waits for its children

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def nodes(self) -> list[Node]:
        return [Node(NODE, "127.0.0.1", float(os.cpu_count() or 1))]

    def start(
        self,
        name: str,
        make: Callable[..., object],
        *arguments: Any,
        node: str = "",
        restarts: int = 0,
    ) -> LocalRemote:
        """See `Engine`. The process exists when this returns, the object perhaps not yet.

        Raises:
            UsageError: there is no such node.
            WorkError: the engine is closed.
        """
        if node not in ("", NODE):
            raise UsageError(f"there is no node {node!r}: this machine is the only node")
        with self._lock:
            if self._closed:
                raise WorkError(f"{name} cannot be started: the engine is closed")
            self._number += 1
            remote = LocalRemote(name, f"{self._folder}/{self._number}", self._key)
            work = (make, arguments)
            self._spawn(remote, work)
            supervisor = start_thread(
                *(self._supervise, remote, work, restarts), name=name, on_error=OnError.REPORT
            )
            self._supervisors.add(supervisor)
        return remote

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, attempts: int = 3
    ) -> Iterator[Result]:
        """See `Engine`. The processes end with the iterator."""
        mapping = _Mapping(self, function, attempts)
        waiting = iter(items)
        pending: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(self._processes, thread_name_prefix="map") as threads:
            try:
                while True:
                    pending.extend(
                        threads.submit(mapping.call, item)
                        for item in islice(waiting, self._processes * _AHEAD - len(pending))
                    )
                    if not pending:
                        return
                    while not pending[0].done():
                        running = [each for each in pending if not each.done()]
                        done, _ = wait_for_futures(running, return_when=FIRST_COMPLETED)
                        for each in done:
                            each.result()  # raises the error of any of them immediately
                    yield pending.popleft().result()
            finally:
                mapping.end()
                threads.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Kill everything that was started. May be called twice."""
        with self._lock:
            self._closed = True
            for remote, process in self._children.items():
                remote.mark_ended("its engine is closed")
                process.kill()
            supervisors = list(self._supervisors)
        for supervisor in supervisors:
            supervisor.join()
        self._starter.shutdown()
        atexit.unregister(self.close)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(
        self, remote: LocalRemote, work: tuple[Callable[..., object], tuple[Any, ...]]
    ) -> None:
        """Start the process of an object. Call with the lock held.

        Raises the errors of pickling `work`.
        """
        process = self._context.Process(
            target=serve_object,
            args=(OneThread(), os.getpid(), remote, self._key, *work),
            name=remote.name,
        )
        self._starter.submit(process.start).result()
        self._children[remote] = process
        remote.file("pid").write_text(str(process.pid))

    def _supervise(
        self,
        remote: LocalRemote,
        work: tuple[Callable[..., object], tuple[Any, ...]],
        restarts: int,
    ) -> None:
        """Wait for the end of a process, start it again `restarts` times, then clean up."""
        try:
            while True:
                wait([self._children[remote].sentinel])
                with self._lock:
                    process = self._children.pop(remote)
                    process.join()
                    code = process.exitcode or 0
                    process.close()
                if restarts == 0:
                    break
                restarts -= 1
                time.sleep(_RESTART_PAUSE_S)
                with self._lock:
                    if self._closed or remote.file("end").exists():
                        break
                    self._spawn(remote, work)
            try:
                why = remote.file("error").read_text()
            except FileNotFoundError:
                why = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            remote.mark_ended(why)
        finally:
            remote.mark_ended("it could not be restarted")
            self._clean_up(remote)

    def _clean_up(self, remote: LocalRemote) -> None:
        """Remove the files of an ended object; the reason stays for a while."""
        for kind in ("pid", "sock", "error"):
            remote.file(kind).unlink(missing_ok=True)
        with self._lock:
            self._supervisors.discard(threading.current_thread())
            self._ended.append(remote)
            if len(self._ended) > _MAX_END_NOTES:
                self._ended.popleft().file("end").unlink(missing_ok=True)


class _Function:
    """The object in each process of a map."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def call(self, item: Any) -> Any:
        return self._function(item)


class _Mapping:
    """The processes of one map, started as they are needed. `call` may run in several threads."""

    def __init__(self, engine: LocalEngine, function: Callable[[Any], Any], attempts: int) -> None:
        self._engine = engine
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._attempts = attempts
        self._idle: deque[LocalRemote] = deque()
        self._started: list[LocalRemote] = []
        self._ended = False

    def call(self, item: Any) -> Any:
        why = ""
        for _ in range(self._attempts):
            try:
                remote = self._idle.pop()
            except IndexError:
                remote = self._start()
            try:
                result = remote.ask("call", item, timeout_s=math.inf)
            except Unreachable as error:
                why = str(error)
                if self._ended:
                    break
            else:
                self._idle.append(remote)
                return result
        raise WorkError(
            f"{self._name} of {item!r:.200} failed {self._attempts} times because its process "
            f"died: {why}"
        )

    def end(self) -> None:
        """Kill all processes; calls in progress fail."""
        self._ended = True
        for remote in list(self._started):
            remote.kill()

    def _start(self) -> LocalRemote:
        remote = self._engine.start(f"map-{self._name}", _Function, self._function)
        self._started.append(remote)
        if self._ended:
            remote.kill()
        return remote


# -- the child process
# ------------------------------------------------------------


def serve_object(
    _threads: OneThread,
    parent: int,
    remote: LocalRemote,
    key: bytes,
    make: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    """Create an object and execute the calls of `remote`.

    If it cannot be created, the reason is written to `ID.error` and the exit code is 1. SIGTERM and
    the death of the parent close the object and end the process; SIGHUP is ignored.
    """
    ending = StopFlag()
    signal.signal(signal.SIGTERM, lambda number, frame: ending.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_with_parent(parent, remote.name)
    escape_output()
    try:
        host = ObjectHost(f"process {os.getpid()} ({remote.name})", make, arguments)
    except Exception as error:
        remote.file("error").write_text(f"{type(error).__name__}: {error}")
        if isinstance(error, LycosaError):
            raise SystemExit(1) from None  # not a bug: no traceback
        raise
    remote.file("sock").unlink(missing_ok=True)  # of an earlier process
    listener = Listener(str(remote.file("sock")), "AF_UNIX", _BACKLOG)
    start_thread(_accept, listener, key, host, name="calls", on_error=OnError.END_PROCESS)
    ending.wait()
    start_thread(_exit_late, name="end", on_error=OnError.END_PROCESS)
    host.close()
    sys.stderr.flush()
    os._exit(0)  # without waiting for calls in other threads


def _exit_late() -> None:
    threading.Event().wait(_CLOSE_S)
    os._exit(1)


def _accept(listener: Listener, key: bytes, host: ObjectHost) -> None:
    while True:
        link: Connection = listener.accept()
        start_thread(_answer, link, key, host, name="call", on_error=OnError.REPORT)


def _answer(link: Connection, key: bytes, host: ObjectHost) -> None:
    """Execute the calls of one connection in order.

    The caller must first send the key.
    """
    with link, contextlib.suppress(OSError, EOFError):  # the caller has ended or stopped waiting
        if not hmac.compare_digest(link.recv_bytes(KEY_BYTES), key):
            return
        while True:
            message = link.recv_bytes()
            has_answer = True
            try:
                has_answer, method, arguments = pickle.loads(message)
            except Exception as error:  # noqa: BLE001 - the arguments' own code may raise anything
                outcome = _failure(f"{host.where} cannot read the request", error)
            else:
                outcome = host.call(method, arguments)
            if has_answer:
                link.send_bytes(_pickled(outcome, host.where))


def _pickled(outcome: CallResult, where: str) -> bytes:
    try:
        return pickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return pickle.dumps(_failure(f"the response of {where} cannot be sent", error))


def _failure(what: str, error: Exception) -> CallResult:
    return CallResult(raised=WorkError(f"{what}: {type(error).__name__}: {error}"))
