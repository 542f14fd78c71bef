"""Streams of the Python API: pages of a crawl as they are fetched."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lycosa.processes.threads import OnError, Stoppable, background_thread

_Item = TypeVar("_Item")
_MAX_WAITING = 1_000
"""Maximum number of buffered items; then the crawl waits for the reader."""


class _Crawl(Generic[_Item]):
    """The crawl of a stream, in a thread. It has no reference to the stream, which ends it."""

    def __init__(
        self,
        run: Callable[[Callable[[_Item], None], Callable[[Stoppable], None]], Any],
    ) -> None:
        self.items: queue.Queue[_Item | None] = queue.Queue(_MAX_WAITING)
        self.closed = False
        self.error: BaseException | None = None
        self.report: Any = None
        self._run = run
        self._worker: Stoppable | None = None
        self._thread = background_thread(self._work, name="crawl", on_error=OnError.REPORT)

    def next_item(self) -> _Item:
        """Return the next item; the first call starts the crawl."""
        if self.closed:
            raise StopIteration
        if self._thread.ident is None:
            self._thread.start()
        item = self.items.get()
        if item is None:
            self.closed = True
            if self.error is not None:
                raise self.error
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop the crawl, and wait until its pages are committed."""
        self.closed = True
        if self._worker is not None:
            self._worker.stop()
        # garbage may be collected in the thread of the crawl
        if self._thread.ident not in (None, threading.get_ident()):
            self._thread.join()

    def _work(self) -> None:
        try:
            self.report = self._run(self._put, self._started)
        except BaseException as error:  # noqa: BLE001  raised again by the reader
            self.error = error
        self._put(None)

    def _put(self, item: _Item | None) -> None:
        while not self.closed:
            try:
                self.items.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def _started(self, worker: Stoppable) -> None:
        self._worker = worker
        if self.closed:
            worker.stop()


class PageStream(Generic[_Item]):
    """Items of a crawl, as an iterator and an asynchronous iterator.

    The crawl runs in a thread. `close`, leaving the `with` block, the end of the iteration or of
    the stream's lifetime (a `break` in `for page in workspace.crawl_iter(…)`) stops it; fetched
    pages are committed. Errors of the crawl are raised by the iteration.
    """

    def __init__(
        self,
        run: Callable[[Callable[[_Item], None], Callable[[Stoppable], None]], Any],
    ) -> None:
        self._crawl = _Crawl(run)
        weakref.finalize(self, self._crawl.close)

    @property
    def report(self) -> Any:
        """The report of the crawl, after the last item."""
        return self._crawl.report

    def __iter__(self) -> PageStream[_Item]:
        return self

    def __next__(self) -> _Item:
        return self._crawl.next_item()

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
        self._crawl.close()
