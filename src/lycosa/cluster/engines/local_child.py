"""The child process of a local engine: creates an object, executes calls."""

from __future__ import annotations

import contextlib
import hmac
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from types import FrameType
from typing import Any

from lycosa.cluster.engines.local_remote import KEY_BYTES, LocalRemote
from lycosa.cluster.engines.object_host import CallResult, ObjectHost
from lycosa.core.errors import LycosaError, WorkError
from lycosa.processes.jobs import OneThread
from lycosa.processes.platform import end_with_parent
from lycosa.processes.terminal import escape_output
from lycosa.processes.threads import OnError, StopFlag, start_thread

_CLOSE_S = 8.0
"""Time limit for closing an object after SIGTERM or the parent's death."""
_BACKLOG = 128


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

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
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
