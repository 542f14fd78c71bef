"""The synthetic web over sockets: HTTP/1.1 with keep-alive on loopback addresses and one port.

Use it with `with WebServer(web) as server:` and `fetch.connect_to=server.connect_to`. The latter
maps the hosts of the web to the server, except those that do not resolve or refuse connections.
Requests are logged after the response.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TextIO

from lycosa.core.clock import Clock, SystemClock
from tests.servers.nginx import free_port
from tests.servers.synthetic.answer import Answer, Fault, body_bytes, head_bytes
from tests.servers.synthetic.hosts import Access
from tests.servers.synthetic.request_log import LogEntry, line_of
from tests.servers.synthetic.web import Web

NETWORK = "127.0.16."
_REFUSING_ADDRESS = "127.0.15.254"  # without a listening socket
_UNRESOLVABLE_NAME = "nowhere.onion"  # libcurl never resolves it (RFC 7686)
_BACKLOG = 1_024
_FLUSH_S = 0.1
_PIECE_MS = 50
_MAX_PIECES = 40
_MAX_HEAD = 65_536
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class WebServer:
    """A server in a separate thread, from `start` to `stop`; also a context manager."""

    def __init__(
        self,
        web: Web,
        *,
        network: str = NETWORK,
        addresses: int = 1,
        port: int = 0,
        pace: float = 1.0,
        clock: Clock | None = None,
        log_file: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Args:
            network: the prefix of the addresses, such as `127.0.16.`.
            addresses: number of addresses. A host has the address number (host number modulo
                addresses) + 1.
            port: 0 selects a free one.
            pace: factor of latencies and transfer times; with 0, responses have no delay.
            clock: the time of the web. The log always has the system time.
            log_file: the file to which requests are appended. Without it, `requests` returns them.
            tls: serves TLS only.
        """
        self.web = web
        self.pace = pace
        self.clock = clock or SystemClock()
        self.addresses = [f"{network}{number}" for number in range(1, addresses + 1)]
        self.port = port
        self.served = 0
        self.connections: set[_Connection] = set()
        self.ids = count(1)
        self._tls = tls
        self._log_file = log_file
        self._file: TextIO | None = None
        self._log: list[LogEntry] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._servers: list[asyncio.Server] = []

    @property
    def connect_to(self) -> tuple[str, ...]:
        """Entries for `fetch.connect_to`.

        The last entry applies to all hosts that are reachable at the first address.
        """
        hosts = self.web.layout.hosts
        unreachable = {
            Access.UNRESOLVED: _UNRESOLVABLE_NAME,
            Access.REFUSED: _REFUSING_ADDRESS,
        }
        entries = []
        for number in range(self.web.plan.hosts):
            address = self.addresses[number % len(self.addresses)]
            target = unreachable.get(hosts.access(number), address)
            if target != self.addresses[0]:
                entries.append(f"{hosts.get(number).name}::{target}:{self.port}")
        return (*entries, f"::{self.addresses[0]}:{self.port}")

    def requests(self) -> list[LogEntry]:
        """Return the logged requests in the order of the responses; none with a log file."""
        return self._log.copy()

    def start(self) -> None:
        self.port = self.port or free_port(self.addresses)
        self._file = self._log_file.open("a", encoding="utf-8") if self._log_file else None
        self._loop = asyncio.new_event_loop()
        listeners = [_listen(address, self.port) for address in self.addresses]
        self._loop.run_until_complete(self._open(listeners))
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="synthetic web", daemon=True
        )
        self._thread.start()

    async def _open(self, listeners: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(lambda: _Connection(self, loop), sock=listener, ssl=self._tls)
            for listener in listeners
        ]
        if self._file is not None:
            loop.call_later(_FLUSH_S, self._flush, loop)

    def stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        if self._file is not None:
            self._file.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()
        while self.connections:
            await asyncio.sleep(0)

    def __enter__(self) -> WebServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def record(self, entry: LogEntry) -> None:
        """Log one request; called by connections."""
        self.served += 1
        if self._file is None:
            self._log.append(entry)
        else:
            self._file.write(line_of(entry))

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._file is not None
        self._file.flush()
        loop.call_later(_FLUSH_S, self._flush, loop)


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(_BACKLOG)
    return listener


class _Connection(asyncio.Protocol):
    """One connection, which serves one request after another. Hot path."""

    def __init__(self, server: WebServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._id = next(server.ids)
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self.busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._host = self._path = ""
        self._arrived = self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.busy:
            self._finished(_now_ms(), left=True)
        self._transport = None
        self._server.connections.discard(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.busy:
            self._next_request()

    def _next_request(self) -> None:
        """Process the next request if its head is complete."""
        assert self._transport is not None
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                self.abort()
            return
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        self._buffer = self._buffer[end + 4 :]
        self._arrived = _now_ms()
        self.busy = True
        self._status = 0
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self._host = headers.get("host", "").partition(":")[0]
        self._path = lines[0].split(" ")[1]
        answer = self._server.web.answer(
            f"http://{self._host}{self._path}", headers, self._server.clock.now_ms()
        )
        delay = answer.latency_ms * self._server.pace
        if delay >= 1:
            self._timer = self._loop.call_later(delay / 1000, self._respond, answer)
        else:
            self._respond(answer)

    def _respond(self, answer: Answer) -> None:
        self._timer = None
        if self._transport is None:
            return
        fault = answer.fault
        if fault is Fault.HANG:
            return
        if not answer.status:
            if fault is Fault.RESET:
                self._transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE
                )
            self._finished(_now_ms())
            self._transport.abort()
            return
        self._status = answer.status
        head, body = head_bytes(answer), body_bytes(answer)
        transfer_ms = answer.transfer_ms * self._server.pace
        if transfer_ms < _PIECE_MS or not body:
            now = _now_ms()
            self._transport.write(head + body)
            self._sent(answer, now)
            return
        self._transport.write(head)
        pieces = min(_MAX_PIECES, max(2, round(transfer_ms) // _PIECE_MS))
        size, pause_s = -(-len(body) // pieces), transfer_ms / pieces / 1000
        self._timer = self._loop.call_later(pause_s, self._drip, answer, body, size, pause_s)

    def _drip(self, answer: Answer, body: bytes, size: int, pause_s: float) -> None:
        """Write the body piece by piece."""
        self._timer = None
        if self._transport is None:
            return
        now = _now_ms()
        self._transport.write(body[:size])
        if len(body) > size:
            self._timer = self._loop.call_later(
                pause_s, self._drip, answer, body[size:], size, pause_s
            )
        else:
            self._sent(answer, now)

    def _sent(self, answer: Answer, at_ms: int) -> None:
        """Handle the end of the response, after its last byte was written."""
        assert self._transport is not None
        if answer.fault is Fault.STALL:
            return
        self._finished(at_ms, answer)
        if answer.fault is Fault.CUT:
            self._transport.close()
        elif self._buffer:
            self._next_request()

    def _finished(self, at_ms: int, answer: Answer | None = None, *, left: bool = False) -> None:
        self.busy = False
        retry_after = (
            answer.retry_after_ms(self._server.clock.now_ms()) if answer is not None else 0
        )
        self._server.record(
            LogEntry(
                self._host,
                self._path,
                self._arrived,
                at_ms,
                self._status,
                self._id,
                retry_after,
                left,
            )
        )
