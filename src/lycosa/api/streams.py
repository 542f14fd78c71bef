"""Streams of the Python API: pages of a crawl as they are fetched."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lycosa.processes.threads import OnError, Stoppable, background_thread

if TYPE_CHECKING:
    import asyncio

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
        self._starting = threading.RLock()

    def next_item(self) -> _Item | None:
        """Return the next item, None at the end; the first call starts the crawl."""
        with self._starting:
            if self._thread.ident is None and not self.closed:
                self._thread.start()
        item = None if self.closed else self.items.get()
        if item is None:
            self.closed = True
            self._wake_readers()
            self._raise_error()
        return item

    def close(self) -> None:
        """Stop the crawl, and wait until its pages are committed."""
        with self._starting:
            self.closed = True
        if self._worker is not None:
            self._worker.stop()
        # garbage may be collected in the thread of the crawl
        if self._thread.ident not in (None, threading.get_ident()):
            self._thread.join()
        self._wake_readers()
        self._raise_error()

    def _wake_readers(self) -> None:
        """Let threads that wait for an item see the end."""
        with suppress(queue.Full):
            self.items.put_nowait(None)

    def _raise_error(self) -> None:
        """Raise the error of the crawl, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

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
    pages are committed. Errors of the crawl are raised by the iteration, or by `close`. Several
    threads or tasks may share the items.
    """

    def __init__(
        self,
        run: Callable[[Callable[[_Item], None], Callable[[Stoppable], None]], Any],
    ) -> None:
        self._crawl = _Crawl(run)
        self._reads: list[asyncio.Future[_Item | None]] = []
        weakref.finalize(self, self._crawl.close)

    @property
    def report(self) -> Any:
        """The report of the crawl, after the last item."""
        return self._crawl.report

    def __iter__(self) -> PageStream[_Item]:
        return self

    def __next__(self) -> _Item:
        item = self._crawl.next_item()
        if item is None:
            raise StopIteration
        return item

    def __aiter__(self) -> PageStream[_Item]:
        return self

    async def __anext__(self) -> _Item:
        import asyncio  # loading it takes a tenth of a search

        reads = self._reads = [each for each in self._reads if not each.cancelled()]
        read = (
            reads.pop()
            if reads
            else asyncio.ensure_future(asyncio.to_thread(self._crawl.next_item))
        )
        try:
            item = await asyncio.shield(read)
        except asyncio.CancelledError:
            self._reads.append(read)  # the next call continues it, so that no item is lost
            raise
        if item is None:
            raise StopAsyncIteration
        return item

    def __enter__(self) -> PageStream[_Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> PageStream[_Item]:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Stop the crawl, and wait until its pages are committed."""
        self._crawl.close()
