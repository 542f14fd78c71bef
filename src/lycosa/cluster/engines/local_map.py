"""A function over items in child processes: each process answers for one item at a time, and a new
one takes the place of a dead one.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Protocol

from lycosa.cluster.engine import Item, Remote, Result, Unreachable
from lycosa.core.errors import WorkError

_AHEAD = 2
"""Items begun for each process beyond the one whose result is waited for: results are given in
order, and memory stays bounded.
"""


class StartFunction(Protocol):
    """`Engine.start`."""

    def __call__(self, name: str, make: Callable[..., object], *arguments: Any) -> Remote: ...


class Mapper:
    """What lives in each process: calls the function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def call(self, item: Any) -> Any:
        return self._function(item)


class _Hands:
    """One process for each thread that asks, started when it is first needed."""

    def __init__(self, start: StartFunction, function: Callable[..., Any], attempts: int) -> None:
        self._start = start
        self._function = function
        self._attempts = attempts
        self._remotes: dict[int, Remote] = {}  # by thread
        self._all: list[Remote] = []
        self._lock = threading.Lock()
        self._ended = False

    def call(self, item: Any) -> Any:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        thread = threading.get_ident()
        for _ in range(self._attempts):
            remote = self._remotes.get(thread)
            if remote is None:
                remote = self._remotes[thread] = self._begin(name)
            try:
                return remote.ask("call", item, timeout_s=math.inf)
            except Unreachable as error:
                del self._remotes[thread]
                why = str(error)
                if self._ended:
                    break
        raise WorkError(
            f"{name} of {item!r:.200} failed {self._attempts} times because its process died: {why}"
        )

    def end(self) -> None:
        with self._lock:
            self._ended = True
            remotes, self._all = self._all, []
        for remote in remotes:
            remote.kill()

    def _begin(self, name: str) -> Remote:
        remote = self._start(f"map-{name}", Mapper, self._function)
        with self._lock:
            if not self._ended:
                self._all.append(remote)
                return remote
        remote.kill()
        return remote


def mapped(
    start: StartFunction,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    attempts: int,
    processes: int,
) -> Iterator[Result]:
    """See `Engine.map`. The processes end with the iterator."""
    waiting = iter(items)
    pending: deque[Future[Result]] = deque()
    hands = _Hands(start, function, attempts)
    with ThreadPoolExecutor(processes, thread_name_prefix="map") as threads:
        try:
            while True:
                pending.extend(
                    threads.submit(hands.call, item)
                    for item in islice(waiting, processes * _AHEAD - len(pending))
                )
                if not pending:
                    return
                while not pending[0].done():
                    done, _ = wait(
                        [each for each in pending if not each.done()], return_when=FIRST_COMPLETED
                    )
                    for each in done:
                        if (error := each.exception()) is not None:
                            raise error
                yield pending.popleft().result()
        finally:
            hands.end()
            threads.shutdown(wait=True, cancel_futures=True)
