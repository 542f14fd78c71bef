"""Periodic calls to other processes, without blocking."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from lycosa.cluster.engine import Unreachable
from lycosa.core.clock import Clock, Interval

Answer = TypeVar("Answer")


class Poll(Generic[Answer]):
    """A call that is repeated in a thread of `threads`.

    `answer`: its last result; `error`: why the last call failed, or "".
    """

    def __init__(
        self, ask: Callable[[], Answer], every_ms: int, threads: ThreadPoolExecutor, clock: Clock
    ) -> None:
        self._ask = ask
        self._interval = Interval(clock, every_ms)
        self._threads = threads
        self._clock = clock
        self._asking: Future[Answer] | None = None
        self.answer: Answer | None = None
        self.answered_ms = clock.monotonic_ms()
        self.error = ""

    def tick(self) -> None:
        """Store the result of a finished call, and start the next if it is due.

        Raises the exceptions of the call, except `Unreachable`.
        """
        now = self._clock.monotonic_ms()
        asking = self._asking
        if asking is not None:
            if not asking.done():
                return
            self._asking = None
            try:
                self.answer = asking.result()
                self.answered_ms, self.error = now, ""
            except CancelledError:
                return  # the threads are shut down
            except Unreachable as error:
                self.error = str(error)
        if self._interval.is_due():
            with suppress(RuntimeError):  # the threads are shut down
                self._asking = self._threads.submit(self._ask)
