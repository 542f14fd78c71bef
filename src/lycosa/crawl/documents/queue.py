"""Documents in a crawl: archived like pages, read beside it.

A document that has come is set aside by whoever archives it
(`lycosa.crawl.processing.response_processor`: first of all it goes into a WARC) and handed to the
pool; the worker gets its exchange when it is read. Nothing waits meanwhile: its host goes on,
commits go on without it, and what a kill leaves is read from the archive by the next worker. Where
very many wait, nothing new is fetched until some are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lycosa.config.settings import Config
from lycosa.core.records import Exchange, Request, VisitKind
from lycosa.crawl.documents.pool import DocumentLimits, DocumentPool, PendingDocument
from lycosa.crawl.processing.page_reader import ParsedExchange
from lycosa.fetch.fetcher import Fetcher
from lycosa.fetch.robots_txt import product_token
from lycosa.http.decode import decode_with, parse_head
from lycosa.page.documents.kinds import begins_as_document, kind_of
from lycosa.processes.stopping import StopFlag

MAX_UNPARSED = 1_000
"""Documents that may wait before nothing new is fetched: what is on the disk twice meanwhile, at
most 10 GB at the default limits.
"""


def document_limits(config: Config) -> DocumentLimits:
    """The limits that the configuration sets."""
    crawl, fetch = config.crawl, config.fetch
    return DocumentLimits(
        crawl.documents,
        crawl.document_timeout,
        crawl.document_memory,
        fetch.max_decoded,
        product_token(fetch.user_agent),
    )


SetAside = Callable[[Exchange], Callable[[], bytes] | None]
"""Archives a document that has come, and gives a way to its body; None: it need not be read, and is
an answer like any other.
"""

_SLICE_MS = 10  # while documents are being read, how long to listen to the network alone
_PEEK_BYTES = 2_048  # of a coded body: enough for the first bytes of what is in it
_PEEK_DECODED = 1_024


class DocumentQueue:
    """Reads documents in other processes. Pickled, it is its limits: each process has children of
    its own.
    """

    def __init__(self, limits: DocumentLimits) -> None:
        self.limits = limits
        self.pool = DocumentPool(limits)
        # by the exchange's id, until the next `wait` of the fetcher
        self._read: dict[int, tuple[Exchange, ParsedExchange]] = {}

    def __reduce__(self) -> tuple[type[DocumentQueue], tuple[DocumentLimits]]:
        return DocumentQueue, (self.limits,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocumentQueue) and other.limits == self.limits

    def __hash__(self) -> int:
        return hash(self.limits)

    def wants(self, exchange: Exchange) -> bool:
        """Whether an answer is a document, by its bytes. Hot path: asked about every page."""
        body = exchange.body
        if not self.limits.processes or not body:
            return False
        headers = parse_head(exchange.response_head)
        if headers.get("content-encoding") or headers.get("transfer-encoding"):
            start = decode_with(replace(exchange, body=body[:_PEEK_BYTES]), headers, _PEEK_DECODED)
            if not begins_as_document(start.payload):
                return False  # nearly all pages: not worth unpacking twice
            body = decode_with(exchange, headers, self.limits.max_decoded).payload
        return kind_of(body) is not None

    def read(self, exchange: Exchange) -> ParsedExchange:
        """What a document says: as read while the crawl went on, or read now. Where no process may
        read, it says nothing.
        """
        if not self.limits.processes:
            return ParsedExchange(None)
        cached = self._read.get(id(exchange))
        return cached[1] if cached is not None else self.pool.read(exchange)

    def remember(self, read: list[tuple[Exchange, ParsedExchange]]) -> None:
        """Hold what was read until the next call."""
        self._read = {id(exchange): (exchange, parsed) for exchange, parsed in read}

    def close(self) -> None:
        """End the children."""
        self._read = {}
        self.pool.close()


class DocumentFetcher:
    """A fetcher whose exchanges come when they are read, if they are documents."""

    def __init__(self, fetcher: Fetcher, documents: DocumentQueue, set_aside: SetAside) -> None:
        self._fetcher = fetcher
        self._documents = documents
        self._set_aside = set_aside
        self._left: list[PendingDocument] = []

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        return self._fetcher.active + self.unparsed

    @property
    def fetching(self) -> int:
        """Those of them that the network is busy with."""
        return self._fetcher.active

    @property
    def unparsed(self) -> int:
        """Those of them that have come, documents that are not read yet."""
        return self._documents.pool.pending + len(self._left)

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        self._fetcher.start(request)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`."""
        pool = self._documents.pool
        finished: list[Exchange] = []
        left_over, self._left = self._left, []
        for waiting in left_over:
            pool.begin(*waiting)
        pool.rest()
        left = timeout_ms
        while True:
            if finished:
                left = 0
            took = min(left, _SLICE_MS) if pool.pending and self._fetcher.active else left
            if self._fetcher.active:
                for exchange in self._fetcher.wait(took):
                    load = (
                        self._set_aside(exchange)
                        if _is_answer(exchange) and self._documents.wants(exchange)
                        else None
                    )
                    if load is not None:
                        pool.begin(exchange, load)
                    else:
                        finished.append(exchange)
                read = pool.wait(0) if pool.pending else []
            else:
                read = pool.wait(took) if pool.pending else []
            left -= took
            finished += [exchange for exchange, _ in read]
            if finished or left <= 0 or not (pool.pending or self._fetcher.active):
                self._documents.remember(read)
                return finished

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        """Let time pass while nothing is under way, until `wake` is set at the latest."""
        self._documents.pool.rest()
        self._fetcher.sleep(timeout_ms, wake)

    def stop(self) -> None:
        """End what is under way on the network; documents that have come go on being read."""
        self._fetcher.stop()

    def leave(self) -> None:
        """Read no more: what has come stays in the archive, for the next `wait` or, if there is
        none, for the next worker.
        """
        self._left += self._documents.pool.stop()

    def close(self) -> None:
        """Give connections back and end the children."""
        self._fetcher.close()
        self._documents.close()


def _is_answer(exchange: Exchange) -> bool:
    return (
        exchange.kind == VisitKind.PAGE
        and 200 <= exchange.status < 301
        and exchange.truncated != "unspecified"
    )
