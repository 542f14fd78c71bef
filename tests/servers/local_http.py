"""HTTP servers on loopback whose responses the tests define."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


class QuietServer(ThreadingHTTPServer):
    """Report no error when a client closes its connection."""

    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class QuietHandler(BaseHTTPRequestHandler):
    """Keep connections open and log nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log."""

    def reply(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(
        self,
        status: int,
        body: bytes = b"",
        media_type: str = "text/html; charset=utf-8",
        **fields: str,
    ) -> None:
        self.reply(status, body, [("Content-Type", media_type), *fields.items()])


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Run a server in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_handler(
    handler: type[BaseHTTPRequestHandler], address: str = "127.0.0.1"
) -> Iterator[str]:
    """Run a server with this handler on a free port; yield its origin."""
    server = QuietServer((address, 0), handler)
    with serving(server):
        yield f"http://{address}:{server.server_port}"
