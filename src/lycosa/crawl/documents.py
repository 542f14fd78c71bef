"""Documents in a crawl: fetched like pages, read beside it.

A fetched document is handed to the pool before anybody sees its exchange, and handed on when it is read: to the worker, reading is part of
fetching. So nothing waits for it but its own host, which rests until then; a batch holds only exchanges that are understood, as the store's
protocol asks, and a commit never waits for a slow file. The price: a process that is killed meanwhile fetches that document again.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from lycosa.core.config import Config
from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange, Request, VisitKind
from lycosa.crawl.document_pool import DocumentLimits, DocumentPool
from lycosa.crawl.understand import Understood
from lycosa.fetch.decode import decode_with, parse_head
from lycosa.fetch.fetcher import Fetcher
from lycosa.fetch.robots import product_token
from lycosa.page.documents.kinds import kind_of
from lycosa.page.media import media_type


def document_limits(config: Config) -> DocumentLimits:
    """The limits that the configuration sets."""
    crawl, fetch = config.crawl, config.fetch
    return DocumentLimits(
        crawl.documents, crawl.document_timeout, crawl.document_memory, fetch.max_decoded, product_token(fetch.user_agent)
    )


_SLICE_MS = 10  # while documents are being read, how long to listen to the network alone
_TEXT_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/plain", "text/xml", "application/xml"})


class Documents:
    """Reads documents in other processes. Pickled, it is its limits: each process has children of its own."""

    def __init__(self, limits: DocumentLimits) -> None:
        self.limits = limits
        self.pool = DocumentPool(limits)
        self._read: dict[int, tuple[Exchange, Understood]] = {}  # by the exchange's id, until the next `wait` of the fetcher

    def __reduce__(self) -> tuple[type[Documents], tuple[DocumentLimits]]:
        return Documents, (self.limits,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Documents) and other.limits == self.limits

    def __hash__(self) -> int:
        return hash(self.limits)

    def wants(self, exchange: Exchange) -> bool:
        """Whether an answer is a document, by its type and its bytes."""
        body = exchange.body
        if not self.limits.processes or not body:
            return False
        headers = parse_head(exchange.response_head)
        if headers.get("content-encoding") or headers.get("transfer-encoding"):
            if media_type(headers.get("content-type") or "") in _TEXT_TYPES:
                return False  # nearly all pages: not worth unpacking twice
            body = decode_with(exchange, headers, self.limits.max_decoded).payload
        return kind_of(body) is not None

    def read(self, exchange: Exchange) -> Understood:
        """What a document says: as read while it was fetched, or read now."""
        known = self._read.get(id(exchange))
        return known[1] if known is not None else self.pool.read(exchange)

    def remember(self, read: list[tuple[Exchange, Understood]]) -> None:
        """Hold what was read until the next call."""
        self._read = {id(exchange): (exchange, understood) for exchange, understood in read}

    def close(self) -> None:
        """End the children."""
        self._read = {}
        self.pool.close()


class DocumentFetcher:
    """A fetcher whose exchanges come when they are read, if they are documents."""

    def __init__(self, fetcher: Fetcher, documents: Documents) -> None:
        self._fetcher = fetcher
        self._documents = documents
        self._stopped: list[Exchange] = []

    @property
    def active(self) -> int:
        """Exchanges that were started and not yet handed back."""
        return self._fetcher.active + self._documents.pool.pending + len(self._stopped)

    def start(self, request: Request) -> None:
        """Begin an exchange."""
        self._fetcher.start(request)

    def wait(self, timeout_ms: int) -> list[Exchange]:
        """What has finished, waiting for the first one at most `timeout_ms`."""
        pool = self._documents.pool
        finished, self._stopped = self._stopped, []
        pool.rest()
        left = timeout_ms
        while True:
            if finished:
                left = 0
            took = min(left, _SLICE_MS) if pool.pending and self._fetcher.active else left
            if self._fetcher.active:
                for exchange in self._fetcher.wait(took):
                    if _is_answer(exchange) and self._documents.wants(exchange):
                        pool.begin(exchange)
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

    def sleep(self, timeout_ms: int, wake: threading.Event) -> None:
        """Let time pass while nothing is under way, until `wake` is set at the latest."""
        self._documents.pool.rest()
        self._fetcher.sleep(timeout_ms, wake)

    def stop(self) -> None:
        """End everything under way; documents that are not read yet are fetched again another time."""
        self._fetcher.stop()
        self._stopped += [replace(exchange, error=FetchError.INTERRUPTED) for exchange in self._documents.pool.stop()]

    def close(self) -> None:
        """Give connections back and end the children."""
        self._fetcher.close()
        self._documents.close()


def _is_answer(exchange: Exchange) -> bool:
    return exchange.kind == VisitKind.PAGE and not exchange.error and (200 <= exchange.status < 301) and exchange.truncated != "unspecified"
