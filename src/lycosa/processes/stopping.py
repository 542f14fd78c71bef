"""A flag to end by that a signal handler may set."""

from __future__ import annotations

import queue


class StopFlag:
    """Is set once, from any thread or from a signal handler, and can be waited for.

    `threading.Event` must not be set by a handler: that runs in the main thread, and if this was
    just about to wait, it holds the event's lock, which the handler then waits for without end.
    `queue.SimpleQueue.put` may be called while the same thread is within `get` (Python's
    documentation of `queue`, "SimpleQueue").
    """

    __slots__ = ("_set", "_wakes")

    def __init__(self) -> None:
        self._set = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self._set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is set, after this time at the latest."""
        if not self._set:
            try:
                self._wakes.get(timeout=timeout_s)
            except queue.Empty:
                return self._set
            self._wakes.put(None)  # for others that wait
        return True
