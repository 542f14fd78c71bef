"""What the hostile server's endpoints are made of: raw bytes on a socket, hanging, dripping,
resetting.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class Hang(Exception):
    """The client has gone, or the server stops: the endpoint's work is over."""


@dataclass
class Wire:
    """One request on one connection, as an endpoint sees it. `origin` is `http://address:port`."""

    socket: socket.socket
    path: str  # with its query
    origin: str
    stopping: threading.Event
    origins: dict[str, str] = field(default_factory=dict)  # of the server's other hosts, by name

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            raise Hang from None

    def drip(self, pieces: list[bytes], pause_s: float) -> None:
        """Send a piece, rest, send the next."""
        for piece in pieces:
            self.send(piece)
            self.pause(pause_s)

    def pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Hang

    def hang(self) -> None:
        """Say nothing more until the client closes."""
        self.socket.settimeout(0.05)
        while not self.stopping.is_set():
            try:
                if not self.socket.recv(4096):
                    raise Hang
            except TimeoutError:
                continue
            except OSError:
                raise Hang from None
        raise Hang

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        raise Hang


Behaviour = Callable[[Wire], None]


@dataclass(frozen=True)
class Expected:
    """The counted outcome: of the exchange (`error`, `status`, `truncated`), then of decoding its
    body.

    `error` and `truncated` as in `Exchange`; `decoding`: error of `decode_body`; `cut`: its payload
    is not all of it; `payload`: the bytes that it begins with.
    """

    status: int = 200
    error: str = ""
    truncated: str = ""
    decoding: str = ""
    cut: bool = False
    payload: bytes | None = None


@dataclass(frozen=True)
class Endpoint:
    """One way to misbehave. It lies at `/name` of the hostile host."""

    name: str
    description: str
    behave: Behaviour
    expected: Expected


def page(title: str, body: str = "") -> bytes:
    """A small HTML page."""
    return f"<!doctype html><html lang=en><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>".encode()


def answer(
    body: bytes,
    *fields: bytes,
    status: bytes = b"200 OK",
    content_type: bytes = b"text/html; charset=utf-8",
) -> bytes:
    """A whole, correct answer."""
    lines = [
        b"HTTP/1.1 " + status,
        b"Content-Type: " + content_type,
        b"Content-Length: %d" % len(body),
        b"Connection: close",
        *fields,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def head(*lines: bytes) -> bytes:
    """Lines as a head: CRLF between them and an empty line."""
    return b"\r\n".join(lines) + b"\r\n\r\n"


def raw(data: bytes) -> Behaviour:
    """Send these bytes, then close."""

    def behave(wire: Wire) -> None:
        wire.send(data)

    return behave


def then_hang(data: bytes) -> Behaviour:
    """Send these bytes, then say nothing more."""

    def behave(wire: Wire) -> None:
        if data:
            wire.send(data)
        wire.hang()

    return behave


def then_reset(data: bytes) -> Behaviour:
    """Send these bytes, let them arrive, then reset the connection."""

    def behave(wire: Wire) -> None:
        if data:
            wire.send(data)
            time.sleep(0.1)
        wire.reset()

    return behave


def endless(start: bytes, piece: bytes, pause_s: float = 0.0) -> Behaviour:
    """Send `start`, then `piece` again and again until the client has had enough."""

    def behave(wire: Wire) -> None:
        wire.send(start)
        while not wire.stopping.is_set():
            wire.send(piece)
            if pause_s:
                wire.pause(pause_s)

    return behave


def redirect(location: bytes, status: bytes = b"302 Found") -> Behaviour:
    """Point elsewhere."""
    return raw(answer(b"moved", b"Location: " + location, status=status))
