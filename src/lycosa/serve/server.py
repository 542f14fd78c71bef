"""Listening: a socket, uvicorn on it, a clean end at Ctrl-C."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

import uvicorn

from lycosa.core.errors import UsageError, WorkError
from lycosa.core.serving import ServeSettings
from lycosa.serve.app import create_app
from lycosa.serve.security import allowed_hosts
from lycosa.serve.source import Source

MAX_CONNECTIONS = 200
"""At most this many at once (uvicorn answers 503 to more): each may hold a thread and a snippet in memory."""


def run_server(
    root: str,
    host: str,
    port: int,
    *,
    status: Callable[[], Mapping[str, object]],
    announce: Callable[[str], None] = print,
    source: Source | None = None,
    limits: ServeSettings | None = None,
    key: bytes = b"",
    shared: bool = False,
) -> None:
    """Serve the workspace's pages until SIGINT or SIGTERM; `announce` is given a line with the address once the socket listens.

    Port 0 takes a free one. `source`, `limits` and `key` as of `create_app`. `shared`: others listen there too, and
    the kernel deals out connections.

    Raises:
        UsageError: the address is not this machine's.
        WorkError: the port is taken or not allowed.
    """
    with listen(host, port, shared=shared) as listener:
        app = create_app(root, status, allowed_hosts(host), source, limits, key)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, limit_concurrency=MAX_CONNECTIONS, timeout_graceful_shutdown=5
        )
        address = address_of(listener)
        announce(f"The search page is at {address} and the API under {address}api/v1; Ctrl-C ends it.")
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has already ended its connections and raises the signal again
            uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening TCP socket; `shared`: several processes may have one at that address (SO_REUSEPORT).

    Raises:
        UsageError, WorkError: as `run_server`.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise UsageError(f"cannot listen on {host!r}: {error.strerror}; serve.host names an address of this machine") from None
    try:
        listener = socket.create_server((str(address[0]), int(address[1])), family=family, backlog=128, reuse_port=shared)
    except OSError as error:
        raise WorkError(f"cannot listen on {host} port {port}: {error.strerror}; --port takes another one, 0 any free one") from None
    # Its connections inherit it. asyncio sets it only on sockets that say they are TCP, which these do not; uvicorn writes head and body
    # one after the other, so without it an answer on a kept connection waits 40 ms for the client's delayed acknowledgement (RFC 896).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket) -> str:
    """`http://127.0.0.1:8000/` of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if listener.family == socket.AF_INET6 else f"http://{host}:{port}/"
