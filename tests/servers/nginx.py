"""A real nginx on loopback: its own configuration, temporary files and logs, and an access log that
tests can read.

The rules of a server are those of the sites' own `nginx.conf`: mime types from
`/etc/nginx/mime.types`, `text/html` for every name that this table does not know, index files,
directory listings.
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
    """One `server` block: a document root on an address of 127.0.0.0/8. With a certificate it
    speaks TLS, HTTP/2 too, and nothing else; `extra` is nginx configuration as it stands.
    """

    address: str
    root: Path
    index: str = "index.html index.en.html"
    autoindex: bool = True
    extra: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Request:
    """One line of the access log. `at` is in milliseconds since 1970; `host` is the Host header,
    port included.
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
        """Where the access log ends now: give it to `requests` to read only what comes after."""
        return self.log_path.stat().st_size

    def requests(self, mark: int = 0) -> list[Request]:
        """Return the requests since `mark`. nginx writes a line after it has sent the response, so
        the last one may be missing until `settle` was called.
        """
        with self.log_path.open("rb") as log:
            log.seek(mark)
            requests = [_request(line) for line in log.read().splitlines()]
        return [request for request in requests if request.uri != _SETTLE_PATH]

    def settle(self) -> None:
        """Wait until all responses that a client has received are in the log: the only worker
        process answers this request after it has finished those. For servers without TLS.
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
    """The text of nginx.conf: everything that nginx writes lies in `directory`."""
    # as root, workers would otherwise be www-data and see no home directory
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
        tls, pair = "", ""
        if server.certificate:
            tls, pair = (
                " ssl http2",
                f"ssl_certificate {server.certificate.certificate}; ssl_certificate_key "
                f"{server.certificate.key}; ",
            )
        lines.append(
            f"  server {{ listen {server.address}:{port}{tls}; {pair}root {server.root}; index "
            f"{server.index}; autoindex {listing}; "
            f"{server.extra} }}"
        )
    return "\n".join([*lines, "}", ""])


def free_port(addresses: Sequence[str]) -> int:
    """A port that is free on every one of the addresses at this moment."""
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
    """Serve until the block ends. `port` 0 takes a free one; `program` is looked up (and the test
    skipped without it) if empty.

    Raises:
        RuntimeError: nginx does not start; the message holds its error log.
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
        _wait_until_it_listens(process, addresses, chosen, directory)
        yield Nginx(chosen, directory, tuple(servers), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_it_listens(
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
