"""A web server on loopback whose status, text, latency and availability tests can change."""

from __future__ import annotations

import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.certificates import DAY, NOW, Certificate, make_certificate
from tests.servers.local_http import QuietHandler, QuietServer


@dataclass
class ControllableServer:
    """The server. Call `start` and `stop`, or use it as a context manager.

    `arrival_times`: of the requests (s, monotonic). `connections`: the number of opened ones.
    """

    address: str = "127.0.0.1"
    port: int = 0
    certificate: Certificate | None = None
    status: int = 200
    text: str = "all is well"
    delay_s: float = 0.0
    arrival_times: list[float] = field(default_factory=list)
    connections: int = 0
    _server: QuietServer | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.address}:{self.port}/"

    def start(self) -> ControllableServer:
        """Listen, on the same port as before after a stop."""
        server = QuietServer((self.address, self.port), _handler(self))
        self.port = server.server_address[1]
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate.certificate, self.certificate.key)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._server = server
        return self

    def stop(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> ControllableServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _handler(controlled: ControllableServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def setup(self) -> None:
            controlled.connections += 1
            super().setup()

        def do_GET(self) -> None:
            controlled.arrival_times.append(time.monotonic())
            time.sleep(controlled.delay_s)
            html = ("Content-Type", "text/html; charset=utf-8")
            self.reply(controlled.status, controlled.text.encode(), [html])

    return Handler


def expired_certificate(folder: Path, name: str, names: str, authority: Certificate) -> Certificate:
    """Create a certificate that expired yesterday."""
    return make_certificate(folder, name, names, authority, ends=NOW - DAY)
