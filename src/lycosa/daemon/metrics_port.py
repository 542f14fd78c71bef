"""`/metrics` beside a daemon: the workspace's figures for Prometheus, without the search page and
its process.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from lycosa.core.errors import LycosaError, WorkError
from lycosa.core.version import VERSION
from lycosa.daemon.metrics import CONTENT_TYPE, Meter
from lycosa.processes.threads import OnError, background_thread

PATH = "/metrics"
_READ_S = 10.0  # how long a client may take to say what it wants


class MetricsPort:
    """Serves `/metrics` from threads of its own until it is closed. `port` 0 takes a free one;
    `address` says which.

    Raises:
        WorkError: it cannot listen there.
    """

    def __init__(self, root: str, port: int, host: str = "127.0.0.1") -> None:

        class Handler(_Handler):
            meter = Meter(root)

        try:
            self._server = _Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise WorkError(
                f"the metrics cannot be served at {host}:{port}: {error}; choose "
                "another --metrics-port"
            ) from None
        self.address = f"http://{host}:{self._server.server_port}{PATH}"
        self._thread = background_thread(
            self._server.serve_forever, 0.2, name="metrics", on_error=OnError.RESTART
        )
        self._thread.start()

    def __enter__(self) -> MetricsPort:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away while it asks or is answered is no news; the rest is told as
        ever.
        """
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server_version = f"lycosa/{VERSION}"
    sys_version = ""
    timeout = _READ_S
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
        """Whoever scrapes every few seconds is no news."""
