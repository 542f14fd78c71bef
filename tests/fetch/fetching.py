"""What the tests of fetching share: fetchers with limits, requests that are run to their end, and
raw servers.
"""

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

AT_ONCE = 24
"""Few enough that a hostile server of threads in this process answers the patient ones in time."""

BOUND_S = 30.0


def short_limits(**changes: object) -> FetchSettings:
    """Settings whose every limit is reached within seconds: for servers that make a client wait."""
    return _limits("3s", "1500ms", "4s", "1s", changes)


def patient_limits(**changes: object) -> FetchSettings:
    """Settings whose limits no server of the tests reaches, even on a machine that is busy."""
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
    fetcher: CurlFetcher, requests: Sequence[Request], at_once: int = AT_ONCE
) -> list[Exchange]:
    """All exchanges, in the order in which they finished; fails if that takes longer than
    `BOUND_S`.
    """
    waiting = list(reversed(requests))
    done: list[Exchange] = []
    deadline = time.monotonic() + BOUND_S
    while waiting or fetcher.active:
        while waiting and fetcher.active < at_once:
            fetcher.start(waiting.pop())
        done += fetcher.wait(500)
        assert time.monotonic() < deadline, f"{fetcher.active} exchanges do not end"
    return done


def fetch(fetcher: CurlFetcher, url: str, *headers: tuple[str, str]) -> Exchange:
    """One exchange from its beginning to its end."""
    [exchange] = run(fetcher, [Request(url, headers=headers)])
    return exchange


class CountingGuard(AddressGuard):
    """Counts the connections that are opened."""

    def __init__(self, allowed: Iterable[tuple[str, int]]) -> None:
        super().__init__(allowed)
        self.dialled: list[str] = []

    @property
    def dials(self) -> int:
        return len(self.dialled)

    def permits(self, ip: str, port: int, host: str) -> bool:
        self.dialled.append(host)
        return super().permits(ip, port, host)


@contextmanager
def listener(answer: bytes | Callable[[bytes], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A raw server that answers every connection with the same bytes (or what a function of the
    request gives), then closes.

    Gives its origin, and the requests as they arrived.
    """
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                data = b""
                while not data.endswith(b"\r\n\r\n"):
                    piece = connection.recv(65_536)
                    if not piece:
                        break
                    data += piece
                if not data:
                    continue  # libcurl connected to ask a second time, and was told not to
                received.append(data)
                connection.sendall(answer(data) if callable(answer) else answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", received
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def allowed(origin: str) -> list[tuple[str, int]]:
    host, port = origin.removeprefix("http://").split(":")
    return [(host, int(port))]


@contextmanager
def impatient_listener(answers: int, *, reset: bool) -> Iterator[tuple[str, list[bytes]]]:
    """A server that keeps a connection alive for `answers` answers, and closes or resets it when
    the next request has come.

    Gives its origin, and the requests as they arrived.
    """
    received: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"

    def talk(connection: socket.socket) -> None:
        with connection:
            for number in range(answers + 1):
                data = b""
                while not data.endswith(b"\r\n\r\n"):
                    piece = connection.recv(65_536)
                    if not piece:
                        return
                    data += piece
                received.append(data)
                if number < answers:
                    connection.sendall(answer)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            talk(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", received
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
