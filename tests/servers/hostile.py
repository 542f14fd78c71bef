"""A server on loopback that violates HTTP in every known way.

`with HostileServer() as server: server.url("drop")`. It has a hostile host, whose `/` links to
every endpoint, a well-behaved host ("good"), and one host for each bad robots.txt. All have
addresses in 127.0.0.0/8 and share one free port. Every request is recorded with its time, so that
tests can check politeness and request heads.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from socketserver import ThreadingTCPServer

import pytest

from tests.servers.hostile_body import CHUNK_ENDPOINTS, CODING_ENDPOINTS, DOCUMENT_ENDPOINTS
from tests.servers.hostile_connection import CONNECTION_ENDPOINTS
from tests.servers.hostile_head import BUSY_ENDPOINTS, HEAD_ENDPOINTS, STATUS_ENDPOINTS
from tests.servers.hostile_redirect import REDIRECT_ENDPOINTS, ROBOTS_HOSTS
from tests.servers.local_http import serving
from tests.servers.nginx import free_port
from tests.servers.wire import Endpoint, Hang, Wire, answer, page

ENDPOINTS: tuple[Endpoint, ...] = (
    *CONNECTION_ENDPOINTS,
    *STATUS_ENDPOINTS,
    *HEAD_ENDPOINTS,
    *CHUNK_ENDPOINTS,
    *CODING_ENDPOINTS,
    *DOCUMENT_ENDPOINTS,
    *REDIRECT_ENDPOINTS,
    *BUSY_ENDPOINTS,
)
"""All endpoints of the hostile host."""

GOOD_PAGES = 20
_BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
_ROBOTS_BY_NAME = {host.name: host for host in ROBOTS_HOSTS}
_NETWORK = "127.0.9."
_HEAD_LIMIT = 100_000
_READ_LIMIT_S = 30.0


@dataclass(frozen=True)
class Received:
    """A received request.

    `at_ms`: milliseconds since 1970. `host`: "hostile", "good" or the name of a robots host.
    """

    at_ms: int
    host: str
    path: str
    head: bytes


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128


class HostileServer:
    """Serve while the context is open, with one thread per connection."""

    def __init__(self) -> None:
        names = ["hostile", "good", *_ROBOTS_BY_NAME]
        self.addresses = {name: f"{_NETWORK}{number}" for number, name in enumerate(names, 1)}
        self.port = free_port(list(self.addresses.values()))
        self.received: list[Received] = []
        self._connections: set[socket.socket] = set()
        self._listeners = ExitStack()
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def origin(self, host: str = "hostile") -> str:
        return f"http://{self.addresses[host]}:{self.port}"

    def url(self, name: str) -> str:
        """Return the URL of an endpoint, of `/page` of a robots host, or of the page of "good"."""
        if name in _BY_NAME:
            return f"{self.origin()}/{name}"
        if name in _ROBOTS_BY_NAME:
            return f"{self.origin(name)}/page"
        return f"{self.origin(name)}/"

    def allowed(self) -> list[tuple[str, int]]:
        """Return the (address, port) pairs of all hosts, for the address guard."""
        return [(address, self.port) for address in self.addresses.values()]

    def requests(self, host: str = "hostile") -> list[Received]:
        """Return the requests that a host has received, in order."""
        with self._lock:
            return [request for request in self.received if request.host == host]

    def __enter__(self) -> HostileServer:
        for host, address in self.addresses.items():
            listener = _Listener((address, self.port), partial(self._serve, host))  # type: ignore[arg-type]
            self._listeners.enter_context(serving(listener))
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)
        self._listeners.close()  # waits for the threads of all connections

    def _serve(self, host: str, connection: socket.socket, *_: object) -> None:
        connection.settimeout(_READ_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._connections.add(connection)
        with suppress(Hang):
            while not self._stopping.is_set() and self._respond(connection, host):
                pass
        with self._lock:
            self._connections.discard(connection)

    def _respond(self, connection: socket.socket, host: str) -> bool:
        """Read a request and respond. Return whether the connection remains open.

        Only the well-behaved host keeps connections open.
        """
        head = _read_head(connection)
        if not head:
            return False
        path = head.split(b" ", 2)[1].decode("latin-1")
        with self._lock:
            self.received.append(Received(time.time_ns() // 1_000_000, host, path, head))
        origins = {name: self.origin(name) for name in self.addresses}
        wire = Wire(connection, path, origins[host], self._stopping, origins)
        if host == "good":
            _behave_well(wire)
            return True
        if host in _ROBOTS_BY_NAME:
            if path.partition("?")[0] == "/robots.txt":
                _ROBOTS_BY_NAME[host].behave(wire)
            else:
                wire.send(
                    answer(
                        page(
                            f"A page of {host}",
                            '<a href="/page">page</a> <a href="/private">private</a>',
                        )
                    )
                )
        else:
            _misbehave(wire)
        _close_gently(connection)
        return False


def _read_head(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n") and len(data) < _HEAD_LIMIT:
        try:
            piece = connection.recv(65_536)
        except OSError:
            return b""
        if not piece:
            return b""
        data += piece
    return data


def _close_gently(connection: socket.socket) -> None:
    """Send FIN and read the rest, because closing with unread bytes would send RST."""
    try:
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(0.5)
        while connection.recv(65_536):
            pass
    except OSError:
        return


def _misbehave(wire: Wire) -> None:
    name = wire.path[1:].partition("?")[0].partition("/")[0]
    endpoint = _BY_NAME.get(name)
    if endpoint is not None:
        endpoint.behave(wire)
    elif name == "":
        links = "".join(
            f'<li><a href="/{each.name}">{each.name}</a>: {each.description}</li>'
            for each in ENDPOINTS
        )
        wire.send(answer(page("A hostile host", f"<ul>{links}</ul>")))
    elif name == "robots.txt":
        wire.send(answer(b"User-agent: *\nDisallow:\n", content_type=b"text/plain"))
    else:
        wire.send(answer(page("Not found"), status=b"404 Not Found"))


def _behave_well(wire: Wire) -> None:
    """Serve `/` and `/page/1` to `/page/20`, each with a link to the next, with keep-alive."""
    path = wire.path.partition("?")[0]
    digits = path.removeprefix("/page/")
    number = int(digits) if path.startswith("/page/") and digits.isdigit() else 0
    status, content_type = b"200 OK", b"text/html; charset=utf-8"
    if path == "/robots.txt":
        body, content_type = b"User-agent: *\nDisallow: /private\n", b"text/plain"
    elif path == "/" or 1 <= number <= GOOD_PAGES:
        following = f'<a href="/page/{number + 1}">next</a>' if number < GOOD_PAGES else "the last"
        body = page(f"Good page {number}", following)
    else:
        body, status = page("Not found"), b"404 Not Found"
    wire.send(
        b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
        % (status, content_type, len(body), body)
    )


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running
