"""A real nginx on loopback, in a temporary directory, with an access log that tests can read.

Media types come from `/etc/nginx/mime.types`, with `text/html` for all other names. Servers have
index files and directory listings.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.certificates import Certificate
from tests.servers.system import require_program

START_LIMIT_S = 10.0
STOP_LIMIT_S = 5.0
MIME_TYPES = Path("/etc/nginx/mime.types")
_SETTLE_PATH = "/-settle-"

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_LOG_FORMAT = (
    '{"at":$msec,"remote":"$remote_addr","server":"$server_addr","scheme":"$scheme","host":"$http_host",'
    '"method":"$request_method","uri":"$request_uri","status":$status,"type":"$sent_http_content_type","bytes":$body_bytes_sent,"agent":"$http_user_agent"}'
)


@dataclass(frozen=True)
class Server:
    """One `server` block: a document root on an address in 127.0.0.0/8.

    With a certificate, it supports TLS only, with HTTP/1.1 and HTTP/2. `extra` is added to the
    block.
    """

    address: str
    root: Path
    index: str = "index.html index.en.html"
    autoindex: bool = True
    extra: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Request:
    """One line of the access log.

    `at`: milliseconds since 1970. `host`: the Host header, with the port.
    """

    at: int
    remote: str
    server: str
    host: str
    method: str
    uri: str
    status: int
    content_type: str
    sent_bytes: int
    agent: str
    scheme: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.uri}"


@dataclass(frozen=True)
class Nginx:
    """A running nginx. All its servers listen on the same port, each on its own address."""

    port: int
    directory: Path
    servers: tuple[Server, ...]
    pid: int

    @property
    def log_path(self) -> Path:
        return self.directory / "access.log"

    def mark(self) -> int:
        """Return the size of the access log. `requests(mark)` returns later requests only."""
        return self.log_path.stat().st_size

    def requests(self, mark: int = 0) -> list[Request]:
        """Return the requests since `mark`.

        nginx writes a line after it has sent the response. Call `settle` to wait for the last one.
        """
        with self.log_path.open("rb") as log:
            log.seek(mark)
            requests = [_request(line) for line in log.read().splitlines()]
        return [request for request in requests if request.uri != _SETTLE_PATH]

    def settle(self) -> None:
        """Wait until all received responses are in the log. Only for servers without TLS.

        nginx has one worker process, which answers this request after it has logged the others.
        """
        with socket.create_connection((self.servers[0].address, self.port), 60) as connection:
            connection.sendall(f"GET {_SETTLE_PATH} HTTP/1.0\r\n\r\n".encode())
            while connection.recv(65_536):
                pass


def _request(line: bytes) -> Request:
    fields = json.loads(line.decode("utf-8", "replace"))
    return Request(
        at=round(fields["at"] * 1000),
        remote=fields["remote"],
        server=fields["server"],
        host=fields["host"],
        method=fields["method"],
        uri=fields["uri"],
        status=fields["status"],
        content_type=fields["type"],
        sent_bytes=fields["bytes"],
        agent=fields["agent"],
        scheme=fields["scheme"],
    )


def configuration(servers: Sequence[Server], directory: Path, port: int) -> str:
    """Return nginx.conf. All files that nginx writes are in `directory`."""
    # without it, workers of root run as www-data, which cannot read home directories
    lines = ["user root;"] if os.geteuid() == 0 else []
    lines += [
        "worker_processes 1;",
        "daemon off;",
        f"pid {directory}/nginx.pid;",
        f"error_log {directory}/error.log;",
        "events { worker_connections 4096; }",
        "http {",
        f"  include {MIME_TYPES};",
        "  default_type text/html;",
        f"  log_format requests escape=json '{_LOG_FORMAT}';",
        f"  access_log {directory}/access.log requests;",
        "  sendfile on;",
        "  keepalive_requests 100000;",
        *(f"  {name}_temp_path {directory}/{name};" for name in _TEMPORARY),
    ]
    for server in servers:
        listing = "on" if server.autoindex else "off"
        protocols = keys = ""
        if server.certificate:
            protocols = " ssl http2"
            keys = (
                f"ssl_certificate {server.certificate.certificate}; "
                f"ssl_certificate_key {server.certificate.key}; "
            )
        lines.append(
            f"  server {{ listen {server.address}:{port}{protocols}; {keys}root {server.root}; "
            f"index {server.index}; autoindex {listing}; {server.extra} }}"
        )
    return "\n".join([*lines, "}", ""])


def free_port(addresses: Sequence[str]) -> int:
    """Return a port that is free on all of the addresses at this moment."""
    for _ in range(50):
        with socket.socket() as probe:
            probe.bind((addresses[0], 0))
            port: int = probe.getsockname()[1]
        if all(_is_free(address, port) for address in addresses):
            return port
    raise OSError(f"no port is free on all of {', '.join(addresses)}")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


@contextmanager
def nginx(servers: Sequence[Server], *, port: int = 0, program: str = "") -> Iterator[Nginx]:
    """Run nginx until the block ends.

    Args:
        port: 0 selects a free one.
        program: the path of nginx. "": searches for it, and skips the test if it is missing.

    Raises:
        RuntimeError: nginx does not start. The message contains its error log.
    """
    executable = program or require_program("nginx")
    addresses = [server.address for server in servers]
    directory = Path(tempfile.mkdtemp(prefix="lycosa-nginx-"))
    chosen = port or free_port(addresses)
    path = directory / "nginx.conf"
    path.write_text(configuration(servers, directory, chosen))
    process = subprocess.Popen(
        [executable, "-e", str(directory / "error.log"), "-p", str(directory), "-c", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_listening(process, addresses, chosen, directory)
        yield Nginx(chosen, directory, tuple(servers), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_listening(
    process: subprocess.Popen[bytes], addresses: Sequence[str], port: int, directory: Path
) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            log = directory / "error.log"
            raise RuntimeError(
                f"nginx does not start on port {port}: "
                f"{log.read_text(errors='replace') if log.exists() else 'no log'}"
            )
        try:
            for address in addresses:
                socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
