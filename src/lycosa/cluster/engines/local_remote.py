"""Calls to an object in a child process of this machine, over a unix socket.

The engine's folder is accessible only to this user. For each object it has `ID.sock`, its socket;
`ID.pid`, its process ID; and after its final end `ID.end`, the reason.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import socket
import struct
import time
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lycosa.cluster.engine import Unreachable
from lycosa.cluster.engines.object_host import CallResult

KEY_BYTES = 32
_RETRY_S = 0.02
_SEND_TIMEOUT_S = 5
_CONNECT_TIMEOUT_S = 1.0


class LocalRemote:
    """See `lycosa.cluster.engine.Remote`. A process has its own connections."""

    def __init__(self, name: str, path: str, key: bytes) -> None:
        """`path`: the path of the object's files, without extensions."""
        self.name = name
        self._path = path
        self._key = key
        self._idle: deque[Connection] = deque()

    def __reduce__(self) -> tuple[type[LocalRemote], tuple[str, str, bytes]]:
        return LocalRemote, (self.name, self._path, self._key)

    def file(self, kind: str) -> Path:
        """Return the path of the object's file with this extension."""
        return Path(f"{self._path}.{kind}")

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """See `Remote`. Waits also while the object is being started or restarted."""
        deadline = time.monotonic() + timeout_s
        message = pickle.dumps((True, method, arguments))
        link = self._connect(deadline, timeout_s)
        answer = None
        try:
            link.send_bytes(message)
            timeout = None if timeout_s == math.inf else max(deadline - time.monotonic(), 0)
            if link.poll(timeout):
                answer = link.recv_bytes()
        except BlockingIOError:
            pass  # a stopped process reads nothing
        except (OSError, EOFError):
            raise Unreachable(f"{self.name} ended before it responded{self._why()}") from None
        finally:
            if answer is None:  # a late response must not be read as that of the next call
                link.close()
        if answer is None:
            raise Unreachable(f"{self.name} did not respond within {timeout_s:g} s")
        self._idle.append(link)
        outcome: CallResult = pickle.loads(answer)
        return outcome.unpack()

    def send(self, method: str, *arguments: Any) -> None:
        """See `Remote`. If the object is unreachable for 1 s, nothing is sent."""
        message = pickle.dumps((False, method, arguments))
        with contextlib.suppress(Unreachable, OSError):
            link = self._connect(time.monotonic() + _CONNECT_TIMEOUT_S, _CONNECT_TIMEOUT_S)
            link.send_bytes(message)
            self._idle.append(link)

    def alive(self) -> bool:
        return self.file("pid").exists() and not self.file("end").exists()

    def has_ended(self) -> bool:
        # the engine removes `pid` after the end of the process
        return not self.file("pid").exists() and self.file("end").exists()

    def kill(self) -> None:
        self.mark_ended("it was killed")
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int(self.file("pid").read_text()), signal.SIGKILL)

    def mark_ended(self, why: str) -> None:
        """Record why the object has ended, unless a reason is already recorded."""
        with (
            contextlib.suppress(FileExistsError, FileNotFoundError),
            self.file("end").open("x") as note,
        ):
            note.write(why)

    def _why(self) -> str:
        try:
            return f": {self.file('end').read_text()}"
        except FileNotFoundError:
            return ""

    def _connect(self, deadline: float, timeout_s: float) -> Connection:
        """Return an idle connection, or a new one. Raises Unreachable."""
        with contextlib.suppress(IndexError):
            while True:
                link = self._idle.pop()
                if not link.poll(0):  # a readable idle connection: the process has ended
                    return link
                link.close()
        while True:
            with contextlib.suppress(OSError):
                return _connect(f"{self._path}.sock", self._key)
            if self.file("end").exists() or not os.path.isdir(os.path.dirname(self._path)):
                raise Unreachable(f"{self.name} has ended{self._why()}")
            if time.monotonic() + _RETRY_S >= deadline:
                raise Unreachable(f"{self.name} cannot be reached within {timeout_s:g} s")
            time.sleep(_RETRY_S)


def _connect(address: str, key: bytes) -> Connection:
    with socket.socket(socket.AF_UNIX) as link:
        timeout = struct.pack("ll", _SEND_TIMEOUT_S, 0)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        link.connect(address)
        connection = Connection(link.detach())
    connection.send_bytes(key)
    return connection
