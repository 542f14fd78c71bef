"""Building blocks of the hostile server's endpoints: raw bytes, slow writes, hangs and resets."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class Hang(Exception):
    """The client has closed the connection, or the server stops: the endpoint must end."""


@dataclass
class Wire:
    """One request on one connection. `origin` is `http://ADDRESS:PORT` of the host."""

    socket: socket.socket
    path: str  # with its query
    origin: str
    stopping: threading.Event
    origins: dict[str, str] = field(default_factory=dict)  # host name -> origin

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            raise Hang from None

    def drip(self, pieces: list[bytes], pause_s: float) -> None:
        """Send the pieces with a pause after each."""
        for piece in pieces:
            self.send(piece)
            self.pause(pause_s)

    def pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Hang

    def hang(self) -> None:
        """Send nothing until the client closes the connection."""
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
    """The expected outcome of a request.

    `status`, `error` and `truncated`: as in `Exchange`. `decoding`: the error of `decode_body`.
    `cut`: whether its payload is incomplete. `payload`: the first bytes of the payload.
    """

    status: int = 200
    error: str = ""
    truncated: str = ""
    decoding: str = ""
    cut: bool = False
    payload: bytes | None = None


@dataclass(frozen=True)
class Endpoint:
    """One violation of HTTP, at `/NAME` of the hostile host."""

    name: str
    description: str
    behave: Behaviour
    expected: Expected


def page(title: str, body: str = "") -> bytes:
    """Return a small HTML page."""
    head = f"<head><title>{title}</title></head>"
    return (
        f"<!doctype html><html lang=en>{head}<body><h1>{title}</h1>{body}</body></html>"
    ).encode()


def answer(
    body: bytes,
    *fields: bytes,
    status: bytes = b"200 OK",
    content_type: bytes = b"text/html; charset=utf-8",
) -> bytes:
    """Return a complete, correct response."""
    lines = [
        b"HTTP/1.1 " + status,
        b"Content-Type: " + content_type,
        b"Content-Length: %d" % len(body),
        b"Connection: close",
        *fields,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def head(*lines: bytes) -> bytes:
    """Return a response head of these lines, with the final empty line."""
    return b"\r\n".join(lines) + b"\r\n\r\n"


def raw(data: bytes) -> Behaviour:
    """Send these bytes, then close the connection."""

    def behave(wire: Wire) -> None:
        wire.send(data)

    return behave


def then_hang(data: bytes) -> Behaviour:
    """Send these bytes, then nothing until the client closes the connection."""

    def behave(wire: Wire) -> None:
        if data:
            wire.send(data)
        wire.hang()

    return behave


def then_reset(data: bytes) -> Behaviour:
    """Send these bytes, wait for their arrival, then reset the connection."""

    def behave(wire: Wire) -> None:
        if data:
            wire.send(data)
            time.sleep(0.1)
        wire.reset()

    return behave


def endless(start: bytes, piece: bytes, pause_s: float = 0.0) -> Behaviour:
    """Send `start`, then repeat `piece` until the client closes the connection."""

    def behave(wire: Wire) -> None:
        wire.send(start)
        while not wire.stopping.is_set():
            wire.send(piece)
            if pause_s:
                wire.pause(pause_s)

    return behave


def redirect(location: bytes, status: bytes = b"302 Found") -> Behaviour:
    """Send a redirect."""
    return raw(answer(b"moved", b"Location: " + location, status=status))
