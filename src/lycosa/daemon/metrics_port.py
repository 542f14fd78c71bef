"""Serve `/metrics` in the process of the daemon."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lycosa.core.errors import LycosaError, WorkError
from lycosa.core.version import VERSION
from lycosa.daemon.metrics import CONTENT_TYPE, Meter
from lycosa.processes.threads import OnError, start_thread

PATH = "/metrics"
_READ_TIMEOUT_S = 10.0


@contextmanager
def metrics_served(root: str, port: int, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve `/metrics` in threads; gives its URL. `port` 0 selects a free one.

    Raises:
        WorkError: it cannot listen there.
    """

    class Handler(_Handler):
        meter = Meter(root)

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise WorkError(
            f"the metrics cannot be served at {host}:{port}: {error}; choose another --metrics-port"
        ) from None
    thread = start_thread(server.serve_forever, 0.2, name="metrics", on_error=OnError.RESTART)
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}{PATH}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors, except that a client closed its connection."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server_version = f"lycosa/{VERSION}"
    sys_version = ""
    timeout = _READ_TIMEOUT_S
    meter: Meter

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            body = self.meter.text().encode()
        except (LycosaError, OSError) as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log scrapes."""
