"""Call several backends concurrently, within the time limit of one search."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from lycosa.core.errors import WorkError
from lycosa.search.federation.backend import (
    BackendError,
    LocalBackend,
    ResultsBackend,
    StepBackend,
)

# a transfer ends when its time is over; its end is reported a moment later
_SLACK_S = 0.25
_Answer = TypeVar("_Answer")
_Backend = TypeVar("_Backend", bound=ResultsBackend | StepBackend)

Call = Callable[[int, _Backend, float], _Answer]
"""A request to a backend, given its number and the remaining seconds."""


class BackendCalls:
    """The calls of one search, and the errors of failed backends by name.

    With `per_call`, the limit applies to each call instead of to all of them together.
    """

    def __init__(
        self, pool: ThreadPoolExecutor, timeout_s: float, *, per_call: bool = False
    ) -> None:
        self._pool = pool
        self._timeout_s = timeout_s
        self._deadline = None if per_call else time.monotonic() + timeout_s
        self.failed: dict[str, str] = {}

    def begin(
        self, backends: Mapping[int, _Backend], call: Call[_Backend, _Answer]
    ) -> Callable[[], tuple[dict[int, _Answer], dict[int, WorkError]]]:
        """Start calls to remote backends. The returned function calls the local ones, waits, and
        returns results and errors by number.
        """
        waiting: dict[int, Future[_Answer]] = {
            number: self._pool.submit(self._timed, number, backend, call)
            for number, backend in backends.items()
            if not isinstance(backend, LocalBackend)
        }

        def finish() -> tuple[dict[int, _Answer], dict[int, WorkError]]:
            answers: dict[int, _Answer] = {}
            errors: dict[int, WorkError] = {}
            for number in sorted(backends, key=waiting.__contains__):  # local ones first
                backend = backends[number]
                try:
                    if number in waiting:
                        answers[number] = waiting[number].result(self._wait_s())
                    else:
                        answers[number] = self._timed(number, backend, call)
                except FutureTimeout:
                    errors[number] = BackendError(
                        f"{backend.name or 'this index'} did not "
                        f"answer within {self._timeout_s:g} s"
                    )
                except WorkError as error:
                    errors[number] = error
            return answers, errors

        return finish

    def ask(
        self, backends: Mapping[int, _Backend], call: Call[_Backend, _Answer]
    ) -> tuple[dict[int, _Answer], dict[int, WorkError]]:
        """Call all backends and wait."""
        return self.begin(backends, call)()

    def fail(self, name: str, error: WorkError) -> None:
        """Exclude a backend from the rest of this search."""
        self.failed[name] = str(error)

    def _left_s(self) -> float:
        if self._deadline is None:
            return self._timeout_s
        return max(0.0, self._deadline - time.monotonic())

    def _wait_s(self) -> float | None:
        """Return how long to wait for a call; a call with its own limit may wait for a thread."""
        return None if self._deadline is None else self._left_s() + _SLACK_S

    def _timed(self, number: int, backend: _Backend, call: Call[_Backend, _Answer]) -> _Answer:
        return call(number, backend, self._left_s())
