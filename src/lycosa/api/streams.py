"""Streams of the Python API: pages of a crawl as they are fetched."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lycosa.processes.threads import OnError, Stoppable, background_thread

_Item = TypeVar("_Item")
_MAX_WAITING = 1_000
"""Maximum number of buffered items; then the crawl waits for the reader."""


class PageStream(Generic[_Item]):
    """Items of a crawl, as an iterator and an asynchronous iterator.

    The crawl runs in a thread. Leaving the `with` block, `close` or the end of the iteration stops
    it; fetched pages are committed. Errors of the crawl are raised by the iteration.
    """

    def __init__(
        self,
        run: Callable[[Callable[[_Item], None], Callable[[Stoppable], None]], Any],
    ) -> None:
        self._items: queue.Queue[_Item | None] = queue.Queue(_MAX_WAITING)
        self._run = run
        self._worker: Stoppable | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._thread = background_thread(self._work, name="crawl", on_error=OnError.REPORT)
        self.report: Any = None
        """The report of the crawl, after the last item."""

    def _work(self) -> None:
        try:
            self.report = self._run(self._put, self._started)
        except BaseException as error:  # noqa: BLE001  raised again by the reader
            self._error = error
        self._put(None)

    def _put(self, item: _Item | None) -> None:
        while not self._closed:
            try:
                self._items.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def _started(self, worker: Stoppable) -> None:
        self._worker = worker
        if self._closed:
            worker.stop()

    def __iter__(self) -> PageStream[_Item]:
        return self

    def __next__(self) -> _Item:
        if self._closed:
            raise StopIteration
        if self._thread.ident is None:
            self._thread.start()
        item = self._items.get()
        if item is None:
            self._closed = True
            if self._error is not None:
                raise self._error
            raise StopIteration
        return item

    def __aiter__(self) -> PageStream[_Item]:
        return self

    async def __anext__(self) -> _Item:
        import asyncio  # loading it takes a tenth of a search

        item = await asyncio.to_thread(next, self, None)
        if item is None:
            raise StopAsyncIteration
        return item

    def __enter__(self) -> PageStream[_Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the crawl, and wait until its pages are committed."""
        self._closed = True
        if self._worker is not None:
            self._worker.stop()
        if self._thread.ident is not None:
            self._thread.join()
