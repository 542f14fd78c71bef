"""The engine of one machine: every object lives in a child process of its own and is asked over a
unix socket.

One thread starts all processes and waits for their ends: a child gets a signal when the *thread*
that started it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing
import os
import queue
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from lycosa.cluster.engine import Item, Node, Result
from lycosa.cluster.engines import local_child, wire
from lycosa.cluster.engines.local_map import mapped
from lycosa.cluster.engines.local_remote import NODE, LocalRemote
from lycosa.core.errors import UsageError, WorkError
from lycosa.processes.parentage import OneThread
from lycosa.processes.threads import OnError, start_thread

_RESTART_PAUSE_S = 0.1
_GRAVES = 1_000


@dataclass(slots=True)
class _Place:
    """One object: what makes it, its process now, and how often it may still be made anew."""

    remote: LocalRemote
    ident: str
    make: Callable[..., object]
    arguments: tuple[Any, ...]
    restarts: int
    process: SpawnProcess | None = None
    start_at: float = math.inf  # by time.monotonic

    def run(self, process: SpawnProcess) -> None:
        """A process was started."""
        self.process, self.start_at = process, math.inf

    def end(self) -> int:
        """The process has ended. Return its exit code."""
        assert self.process is not None
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        self.process = None
        return code

    def restart_at(self, at: float) -> None:
        """Start another process at that time."""
        self.restarts -= 1
        self.start_at = at


class LocalEngine:
    """See `lycosa.cluster.engine.Engine`. `processes`: how many carry out a `map` side by side; 0:
    one a CPU.
    """

    name = "local"
    dashboard = ""

    def __init__(self, processes: int = 0) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._folder = tempfile.mkdtemp(prefix="lycosa-")  # mode 0700
        self._key = secrets.token_bytes(wire.KEY_BYTES)
        self._context = multiprocessing.get_context("spawn")
        self._orders: queue.SimpleQueue[tuple[_Place, Future[None]] | None] = queue.SimpleQueue()
        self._bell, self._listens = socket.socketpair()
        self._places: list[_Place] = []
        self._graves: deque[Path] = deque()
        self._number = 0
        self._lock = threading.Lock()
        self._closed = False
        self._keeper = start_thread(self._keep, name="engine", on_error=OnError.RESTART)
        atexit.register(self.close)  # before multiprocessing waits for children that nobody ends

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
        """See `Engine`. The process is there when this returns, the object perhaps not yet.

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
            ident = str(self._number)
        remote = LocalRemote(name, self._folder, ident, self._key)
        started: Future[None] = Future()
        self._order((_Place(remote, ident, make, arguments, restarts), started))
        started.result()
        return remote

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], *, attempts: int = 3
    ) -> Iterator[Result]:
        return mapped(self.start, function, items, attempts, self._processes)

    def close(self) -> None:
        """Kill everything that was started. May be called twice."""
        with self._lock:
            already, self._closed = self._closed, True
        if not already:
            self._order(None)
        self._keeper.join()
        if not already:
            atexit.unregister(self.close)
            self._bell.close()
            self._listens.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _order(self, order: tuple[_Place, Future[None]] | None) -> None:
        self._orders.put(order)
        self._bell.send(b"!")

    # -- the keeper's thread
    # ------------------------------------------------------------

    def _keep(self) -> None:
        # children inherit it: Ctrl-C is their parent's affair
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while self._look():
                pass
        finally:
            self._end()

    def _look(self) -> bool:
        """Wait for an order or an end, and do what it asks for. False: the engine closes."""
        now = time.monotonic()
        next_start = min((place.start_at for place in self._places), default=math.inf)
        running = {
            place.process.sentinel: place for place in self._places if place.process is not None
        }
        ready = wait(
            [self._listens, *running], None if next_start == math.inf else max(next_start - now, 0)
        )
        for each in ready:
            if each is self._listens:
                self._listens.recv(1)
                order = self._orders.get()
                if order is None:
                    return False
                self._begin(*order)
            else:
                self._ended(running[each])  # type: ignore[index]
        for place in [each for each in self._places if time.monotonic() >= each.start_at]:
            if self._note(place, "gone").exists():  # somebody has killed it meanwhile
                self._forget(place)
            else:
                self._spawn(place)
        return True

    def _begin(self, place: _Place, started: Future[None]) -> None:
        if place.restarts:
            self._note(place, "restarts").touch()
        try:
            self._spawn(place)
        except Exception as error:  # noqa: BLE001 - what cannot be pickled raises anything; whoever asked for it gets it
            started.set_exception(error)
            return
        self._places.append(place)
        started.set_result(None)

    def _spawn(self, place: _Place) -> None:
        name = place.remote.name
        address, complaint = (str(self._note(place, kind)) for kind in ("sock", "complaint"))
        process = self._context.Process(
            target=local_child.live,
            args=(
                OneThread(),
                os.getpid(),
                local_child.ChildOrder(name, address, self._key, complaint),
                place.make,
                place.arguments,
            ),
            name=name,
        )
        process.start()
        place.run(process)
        self._note(place, "pid").write_text(str(process.pid))

    def _ended(self, place: _Place) -> None:
        code = place.end()
        if place.restarts > 0 and not self._note(place, "gone").exists():
            place.restart_at(time.monotonic() + _RESTART_PAUSE_S)
            return
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        with contextlib.suppress(FileNotFoundError):
            how = self._note(place, "complaint").read_text()
        place.remote.bury(how)
        self._forget(place)

    def _forget(self, place: _Place) -> None:
        """Of one that is gone for good its grave stays for who asks for it, and of those that went
        long ago nothing: a daemon starts a hundred thousand a month.
        """
        self._places.remove(place)
        for kind in ("pid", "sock", "complaint", "restarts"):
            self._note(place, kind).unlink(missing_ok=True)
        self._graves.append(self._note(place, "gone"))
        while len(self._graves) > _GRAVES:
            self._graves.popleft().unlink(missing_ok=True)

    def _end(self) -> None:
        """Kill all that is left, and forget what nobody will start any more."""
        for place in self._places:
            place.remote.bury("its engine is closed")
            if place.process is not None:
                place.process.kill()
        for place in self._places:
            if place.process is not None:
                place.process.join()
                place.process.close()
            place.remote.disconnect()
        while not self._orders.empty():
            if (order := self._orders.get()) is not None:
                order[1].set_exception(WorkError("the engine is closed"))

    def _note(self, place: _Place, kind: str) -> Path:
        return Path(self._folder, f"{place.ident}.{kind}")
