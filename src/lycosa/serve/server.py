"""Listening: a socket, uvicorn on it, a clean end at Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Message, Scope

from lycosa.commands.inspection.status import workspace_status
from lycosa.config.serving import ServeSettings
from lycosa.core.errors import UsageError, WorkError
from lycosa.processes.memory import steady_memory
from lycosa.serve.app import create_app
from lycosa.serve.search.sources import Source
from lycosa.serve.web.security import allowed_hosts
from lycosa.serve.web.slow_clients import TimedConnection

MAX_CONNECTIONS = 1_000
"""Maximum number of connections, most of them idle (uvicorn refuses more with 503).
`lycosa.serve.web.concurrency` limits concurrent requests. Each takes a file handle and about 20 KB.
"""

_MAX_FILES = MAX_CONNECTIONS + 1_000  # index, sockets, files of responses
# kept by malloc: returning memory after each response took 3 % more CPU
_FREE_BYTES = 1_000_000
_KEEP_ALIVE_S = 30
_BACKLOG = 1_024  # avoids TCP retries when many clients connect at once

_SWITCH_INTERVAL_S = 0.001
"""How long a thread keeps the interpreter while others wait for it (Python's default is 5 ms). A
search releases it some forty times, at each call of tantivy, and would wait so long each time
while other threads compute.
"""


@dataclass(slots=True, frozen=True)
class ServerOptions:
    """The workspace to serve, and the address; picklable. Port 0: a free one. `key` signs sessions.

    `shared`: several processes listen there, and the kernel distributes connections.
    """

    root: str
    host: str
    port: int
    overrides: tuple[str, ...]
    key: bytes = b""
    shared: bool = False


def run_server(
    served: ServerOptions,
    limits: ServeSettings,
    source: Source | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a workspace until SIGINT or SIGTERM.

    `announce` gets a line with the address once the socket listens. `source`, `limits`: as of
    `create_app`.

    Raises:
        UsageError: the address is not this machine's.
        WorkError: the port is taken or not allowed.
    """
    steady_memory(max(2, os.cpu_count() or 1), _FREE_BYTES)
    _raise_file_limit()
    root, host = served.root, served.host
    with listen(host, served.port, shared=served.shared) as listener:
        app = create_app(
            root, lambda: workspace_status(root), allowed_hosts(host), source, limits, served.key
        )
        asyncio.run(_make_ready(app))
        _freeze_memory()
        config = uvicorn.Config(
            app,
            http=TimedConnection,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # `lycosa.serve.web.proxies` reads them
            backlog=_BACKLOG,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        address = address_of(listener)
        announce(
            f"Serving the search page at {address} and the API at {address}api/v1. "
            "Press Ctrl-C to stop."
        )
        # uvicorn ends its connections at a signal and raises it again
        uvicorn.Server(config).run(sockets=[listener])


async def _make_ready(app: ASGIApp) -> None:
    """Make FastAPI complete its routes, a tenth of a second at the first request, before clients
    wait for it.
    """

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        pass

    asgi = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
        "client": ("127.0.0.1", 0),
    }
    request = {
        "method": "GET",
        "path": "/-",
        "raw_path": b"/-",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    nothing: Scope = {**asgi, **request}
    await app(nothing, receive, send)


def _freeze_memory() -> None:
    """Exclude loaded objects from garbage collection, which would delay all requests by 100 ms
    every ten seconds.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _raise_file_limit() -> None:
    """Raise the limit of open files, which is 1,024 on many systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_FILES if hard == resource.RLIM_INFINITY else min(_MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening TCP socket; `shared`: several processes may listen at that address
    (SO_REUSEPORT).

    Raises:
        UsageError, WorkError: as `run_server`.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        # the latter for a name with a label of more than 63 bytes, or an empty one
        reason = error.strerror if isinstance(error, OSError) else "not a valid host name"
        raise UsageError(
            f"cannot listen on {host[:200]!r}: {reason}; serve.host must be an "
            "address of this machine"
        ) from None
    try:
        listener = socket.create_server(
            (str(address[0]), int(address[1])), family=family, backlog=_BACKLOG, reuse_port=shared
        )
    except OSError as error:
        raise WorkError(
            f"cannot listen on {host} port {port}: {error.strerror}; specify another port with "
            "--port (0: any free port)"
        ) from None
    # Connections inherit it. asyncio sets it only on sockets with an explicit TCP protocol number,
    # which these lack. uvicorn writes head and body one after the other, so without it a response
    # on a persistent connection waits 40 ms for a delayed acknowledgement (RFC 896).
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket, such as `http://127.0.0.1:8000/`."""
    host, port = listener.getsockname()[:2]
    return (
        f"http://[{host}]:{port}/"
        if listener.family == socket.AF_INET6
        else f"http://{host}:{port}/"
    )
