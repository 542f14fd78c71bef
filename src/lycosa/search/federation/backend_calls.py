"""Call several backends concurrently, within the time limit of one search."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from lycosa.core.errors import WorkError
from lycosa.search.federation.backend import BackendError, LocalBackend, ResultsBackend

# a transfer ends by itself when its time is over; then it takes a moment until that is known here
_SLACK_S = 0.25
_Answer = TypeVar("_Answer")
_Backend = TypeVar("_Backend", bound=ResultsBackend)

Call = Callable[[_Backend, float], _Answer]
"""A request to a backend, given the seconds that are left."""


class BackendCalls:
    """The calls of one search, and the errors of failed backends by name."""

    def __init__(self, pool: ThreadPoolExecutor, timeout_s: float) -> None:
        self._pool = pool
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self.failed: dict[str, str] = {}

    def left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def begin(
        self, backends: Mapping[int, _Backend], call: Call[_Backend, _Answer]
    ) -> Callable[[], tuple[dict[int, _Answer], dict[int, WorkError]]]:
        """Start calls to remote backends. The returned function calls the local ones, waits, and
        returns results and errors by number.
        """
        waiting: dict[int, Future[_Answer]] = {
            number: self._pool.submit(self._timed, backend, call)
            for number, backend in backends.items()
            if not isinstance(backend, LocalBackend)
        }

        def finish() -> tuple[dict[int, _Answer], dict[int, WorkError]]:
            answers: dict[int, _Answer] = {}
            errors: dict[int, WorkError] = {}
            for number, backend in backends.items():
                if number not in waiting:
                    try:
                        answers[number] = call(backend, self.left_s())
                    except WorkError as error:
                        errors[number] = error
            for number, future in waiting.items():
                try:
                    answers[number] = future.result(timeout=self.left_s() + _SLACK_S)
                except FutureTimeout:
                    errors[number] = BackendError(
                        f"{backends[number].name or 'this index'} did not "
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

    def fail(self, backend: ResultsBackend, error: WorkError) -> None:
        """Exclude a backend from the rest of this search."""
        self.failed[backend.name] = str(error)

    def _timed(self, backend: _Backend, call: Call[_Backend, _Answer]) -> _Answer:
        return call(backend, self.left_s())
