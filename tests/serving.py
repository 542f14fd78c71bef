"""Small HTTP servers of the standard library, for one test each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """A handler without a log that sends whole responses."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(
        self,
        status: int,
        body: bytes = b"",
        media_type: str = "text/html; charset=utf-8",
        **fields: str,
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            **fields,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], address: str = "127.0.0.1") -> Iterator[str]:
    """Run a server of this handler on a free port; yield its origin."""
    with _Server((address, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://{address}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
