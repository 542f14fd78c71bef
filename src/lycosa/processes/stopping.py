"""Stopping on request: a flag that a signal handler can set, and what it stops."""

from __future__ import annotations

import queue
from typing import Protocol


class Stoppable(Protocol):
    """A worker, a cluster or a hunt."""

    def stop(self) -> None:
        """Commit what is fetched, and end soon. May be called from a signal handler."""
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
        """Set it, as a `Stoppable`."""
        self.set()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether it is set, after this time at the latest."""
        if not self._set:
            try:
                self._wakes.get(timeout=timeout_s)
            except queue.Empty:
                return self._set
            self._wakes.put(None)  # for other waiting threads
        return True
