"""Child processes for documents, so that a hostile file damages no more.

Each process is controlled by a thread, which sends one document and waits for the reply. A child
that takes too long, dies, or replies with anything other than a page is replaced; its document
becomes a page without text and with a fault.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import NamedTuple

from lycosa.config.settings import Config
from lycosa.core.records import Exchange, Page
from lycosa.crawl.documents.wire import (
    CLOCK_SHARE,
    MAX_REPLY,
    READY,
    BadReply,
    DocumentLimits,
    decode_reply,
)
from lycosa.crawl.processing.page_reader import ItemExtractor, ParsedExchange, Reader
from lycosa.fetch.robots_txt import product_token
from lycosa.http.decode import decode_body, parse_head
from lycosa.page.documents.kinds import kind_of, may_be_document
from lycosa.page.documents.sink import FAULT_BROKEN, FAULT_MEMORY, FAULT_TIMEOUT
from lycosa.page.html.markdown import MarkdownMode

# then a new process: libraries leak memory, and state of earlier files is discarded
_DOCUMENTS_PER_CHILD = 500
_MAX_STARTS = 3  # a document fails after so many children that died before they were ready
_IDLE_S = 60.0  # a child takes about 100 MB
# bytes of waiting documents in memory; others are loaded from the archive when they are parsed
_MAX_HELD_BYTES = 64 * 2**20
_START_S = 120.0  # to start a child, on a machine with other work
_PEEK_BYTES = 2_048  # of an encoded body: enough to decode the first bytes
_PEEK_DECODED = 1_024
_FAULT_OF_SIGNAL: dict[int, str] = {
    int(signal.SIGXCPU): FAULT_TIMEOUT,
    int(signal.SIGALRM): FAULT_TIMEOUT,
    int(signal.SIGABRT): FAULT_MEMORY,
}
"""The cause of a child's death by its signal. Libraries in C++ and Rust abort when there is no
memory left.
"""

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS")


def document_limits(config: Config) -> DocumentLimits:
    """Return the configured limits."""
    crawl, fetch = config.crawl, config.fetch
    return DocumentLimits(
        crawl.documents,
        crawl.document_timeout,
        crawl.document_memory,
        fetch.max_decoded,
        product_token(fetch.user_agent),
    )


class PendingDocument(NamedTuple):
    """A document to be parsed.

    `load` returns its body, so that it need not be in memory; None: it is in memory. `markdown`:
    the content of `Page.markdown`; None: no Markdown.
    """

    exchange: Exchange
    load: Callable[[], bytes] | None = None
    markdown: MarkdownMode | None = None


class _Child:
    """One process. Its methods raise OSError or EOFError if it has died."""

    def __init__(self, limits: DocumentLimits) -> None:
        from multiprocessing import Pipe

        self._pipe, theirs = Pipe()
        self._seconds = CLOCK_SHARE * limits.timeout_ms / 1000 + 2
        self._limits = limits
        self._parsed = 0
        self._timer: threading.Timer | None = None
        self.timed_out = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lycosa.crawl.documents.child", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={
                **os.environ,
                **dict.fromkeys(_THREADS, "1"),
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()

    def wait_until_ready(self) -> None:
        self._pipe.send(self._limits)
        if not self._pipe.poll(_START_S) or self._pipe.recv_bytes(len(READY)) != READY:
            raise EOFError

    def send(self, exchange: Exchange, markdown: MarkdownMode | None) -> None:
        """Send a document: only the parts of the exchange that parsing needs."""
        self._timer = threading.Timer(self._seconds, self._time_out)
        self._timer.start()
        document = Exchange(
            exchange.url,
            "page",
            0,
            0,
            response_head=exchange.response_head,
            body=exchange.body,
            status=200,
            truncated=exchange.truncated,
        )
        self._pipe.send((document, markdown))

    def receive(self) -> ParsedExchange:
        """Wait for the page. Raises also BadReply."""
        reply = self._pipe.recv_bytes(MAX_REPLY)
        self._cancel_timer()
        self._parsed += 1
        return ParsedExchange(*decode_reply(reply))

    @property
    def needs_restart(self) -> bool:
        return self._parsed >= _DOCUMENTS_PER_CHILD

    def _time_out(self) -> None:
        self.timed_out = True
        self.process.kill()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def kill(self) -> int:
        """Kill the process, and return the number of the signal that ended it."""
        self.process.kill()
        return max(-self.process.wait(), 0)

    def close(self) -> str:
        """Kill the process, and return the fault of the document that ended it."""
        died_of = self.kill()
        self._cancel_timer()
        self._pipe.close()
        return FAULT_TIMEOUT if self.timed_out else _FAULT_OF_SIGNAL.get(died_of, FAULT_BROKEN)


class DocumentPool:
    """Parses documents in child processes, started for the first document.

    Not thread-safe. Only the limits are pickled: each process has its own children. `markdown`: for
    all documents of `begin`, see `PendingDocument`. `before_read`: called by `read`.
    """

    def __init__(
        self,
        limits: DocumentLimits,
        markdown: MarkdownMode | None = None,
        before_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits
        self._markdown = markdown
        self._before_read = before_read
        self._threads: ThreadPoolExecutor | None = None
        self._pending: dict[Future[ParsedExchange], PendingDocument] = {}
        self._ended: SimpleQueue[Future[ParsedExchange]] = SimpleQueue()
        self._children: list[_Child] = []
        self._idle: list[_Child] = []
        self._stopping = False
        self._busy_at = 0.0
        # results of the last `wait`, by `id` of the exchange
        self._latest: dict[int, tuple[Exchange, ParsedExchange]] = {}

    def __reduce__(self) -> tuple[type[DocumentPool], tuple[DocumentLimits]]:
        return DocumentPool, (self.limits,)

    @property
    def pending(self) -> int:
        """Number of documents that were begun and not yet returned by `wait`."""
        return len(self._pending)

    def wants(self, exchange: Exchange) -> bool:
        """Return whether a response is a document, by its bytes. Hot path: every page."""
        body = exchange.body
        if not self.limits.processes or not body:
            return False
        headers = parse_head(exchange.response_head)
        if headers.get("content-encoding") or headers.get("transfer-encoding"):
            start = decode_body(replace(exchange, body=body[:_PEEK_BYTES]), _PEEK_DECODED)
            if not may_be_document(start.payload):
                return False  # nearly all pages: decompressing twice would cost more
            body = decode_body(exchange, self.limits.max_decoded).payload
        return kind_of(body) is not None

    def begin(self, exchange: Exchange, load: Callable[[], bytes] | None = None) -> None:
        """Start to parse a document; `wait` returns it.

        If many documents wait, the body is dropped until it is parsed; `load` must return it then.
        """
        held = sum(len(document.exchange.body) for document in self._pending.values())
        if load is not None and held + len(exchange.body) > _MAX_HELD_BYTES:
            exchange.set_body(b"")
        self._submit(PendingDocument(exchange, load, self._markdown))

    def wait(self, timeout_ms: int) -> list[tuple[Exchange, ParsedExchange]]:
        """Return parsed documents; wait for the first one at most `timeout_ms`."""
        ended = []
        timeout_s = timeout_ms / 1000
        with suppress(Empty):
            while self._pending:
                future = self._ended.get(timeout=timeout_s)
                document = self._pending.pop(future, None)
                if document is not None:
                    ended.append((document.exchange, future.result()))
                    timeout_s = 0
        self._latest = {id(exchange): (exchange, parsed) for exchange, parsed in ended}
        return ended

    def read(self, exchange: Exchange, markdown: MarkdownMode | None = None) -> ParsedExchange:
        """Return a document's page, from the last `wait` or parsed now.

        There is no page if the limits allow no process.
        """
        if not self.limits.processes:
            return ParsedExchange(None)
        if id(exchange) in self._latest:
            return self._latest[id(exchange)][1]
        self._before_read()
        future = self._submit(PendingDocument(exchange, markdown=markdown))
        try:
            return future.result()
        finally:
            del self._pending[future]

    def rest(self) -> None:
        """End the children if all have been idle for a while."""
        if self._children and not self._pending and time.monotonic() - self._busy_at > _IDLE_S:
            self.close()

    def stop(self) -> list[PendingDocument]:
        """Cancel and return the documents that `wait` has not returned."""
        abandoned = list(self._pending.values())
        self._pending.clear()
        self._latest = {}
        if self._threads is not None:
            self._stopping = True
            for child in list(self._children):
                child.kill()
            self._threads.shutdown(wait=True, cancel_futures=True)
            self._threads, self._stopping = None, False
        for child in list(self._children):
            self._end(child)
        return abandoned

    def close(self) -> None:
        """End the children. The pool can be used again afterwards."""
        self.stop()

    def _submit(self, document: PendingDocument) -> Future[ParsedExchange]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max(self.limits.processes, 1), "documents")
        self._busy_at = time.monotonic()
        future = self._threads.submit(self._parse, document)
        self._pending[future] = document
        future.add_done_callback(self._ended.put)
        return future

    # -- in a thread
    # ------------------------------------------------------------

    def _parse(self, document: PendingDocument) -> ParsedExchange:
        exchange, fault = document.exchange, FAULT_BROKEN
        for _ in range(_MAX_STARTS):
            if self._stopping:
                break
            child = self._idle.pop() if self._idle else self._start()
            if child is None:
                continue
            if document.load is not None and not exchange.body:
                exchange.set_body(document.load())
            try:
                child.send(exchange, document.markdown)
            except OSError:  # it died while it was idle
                self._end(child)
                continue
            try:
                parsed = child.receive()
            except BadReply:
                self._end(child)
                break
            except (OSError, EOFError):
                fault = self._end(child)
                break
            if child.needs_restart:
                self._end(child)
            else:
                self._idle.append(child)
            return parsed
        return ParsedExchange(Page(size=len(exchange.body), faults=[fault]))

    def _start(self) -> _Child | None:
        """Start a child. Returns None if it died."""
        child = _Child(self.limits)
        self._children.append(child)
        if self._stopping:  # `stop` may not have seen it
            child.kill()
        try:
            child.wait_until_ready()
        except (OSError, EOFError):
            self._end(child)
            return None
        return child

    def _end(self, child: _Child) -> str:
        self._children.remove(child)
        with suppress(ValueError):
            self._idle.remove(child)
        return child.close()


@contextmanager
def document_reader(
    limits: DocumentLimits, extractor: ItemExtractor | None = None
) -> Iterator[Reader]:
    """Yield a reader of responses that parses documents in child processes, which end with it."""
    with closing(DocumentPool(limits)) as documents:
        yield Reader(limits.max_decoded, limits.product_token, documents, extractor)
