"""The child process of an engine on this machine: makes its object, and answers for it until it is
killed.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from lycosa.cluster.engines import wire
from lycosa.cluster.engines.object_host import CallResult, ObjectHost
from lycosa.core.errors import WorkError
from lycosa.processes.parentage import OneThread, die_with_parent
from lycosa.processes.stopping import StopFlag
from lycosa.processes.terminal import escape_output
from lycosa.processes.threads import OnError, start_thread

_CLOSE_S = 8.0
"""How long an object may take to close when its process is asked to end (SIGTERM, or the death of
its parent).
"""


class ChildOrder(NamedTuple):
    """How a child serves its object: process name, address, key of its callers, and the file for
    the error if the object cannot be made.
    """

    name: str
    address: str
    key: bytes
    complaint: str


def live(
    _threads: OneThread,
    parent: int,
    order: ChildOrder,
    make: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    """Make the object and serve it at the address. If it cannot be made, write why into the file
    `complaint` and exit with code 1.

    SIGTERM closes the object and ends the process; so does the death of the parent. Ctrl-C and
    SIGHUP are the parent's affair.
    """
    ending = StopFlag()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    name, address, key, complaint = order
    die_with_parent(parent, name)
    escape_output()
    where = f"process {os.getpid()} ({name})"
    try:
        host = ObjectHost(where, make, arguments)
    except Exception as error:
        Path(complaint).write_text(f"{type(error).__name__}: {error}")
        raise
    listener = wire.listen(address)
    start_thread(_admit, listener, key, host, where, name="calls", on_error=OnError.END_PROCESS)
    ending.wait()
    start_thread(_end_late, name="end", on_error=OnError.END_PROCESS)
    host.close()
    sys.stderr.flush()
    os._exit(0)  # calls may still be under way in other threads: nobody waits for them


def _end_late() -> None:
    threading.Event().wait(_CLOSE_S)
    os._exit(1)


def _admit(listener: socket.socket, key: bytes, host: ObjectHost, where: str) -> None:
    while True:
        link, _ = listener.accept()
        start_thread(_serve, link, key, host, where, name="call", on_error=OnError.REPORT)


def _serve(link: socket.socket, key: bytes, host: ObjectHost, where: str) -> None:
    """Answer the calls that come over one connection, one after the other."""
    with link:
        if not wire.admitted(link, key):
            return
        try:
            while True:
                message = wire.take(link)
                answered, outcome = _carry_out(message, host, where)
                if answered:
                    wire.put(link, _pickled(outcome, where))
        except OSError:
            return  # whoever asked is gone, or has given up


def _carry_out(message: bytes, host: ObjectHost, where: str) -> tuple[bool, CallResult]:
    try:
        answered, method, arguments = pickle.loads(message)
    except Exception as error:  # noqa: BLE001 - whatever the arguments' own code raises is an answer
        return True, CallResult(
            raised=WorkError(f"{where} cannot read the request: {type(error).__name__}: {error}")
        )
    return answered, host.call(method, arguments)


def _pickled(outcome: CallResult, where: str) -> bytes:
    try:
        return pickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return pickle.dumps(
            CallResult(
                raised=WorkError(
                    f"the response of {where} cannot be sent: {type(error).__name__}: {error}"
                )
            )
        )
