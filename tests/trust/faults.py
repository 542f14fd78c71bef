"""A disk that fails: one call of `os` is refused, done and then said to have failed, or does half
of what it should.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tests.trust.disk import CALLS, replaced


class Fault(Enum):
    """What becomes of the call."""

    FULL = "the disk is full"
    BROKEN = "the disk fails"
    UNANSWERED = "the disk did it and says that it failed"
    SHORT = "half of a write is written"


_ERRNO = {Fault.FULL: errno.ENOSPC, Fault.BROKEN: errno.EIO, Fault.UNANSWERED: errno.EIO}


class Faults:
    """Fails the call of number `at`. Counts calls of `write` alone where these are to be short."""

    def __init__(self, fault: Fault, at: int) -> None:
        self.calls = 0
        self.happened = ""
        self.promised: dict[str, int] = {}
        self.on_call: Callable[[], None] | None = None
        self._fault, self._at = fault, at
        self._real = {name: getattr(os, name) for name in CALLS}
        self._noting = threading.local()

    @contextmanager
    def recording(self) -> Iterator[Faults]:
        """While this runs, calls of `os` in all threads are counted, and one of them fails."""
        with replaced(self._real, self._wrapped):
            yield self

    def mark(self, what: str, number: int) -> None:
        self.promised[what] = number

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if getattr(self._noting, "now", False):
                return call(*arguments, **options)
            counts = name == "write" or self._fault is not Fault.SHORT
            self.calls += counts
            if counts and self.calls == self._at:
                self.happened = f"{name}{arguments[:1]}"
                if self._fault is Fault.SHORT:
                    return call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                if self._fault is Fault.UNANSWERED:
                    call(*arguments, **options)
                raise OSError(_ERRNO[self._fault], os.strerror(_ERRNO[self._fault]))
            result = call(*arguments, **options)
            if self.on_call is not None:
                self._noting.now = True
                try:
                    self.on_call()
                finally:
                    self._noting.now = False
            return result

        return run
