"""Asking others how they fare without waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from lycosa.cluster.engine import Unreachable
from lycosa.core.clock import Clock

Said = TypeVar("Said")


class Poll(Generic[Said]):
    """One question that is asked again and again, in a thread of `threads`. `said` is the last
    answer, `trouble` why there is none now.
    """

    def __init__(
        self, ask: Callable[[], Said], every_ms: int, threads: ThreadPoolExecutor, clock: Clock
    ) -> None:
        self._ask = ask
        self._every_ms = every_ms
        self._threads = threads
        self._clock = clock
        self._next = 0
        self._asking: Future[Said] | None = None
        self.answer: Said | None = None
        self.answered_ms = clock.monotonic_ms()
        self.trouble = ""

    def look(self) -> None:
        """Take in an answer that has come, ask again if it is time to. Raises what the other side
        raised.
        """
        now = self._clock.monotonic_ms()
        asking = self._asking
        if asking is not None:
            if not asking.done():
                return
            self._asking = None
            try:
                self.answer = asking.result()
                self.answered_ms, self.trouble = now, ""
            except CancelledError:
                return  # the threads are shut down
            except Unreachable as error:
                self.trouble = str(error)
        if now >= self._next:
            self._next = now + self._every_ms
            with suppress(RuntimeError):  # the threads are shut down: nobody needs the answer
                self._asking = self._threads.submit(self._ask)
