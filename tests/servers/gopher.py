"""A small gopher server (RFC 1436) on loopback: menus and texts from a mapping of selectors."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        selector = self.rfile.readline(4096).rstrip(b"\r\n").decode("latin-1")
        server = self.server
        assert isinstance(server, _Server)
        server.asked.append(selector)
        self.wfile.write(server.content.get(selector, b"3not here\terror\terror.host\t1\r\n.\r\n"))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, content: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.asked: list[str] = []


@contextmanager
def gopher(content: Mapping[str, bytes]) -> Iterator[tuple[int, list[str]]]:
    """(port, the selectors that were asked for)."""
    with _Server(content) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1], server.asked
        finally:
            server.shutdown()
            thread.join()
