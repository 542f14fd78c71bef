"""FTP servers on loopback, good ones (pyftpdlib) and faulty ones, and a gopher server (RFC 1436)."""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.servers.local_http import serving
from tests.waiting import listens, until

_PROGRAM = """
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

class Handler(FTPHandler):
    def log_transfer(self, cmd, filename, receive, completed, elapsed, bytes):
        pass
    def log_cmd(self, cmd, arg, respcode, respstr):
        pass
    def ftp_RETR(self, file):
        self.record("RETR", file)
        return super().ftp_RETR(file)
    def ftp_LIST(self, path):
        self.record("LIST", path)
        return super().ftp_LIST(path)
    def record(self, command, path):
        with open(sys.argv[3], "a") as log:
            log.write(command + " " + path + chr(10))

logging.disable(logging.CRITICAL)
authorizer = DummyAuthorizer()
authorizer.add_anonymous(sys.argv[2])
Handler.authorizer = authorizer
FTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def ftp_log(log: Path, root: Path) -> list[str]:
    """Return the requested paths in order, relative to the root and as in URLs.

    Folders end with a slash.
    """
    requests = []
    for line in log.read_text().splitlines() if log.exists() else ():
        command, _, path = line.partition(" ")
        relative = os.path.relpath(path, root)
        name = "" if relative == "." else quote(relative, safe="/!$&'()*+,;=:@-._~")
        requests.append(f"{name}/" if command == "LIST" and name else name)
    return requests


@contextmanager
def ftp(root: Path, log: Path | None = None) -> Iterator[int]:
    """Serve a folder to the user `anonymous` in another process; yield the port.

    Args:
        log: the file that requests are appended to; read it with `ftp_log`.
    """
    if find_spec("pyftpdlib") is None:
        pytest.skip("pyftpdlib is not installed (pip install pyftpdlib)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        _PROGRAM,
        str(port),
        str(root),
        str(log or os.devnull),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens("127.0.0.1", port), alive=process)
        yield port
    finally:
        process.terminate()
        process.wait()


class _FalseAddressHandler(socketserver.StreamRequestHandler):
    """Refuse EPSV, and answer PASV with the address of another machine."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _FaultyServer)
        data = socket.create_server((server.server_address[0], 0))
        port = data.getsockname()[1]
        self.wfile.write(b"220 at your service\r\n")
        while line := self.rfile.readline(1024):
            command = line.split()[0].upper().decode()
            if command == "PASV":
                numbers = f"{server.option.replace('.', ',')},{port >> 8},{port & 255}"
                self.wfile.write(f"227 Entering ({numbers})\r\n".encode())
            elif command == "RETR":
                self.wfile.write(b"150 here\r\n")
                connection, _ = data.accept()
                connection.sendall(b"the text")
                connection.close()
                self.wfile.write(b"226 done\r\n")
            elif command == "QUIT":
                break
            else:
                replies = {
                    "USER": "331 password",
                    "PASS": "230 in",
                    "TYPE": "200 ok",
                    "CWD": "250 ok",
                    "PWD": '257 "/"',
                    "SIZE": "213 8",
                }
                self.wfile.write(f"{replies.get(command, '502 no')}\r\n".encode())
        data.close()


class _FaultyServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    option = ""


@contextmanager
def _faulty_server(
    handler: type[socketserver.StreamRequestHandler], option: str = "", address: str = "127.0.0.1"
) -> Iterator[int]:
    server = _FaultyServer((address, 0), handler)
    server.option = option
    with serving(server):
        yield server.server_address[1]


@contextmanager
def false_address_ftp(data_address: str, address: str = "127.0.0.1") -> Iterator[int]:
    """Run a server whose reply to PASV names `data_address`; yield its port."""
    with _faulty_server(_FalseAddressHandler, data_address, address) as port:
        yield port


class _EndlessGreetingHandler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while True:
                self.wfile.write(b"220-" + b"welcome " * 1_000 + b"\r\n")


@contextmanager
def flooding_ftp() -> Iterator[int]:
    """Run a server whose greeting has no end; yield its port."""
    with _faulty_server(_EndlessGreetingHandler) as port:
        yield port


class _BusyHandler(socketserver.StreamRequestHandler):
    """Reply 421, as greeting or after the password."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _FaultyServer)
        if server.option:
            self.wfile.write(b"220 at your service\r\n")
            self.rfile.readline(1024)
            self.wfile.write(b"331 password\r\n")
            self.rfile.readline(1024)
        self.wfile.write(b"421 too many\r\n")


@contextmanager
def busy_ftp(after: str = "") -> Iterator[int]:
    """Run a server that replies 421 (RFC 959 section 4.2); yield its port.

    Args:
        after: if not empty, the reply follows the password; otherwise it is the greeting.
    """
    with _faulty_server(_BusyHandler, after) as port:
        yield port


class _GopherServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def gopher(content: Mapping[str, bytes]) -> Iterator[tuple[int, list[str]]]:
    """Serve selector -> content; yield the port and the list of requested selectors."""
    selectors: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            selector = self.rfile.readline(4096).rstrip(b"\r\n").decode("latin-1")
            selectors.append(selector)
            missing = b"3not here\terror\terror.host\t1\r\n.\r\n"
            self.wfile.write(content.get(selector, missing))

    with serving(server := _GopherServer(("127.0.0.1", 0), Handler)):
        yield server.server_address[1], selectors
