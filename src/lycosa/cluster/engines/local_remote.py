"""An object in a child process of this machine, as others ask it; and the notes by which they know
how it is.

Per object there lie in the engine's folder: `ID.sock`, where it listens; `ID.pid`, its process;
`ID.gone`, why there is none any more and will be none: written by the engine, or by whoever kills
it.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

from lycosa.cluster.engine import Unreachable
from lycosa.cluster.engines import wire
from lycosa.cluster.engines.object_host import CallResult

NODE = "local"
"""The name of the one node."""

_RETRY_S = 0.02
_SEND_S = 1.0
_MAX_IDLE = 8


class LocalRemote:
    """See `lycosa.cluster.engine.Remote`. Picklable; each process has connections of its own."""

    def __init__(self, name: str, folder: str, ident: str, key: bytes) -> None:
        self._name = name
        self._folder = folder
        self._ident = ident
        self._key = key
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[LocalRemote], tuple[str, str, str, bytes]]:
        return LocalRemote, (self._name, self._folder, self._ident, self._key)

    @property
    def name(self) -> str:
        return self._name

    @property
    def node(self) -> str:
        return NODE

    @property
    def pid(self) -> int:
        """Its process now; 0 if there is none."""
        try:
            return int(self._note("pid").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """See `Remote`. It also waits for one that is being started (again)."""
        deadline = time.monotonic() + timeout_s
        message = pickle.dumps((True, method, arguments))
        try:
            link = self._connected(deadline)
        except TimeoutError:
            raise Unreachable(f"{self._name} cannot be reached within {timeout_s:g} s") from None
        try:
            wire.put(link, message, deadline)
            answer = wire.take(link, deadline)
        except TimeoutError:
            link.close()
            raise Unreachable(f"{self._name} did not respond within {timeout_s:g} s") from None
        except OSError:
            link.close()
            raise Unreachable(f"{self._name} ended before it responded{self._why()}") from None
        except BaseException:  # Ctrl-C: the answer must not be taken for that of the next call
            link.close()
            raise
        self._give_back(link)
        outcome: CallResult = pickle.loads(answer)
        return outcome.unpack()

    def send(self, method: str, *arguments: Any) -> None:
        """See `Remote`. Nothing is sent to one that cannot be reached within a second."""
        deadline = time.monotonic() + _SEND_S
        message = pickle.dumps((False, method, arguments))
        with contextlib.suppress(Unreachable, OSError):
            link = self._connected(deadline)
            try:
                wire.put(link, message, deadline)
            except OSError:
                link.close()
                raise
            self._give_back(link)

    def alive(self) -> bool:
        pid = self.pid
        if not pid or self._note("gone").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return self._note("restarts").exists()  # the engine is about to start it again
        return True

    def has_ended(self) -> bool:
        # the engine removes `pid` once it has waited for the process
        return not self.pid and self._note("gone").exists()

    def kill(self) -> None:
        pid = self.pid
        self.bury("it was killed")
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def bury(self, why: str) -> None:
        """Note that there is none any more, unless that is known."""
        with (
            contextlib.suppress(FileExistsError, FileNotFoundError),
            self._note("gone").open("x") as note,
        ):
            note.write(why)

    def __del__(self) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the idle connections of this process."""
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _note(self, kind: str) -> Path:
        return Path(self._folder, f"{self._ident}.{kind}")

    def _why(self) -> str:
        try:
            return f": {self._note('gone').read_text()}"
        except FileNotFoundError:
            return ""

    def _connected(self, deadline: float) -> socket.socket:
        """Raises Unreachable, TimeoutError."""
        while True:
            with self._lock:
                link = self._idle.pop() if self._idle else None
            if link is not None:
                if wire.is_quiet(link):
                    return link
                link.close()
                continue
            try:
                return wire.connect(str(self._note("sock")), self._key, deadline)
            except TimeoutError:
                raise
            except OSError:
                if self._note("gone").exists() or not os.path.isdir(self._folder):
                    raise Unreachable(f"{self._name} has ended{self._why()}") from None
            if deadline != math.inf and time.monotonic() + _RETRY_S >= deadline:
                raise TimeoutError
            time.sleep(_RETRY_S)

    def _give_back(self, link: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(link)
                return
        link.close()
