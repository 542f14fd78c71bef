"""Processes that read documents, so that a hostile file costs that file only.

A job is two memory files whose descriptors are handed to a child, so nobody waits for the other to
take or send a large answer. A child that takes too long, dies, or says what is no page is replaced;
its document becomes a page without text and with a fault.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lycosa.core.records import Exchange, Page
from lycosa.crawl.documents.wire import (
    CLOCK_SHARE,
    DONE,
    MAX_REPLY,
    READY,
    BadReply,
    ParseRequest,
    decode_reply,
    read_all,
    write_all,
)
from lycosa.crawl.processing.page_reader import ParsedExchange
from lycosa.page.documents.sink import FAULT_BROKEN, FAULT_MEMORY, FAULT_TIMEOUT

# then a new one: libraries leak, and what an earlier file did to the process ends with it
_DOCUMENTS_A_CHILD = 500
_STARTS = 3  # of children that die before they are ready, after which a document is given up
_IDLE_S = 60.0  # a child holds some 100 MB
# bytes of waiting documents that are held in memory; others are loaded again when it is their turn
_BODIES_HELD = 64 * 2**20
_START_S = 120.0  # to start a child, on a machine with other work
_FAULT_OF: dict[int, str] = {
    int(signal.SIGXCPU): FAULT_TIMEOUT,
    int(signal.SIGALRM): FAULT_TIMEOUT,
    int(signal.SIGABRT): FAULT_MEMORY,
}
"""What a child that died of a signal died of. Libraries in C++ and Rust abort when there is no
memory left.
"""

_LIMITED = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(slots=True, frozen=True)
class DocumentLimits:
    """How documents are read. `processes`: at once; 0: none are read. `timeout_ms`: of CPU time;
    `CLOCK_SHARE` times that by the clock.
    """

    processes: int = 2
    timeout_ms: int = 20_000
    memory: int = 2**30  # bytes of address space
    max_decoded: int = 40 * 2**20
    product_token: str = "lycosa"


class PendingDocument(NamedTuple):
    """A document to be read. `load`: gives its body again, so that it need not stay in memory;
    None: it stays.
    """

    exchange: Exchange
    load: Callable[[], bytes] | None = None


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    channel: socket.socket
    ready: bool = False
    waiting: PendingDocument | None = None
    reply_file: int = -1
    deadline: float = 0.0  # monotonic seconds
    served: int = 0

    def become_ready(self) -> None:
        """The process has started."""
        self.ready = True

    def begin(self, document: PendingDocument, reply_file: int, deadline: float) -> None:
        """The child reads a document."""
        self.waiting, self.reply_file, self.deadline = document, reply_file, deadline

    def end(self) -> None:
        """The child reads nothing any more."""
        if self.reply_file >= 0:
            os.close(self.reply_file)
        self.waiting, self.reply_file = None, -1

    def count(self) -> None:
        """A document was read."""
        self.served += 1


@dataclass(slots=True)
class DocumentPool:
    """Reads documents beside this process. Children start with the first document. Not
    thread-safe.
    """

    limits: DocumentLimits
    _waiting: deque[PendingDocument] = field(default_factory=deque)
    _held: int = 0  # bytes of bodies in `_waiting`
    _children: list[_Child] = field(default_factory=list)
    _ended: list[tuple[Exchange, ParsedExchange]] = field(default_factory=list)
    _failed_starts: int = 0
    _busy_at: float = 0.0
    _selector: selectors.BaseSelector | None = None

    @property
    def pending(self) -> int:
        """Documents begun and not handed back."""
        return (
            len(self._waiting)
            + len(self._ended)
            + sum(child.waiting is not None for child in self._children)
        )

    def begin(self, exchange: Exchange, load: Callable[[], bytes] | None = None) -> None:
        """Have a document read; what becomes of it comes from `wait`, body and all. Where many wait
        and `load` gives its body again, it is left without one until it is its turn.
        """
        if load is not None and self._held + len(exchange.body) > _BODIES_HELD:
            exchange.drop_body()
        self._waiting.append(PendingDocument(exchange, load))
        self._held += len(exchange.body)
        self._busy_at = time.monotonic()
        self._serve()

    def wait(self, timeout_ms: int) -> list[tuple[Exchange, ParsedExchange]]:
        """What has been read, waiting for the first one at most `timeout_ms`."""
        until = time.monotonic() + timeout_ms / 1000
        while True:
            now = time.monotonic()
            busy = [
                child.deadline
                for child in self._children
                if child.waiting is not None or not child.ready
            ]
            if self._selector is not None and not self._ended:
                for key, _ in self._selector.select(max(0.0, min([until, *busy]) - now)):
                    self._receive(key.data)
            now = time.monotonic()
            for child in [
                each
                for each in self._children
                if each.deadline < now and (each.waiting is not None or not each.ready)
            ]:
                self._lose(child, FAULT_TIMEOUT)
            self._serve()
            if self._ended or now >= until or not self.pending:
                ended, self._ended = self._ended, []
                return ended

    def read(self, exchange: Exchange) -> ParsedExchange:
        """Read one document and wait for it; others that are under way go on."""
        self.begin(exchange)
        others: list[tuple[Exchange, ParsedExchange]] = []
        while True:
            for ended, parsed in self.wait(1_000):
                if ended is exchange:
                    self._ended = others + self._ended
                    return parsed
                others.append((ended, parsed))

    def rest(self) -> None:
        """End children that have had nothing to do for a while."""
        if self._children and not self.pending and time.monotonic() - self._busy_at > _IDLE_S:
            self.close()

    def stop(self) -> list[PendingDocument]:
        """Give up what is not yet read, and hand it back."""
        busy = [child for child in self._children if child.waiting is not None]
        abandoned = [
            *(child.waiting for child in busy if child.waiting is not None),
            *self._waiting,
        ]
        self._waiting.clear()
        self._held = 0
        for child in busy:
            self._end(child)
        return abandoned

    def close(self) -> None:
        """End the children. The pool can be used again afterwards."""
        self._waiting.clear()
        self._held = 0
        self._ended.clear()
        for child in list(self._children):
            self._end(child)
        if self._selector is not None:
            self._selector.close()
            self._selector = None

    def _serve(self) -> None:
        """Give waiting documents to children that are free; start children while there are too
        few.
        """
        for child in self._children:
            if not self._waiting:
                return
            if child.ready and child.waiting is None:
                self._give(child, self._take())
        starting = sum(not child.ready for child in self._children)
        while len(self._children) < max(self.limits.processes, 1) and starting < len(self._waiting):
            self._start()
            starting += 1

    def _take(self) -> PendingDocument:
        """The document whose turn it is, with its body."""
        waiting = self._waiting.popleft()
        self._held -= len(waiting.exchange.body)
        if waiting.load is not None and not waiting.exchange.body:
            waiting.exchange.restore_body(waiting.load())
        return waiting

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = self.limits
        command = [
            sys.executable,
            "-m",
            "lycosa.crawl.documents.child",
            str(theirs.fileno()),
            str(limits.memory),
            str(limits.timeout_ms / 1000),
        ]
        environment = {
            **os.environ,
            **dict.fromkeys(_LIMITED, "1"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        child = _Child(process, ours, deadline=time.monotonic() + _START_S)
        self._children.append(child)
        if self._selector is None:
            self._selector = selectors.DefaultSelector()
        self._selector.register(ours, selectors.EVENT_READ, child)

    def _give(self, child: _Child, waiting: PendingDocument) -> None:
        limits, exchange = self.limits, waiting.exchange
        order = ParseRequest(
            exchange.url,
            exchange.response_head.decode("latin-1"),
            exchange.truncated,
            limits.max_decoded,
            limits.product_token,
        ).encode()
        body_file = os.memfd_create("document")
        deadline = time.monotonic() + CLOCK_SHARE * limits.timeout_ms / 1000 + 2
        child.begin(waiting, os.memfd_create("page"), deadline)
        write_all(body_file, order + exchange.body)
        try:
            socket.send_fds(
                child.channel, [str(len(order)).encode()], [body_file, child.reply_file]
            )
        except OSError:  # it died while it had nothing to do
            self._end(child)
            self._waiting.appendleft(waiting)
            self._held += len(exchange.body)
        finally:
            os.close(body_file)

    def _receive(self, child: _Child) -> None:
        """A child has said something, or died."""
        try:
            message = child.channel.recv(16)
        except OSError:
            message = b""
        if message == READY:
            child.become_ready()
            self._failed_starts = 0
        elif message == DONE and child.waiting is not None:
            self._done(child)
        else:
            self._lose(child, "")

    def _done(self, child: _Child) -> None:
        assert child.waiting is not None
        try:
            size = os.fstat(child.reply_file).st_size
            page, error, truncated = decode_reply(read_all(child.reply_file, min(size, MAX_REPLY)))
        except BadReply:
            self._lose(child, FAULT_BROKEN)
            return
        self._ended.append((child.waiting.exchange, ParsedExchange(page, error, truncated)))
        child.end()
        child.count()
        if child.served >= _DOCUMENTS_A_CHILD:
            self._end(child)

    def _lose(self, child: _Child, fault: str) -> None:
        """End a child; its document is a page with a fault. `fault`: "" asks how the child died."""
        waiting = child.waiting
        died_of = self._end(child)
        if waiting is None:
            self._failed_starts += not child.ready
            if self._failed_starts < _STARTS or not self._waiting:
                return
            waiting, self._failed_starts = self._take(), 0  # else it would be tried for ever
        exchange = waiting.exchange
        self._ended.append(
            (
                exchange,
                ParsedExchange(
                    Page(
                        size=len(exchange.body),
                        faults=[fault or _FAULT_OF.get(died_of, FAULT_BROKEN)],
                    )
                ),
            )
        )

    def _end(self, child: _Child) -> int:
        """Kill a child and wait for it; gives the signal that it died of."""
        self._children.remove(child)
        if self._selector is not None:
            self._selector.unregister(child.channel)
        child.channel.close()
        child.end()
        child.process.kill()
        return max(-child.process.wait(), 0)
