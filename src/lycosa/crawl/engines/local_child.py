"""The child process of an engine on this machine: makes its object, and answers for it until it is killed."""

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
from typing import Any

from lycosa.core.errors import WorkError
from lycosa.core.stopping import StopFlag
from lycosa.crawl.engines import wire
from lycosa.crawl.engines.kept import Kept, Outcome
from lycosa.crawl.engines.parentage import OneThread, die_with_parent

_CLOSE_S = 8.0
"""How long an object may take to close when its process is asked to end (SIGTERM, or the death of its parent)."""


def live(
    _threads: OneThread,
    parent: int,
    name: str,
    address: str,
    key: bytes,
    complaint: str,
    make: Callable[..., object],
    arguments: tuple[Any, ...],
) -> None:
    """Make the object and serve it at `address`. If it cannot be made, say why in the file `complaint` and end with code 1.

    SIGTERM closes the object and ends the process; so does the death of the parent. Ctrl-C and SIGHUP are the parent's affair.
    """
    ending = StopFlag()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    die_with_parent(parent, name)
    where = f"process {os.getpid()} ({name})"
    try:
        kept = Kept(where, make, arguments)
    except Exception as error:
        Path(complaint).write_text(f"{type(error).__name__}: {error}")
        raise
    listener = wire.listen(address)
    threading.Thread(target=_admit, args=(listener, key, kept, where), name="calls", daemon=True).start()
    ending.wait()
    threading.Thread(target=_end_late, name="end", daemon=True).start()
    kept.close()
    sys.stderr.flush()
    os._exit(0)  # calls may still be under way in other threads: nobody waits for them


def _end_late() -> None:
    threading.Event().wait(_CLOSE_S)
    os._exit(1)


def _admit(listener: socket.socket, key: bytes, kept: Kept, where: str) -> None:
    while True:
        link, _ = listener.accept()
        threading.Thread(target=_serve, args=(link, key, kept, where), name="call", daemon=True).start()


def _serve(link: socket.socket, key: bytes, kept: Kept, where: str) -> None:
    """Answer the calls that come over one connection, one after the other."""
    with link:
        if not wire.admitted(link, key):
            return
        try:
            while True:
                message = wire.take(link)
                answered, outcome = _carry_out(message, kept, where)
                if answered:
                    wire.put(link, _pickled(outcome, where))
        except OSError:
            return  # whoever asked is gone, or has given up


def _carry_out(message: bytes, kept: Kept, where: str) -> tuple[bool, Outcome]:
    try:
        answered, method, arguments = pickle.loads(message)
    except Exception as error:  # noqa: BLE001 - whatever the arguments' own code raises is an answer
        return True, Outcome(raised=WorkError(f"{where} cannot read the request: {type(error).__name__}: {error}"))
    return answered, kept.call(method, arguments)


def _pickled(outcome: Outcome, where: str) -> bytes:
    try:
        return pickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001 - as above
        return pickle.dumps(Outcome(raised=WorkError(f"the response of {where} cannot be sent: {type(error).__name__}: {error}")))
