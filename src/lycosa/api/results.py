"""What the methods of the Python API return: search results, and streams of pages."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import asdict
from html import escape
from typing import Any, Generic, TypeVar

from lycosa.commands.search_models import SearchAnswer, SearchHit
from lycosa.processes.stopping import Stoppable
from lycosa.processes.threads import OnError, background_thread

_Item = TypeVar("_Item")
_MAX_WAITING = 1_000
"""Items that wait for the reader of a stream. Then the crawl waits, which bounds its memory."""


class Result(SearchHit):
    """A search result whose page can be read."""

    def __init__(self, hit: SearchHit, root: str) -> None:
        super().__init__(**vars(hit))
        self._root = root

    @property
    def text(self) -> str:
        """The stored text of the page; "" if a peer has it.

        Raises:
            WorkspaceError: the workspace is damaged.
        """
        return self._stored("text")

    @property
    def main_text(self) -> str:
        """The stored text without navigation and other repeated parts; "" if a peer has it.

        Raises:
            WorkspaceError: the workspace is damaged.
        """
        return self._stored("main_text")

    def _stored(self, column: str) -> str:
        if "://" in self.source:
            return ""
        from lycosa.commands.inspection.pages import page_text

        return page_text(self.source or self._root, self.url, self.collection, column)

    def _repr_html_(self) -> str:
        snippet = "".join(
            f"<b>{escape(part.text)}</b>" if part.match else escape(part.text)
            for part in self.fragments
        )
        scheme = self.url.partition(":")[0]
        href = escape(self.url) if scheme in ("http", "https") else ""
        return (
            f'<p><a href="{href}" rel="noopener noreferrer">{escape(self.title or self.url)}</a> '
            f"<small>{escape(self.host)} {escape(self.language)} {self.score:.2f}</small><br>"
            f"{snippet}</p>"
        )


class Results(SearchAnswer):
    """Search results: a sequence of `Result`, best first."""

    def __init__(self, answer: SearchAnswer, root: str) -> None:
        hits = [Result(hit, root) for hit in answer.hits]
        super().__init__(**{**vars(answer), "hits": hits})
        self._results = hits

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, number: int) -> Result:
        return self._results[number]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def asdict(self) -> dict[str, Any]:
        """Return the results as plain data, as `lycosa search --json` prints them."""
        return asdict(self)

    def _repr_html_(self) -> str:
        head = f"<p>{self.total:,} results for <i>{escape(self.query)}</i></p>"
        return head + "".join(hit._repr_html_() for hit in self._results)


class PageStream(Generic[_Item]):
    """Items of a crawl as they come: an iterator and an asynchronous iterator.

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
