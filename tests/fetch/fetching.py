"""Helpers of the fetch tests: fetchers, requests and TCP servers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from lycosa.config.settings import FetchSettings
from lycosa.core.clock import SystemClock
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard

MAX_ACTIVE = 24
"""Concurrent requests. Few, because the threads of the hostile server share this process."""

BOUND_S = 30.0


def short_limits(**changes: object) -> FetchSettings:
    """Return settings with time limits of a few seconds.

    For servers that delay their responses.
    """
    return _limits("3s", "1500ms", "4s", "1s", changes)


def patient_limits(**changes: object) -> FetchSettings:
    """Return settings with time limits that are never reached."""
    return _limits("20s", "20s", "20s", "20s", changes)


def _limits(
    connect: str, first_byte: str, total: str, slow: str, changes: dict[str, object]
) -> FetchSettings:
    limits: dict[str, object] = {
        "connect_timeout": connect,
        "first_byte_timeout": first_byte,
        "total_timeout": total,
        "slow_time": slow,
    }
    return FetchSettings.model_validate({**limits, **changes})


def open_fetcher(allowed: Iterable[tuple[str, int]], **changes: object) -> CurlFetcher:
    return CurlFetcher(patient_limits(**changes), AddressGuard(allowed), SystemClock())


def open_impatient_fetcher(allowed: Iterable[tuple[str, int]]) -> CurlFetcher:
    return CurlFetcher(short_limits(), AddressGuard(allowed), SystemClock())


def run(
    fetcher: CurlFetcher, requests: Sequence[Request], max_active: int = MAX_ACTIVE
) -> list[Exchange]:
    """Execute requests.

    Returns the exchanges in the order in which they finished. Fails after `BOUND_S` seconds.
    """
    waiting = list(reversed(requests))
    done: list[Exchange] = []
    deadline = time.monotonic() + BOUND_S
    while waiting or fetcher.active:
        while waiting and fetcher.active < max_active:
            fetcher.start(waiting.pop())
        done += fetcher.wait(500)
        assert time.monotonic() < deadline, f"{fetcher.active} exchanges do not end"
    return done


def fetch(fetcher: CurlFetcher, url: str, *headers: tuple[str, str]) -> Exchange:
    """Fetch one URL."""
    [exchange] = run(fetcher, [Request(url, headers=headers)])
    return exchange


class CountingGuard(AddressGuard):
    """An address guard that records the hosts to which connections are opened."""

    def __init__(self, allowed: Iterable[tuple[str, int]]) -> None:
        super().__init__(allowed)
        self.connected_hosts: list[str] = []

    @property
    def connections(self) -> int:
        return len(self.connected_hosts)

    def permits(self, ip: str, port: int, host: str) -> bool:
        self.connected_hosts.append(host)
        return super().permits(ip, port, host)


@contextmanager
def tcp_server(serve: Callable[[socket.socket], None], address: str = "127.0.0.1") -> Iterator[int]:
    """Call `serve` with each connection, one after the other.

    Yields the port.
    """

    def accept(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                serve(connection)

    with socket.create_server((address, 0)) as listening:
        thread = threading.Thread(target=accept, args=(listening,))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _read_request(connection: socket.socket) -> bytes:
    """Read a request head.

    If the client closes the connection earlier, returns what arrived.
    """
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = connection.recv(65_536)
        if not piece:
            break
        data += piece
    return data


@contextmanager
def listener(answer: bytes | Callable[[bytes], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Send a response to each request, and close the connection.

    The response is fixed or a function of the request. Yields the origin of the server and the
    received requests.
    """
    received: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        data = _read_request(connection)
        if not data:
            return  # libcurl connected in order to repeat a request, which the client prevents
        received.append(data)
        connection.sendall(answer(data) if callable(answer) else answer)

    with tcp_server(serve) as port:
        yield f"http://127.0.0.1:{port}", received


def allowed(origin: str) -> list[tuple[str, int]]:
    host, port = origin.removeprefix("http://").split(":")
    return [(host, int(port))]


@contextmanager
def keep_alive_listener(answers: int, *, reset: bool) -> Iterator[tuple[str, list[bytes]]]:
    """Send `answers` responses per connection.

    After the next request, the connection is closed or reset. Yields the origin of the server and
    the received requests.
    """
    received: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"

    def serve(connection: socket.socket) -> None:
        for number in range(answers + 1):
            data = _read_request(connection)
            if not data.endswith(b"\r\n\r\n"):
                return
            received.append(data)
            if number < answers:
                connection.sendall(answer)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with tcp_server(serve) as port:
        yield f"http://127.0.0.1:{port}", received
