"""The steps between network and worker: parsing of documents, rendering.

A document is archived when it arrives and passed to the pool of parsers; a page to be rendered is
passed to the browser. The worker receives the exchange when that is done. Meanwhile its host is
fetched from, and commits proceed without it. After a kill the next worker reads it from the
archive. If very many documents wait, nothing new is fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from lycosa.core.records import Exchange, Request, VisitKind
from lycosa.crawl.documents.pool import DocumentPool, PendingDocument
from lycosa.processes.threads import StopFlag

if TYPE_CHECKING:
    from lycosa.crawl.rendering.rendering import Renders

MAX_UNPARSED = 1_000
"""Number of waiting documents at which no request is started.

They are on the disk twice, at most 10 GB at the default limits.
"""

_SLICE_MS = 10  # longest wait for the network while documents are parsed or pages rendered


class Fetcher(Protocol):
    """Starts requests and returns exchanges, including failed ones.

    Implementations: libcurl over the network, and a simulated web with its own clock.
    """

    @property
    def active(self) -> int:
        """The number of exchanges that were started and not yet returned."""
        ...

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        ...

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """Return finished exchanges, waiting at most `timeout_ms` for the first one."""
        ...

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Sleep while nothing is in progress, at most until `wake` is set."""
        ...

    def stop(self) -> None:
        """End all exchanges; the next `wait` returns them, marked `interrupted`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class FetchPipeline:
    """A fetcher that returns documents when they are parsed, and pages when they are rendered.

    `archive_document` archives a document, and returns a function that returns its body; None: it
    need not be parsed, and is returned like any other response.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        documents: DocumentPool,
        archive_document: Callable[[Exchange], Callable[[], bytes] | None],
        renders: Renders | None,
    ) -> None:
        self._fetcher = fetcher
        self._documents = documents
        self._archive_document = archive_document
        self._renders = renders
        self._left: list[PendingDocument] = []
        self._requisites: list[Exchange] = []  # passed to the browser when they are archived

    @property
    def active(self) -> int:
        """Number of exchanges that were started and not yet returned."""
        rendering = self._renders.pending if self._renders is not None else 0
        return self._fetcher.active + self.unparsed + rendering

    @property
    def fetching(self) -> int:
        """Number of active exchanges on the network."""
        return self._fetcher.active

    @property
    def unparsed(self) -> int:
        """Number of active exchanges that are received documents, not yet parsed."""
        return self._documents.pending + len(self._left)

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        self._fetcher.start(request)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """Return finished exchanges; wait for the first one at most `timeout_ms`.

        The wait ends earlier if a page in the browser has a request.
        """
        for document in self._left:
            self._documents.begin(document.exchange, document.load)
        self._left = []
        self._documents.rest()
        self._forward_requisites()
        finished: list[Exchange] = []
        left_ms = timeout_ms
        while True:
            left_ms -= self._wait_once(left_ms, finished)
            if self._rendered(finished) or finished or left_ms <= 0 or not self.active:
                return finished

    def _wait_once(self, left_ms: int, finished: list[Exchange]) -> int:
        """Wait for network, parsers or browser; return the longest wait (ms)."""
        rendering = self._renders is not None and self._renders.pending > 0
        on_network = self._fetcher.active > 0
        working = rendering or (on_network and self._documents.pending > 0)
        slice_ms = min(left_ms, _SLICE_MS) if working else left_ms
        if on_network:
            finished += [
                exchange for exchange in self._fetcher.wait(slice_ms) if not self._divert(exchange)
            ]
        elif rendering and not self._documents.pending:
            time.sleep(slice_ms / 1000)
        parsed = self._documents.wait(0 if on_network else slice_ms)
        finished += [exchange for exchange, _ in parsed]
        return slice_ms

    def _divert(self, exchange: Exchange) -> bool:
        """Pass a document to the parsers, or a page to the browser.

        Returns False if the response is neither.
        """
        if _is_whole_page(exchange) and self._documents.wants(exchange):
            load = self._archive_document(exchange)
            if load is not None:
                self._documents.begin(exchange, load)
                return True
        if self._renders is None:
            return False
        if exchange.kind == VisitKind.REQUISITE:
            self._requisites.append(exchange)
        return self._renders.takes(exchange)

    def _rendered(self, finished: list[Exchange]) -> bool:
        """Add the rendered pages. Return whether the browser has new requests."""
        if self._renders is None:
            return False
        before = len(self._renders.prerequisites)
        finished += self._renders.pump()
        return len(self._renders.prerequisites) != before

    def _forward_requisites(self) -> None:
        if self._renders is not None:
            for exchange in self._requisites:
                self._renders.record_response(exchange)
        self._requisites.clear()

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Sleep while nothing is active, at most until `wake` is set."""
        if self._renders is not None:
            self._renders.pump()
        self._documents.rest()
        self._fetcher.sleep(timeout_ms, wake)

    def stop(self) -> None:
        """End exchanges on the network; parsing and rendering continue."""
        self._fetcher.stop()

    def leave(self) -> None:
        """Stop parsing and rendering.

        Received documents and pages are archived, for the next `wait` or the next worker.
        """
        self._left += self._documents.stop()
        if self._renders is not None:
            self._renders.leave()

    def close(self) -> None:
        """Close connections, end the children and the browser."""
        if self._renders is not None:
            self._renders.close()
        self._fetcher.close()
        self._documents.close()


def _is_whole_page(exchange: Exchange) -> bool:
    return (
        exchange.kind == VisitKind.PAGE
        and 200 <= exchange.status < 301
        and exchange.truncated != "unspecified"
    )
