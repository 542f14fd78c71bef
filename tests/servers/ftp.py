"""FTP on loopback: pyftpdlib in a process of its own, and a server with a false data address. A small
gopher server (RFC 1436).
"""

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

_SERVE = """
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
        self.say("RETR", file)
        return super().ftp_RETR(file)
    def ftp_LIST(self, path):
        self.say("LIST", path)
        return super().ftp_LIST(path)
    def say(self, command, path):
        with open(sys.argv[3], "a") as log:
            log.write(command + " " + path + chr(10))

logging.disable(logging.CRITICAL)
authorizer = DummyAuthorizer()
authorizer.add_anonymous(sys.argv[2])
Handler.authorizer = authorizer
FTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def ftp_log(log: Path, root: Path) -> list[str]:
    """What was asked for, in order: paths below the root, as in URLs; folders with a slash."""
    asked = []
    for line in log.read_text().splitlines() if log.exists() else ():
        command, _, path = line.partition(" ")
        below = os.path.relpath(path, root)
        name = "" if below == "." else quote(below, safe="/!$&'()*+,;=:@-._~")
        asked.append(f"{name}/" if command == "LIST" and name else name)
    return asked


@contextmanager
def ftp(root: Path, log: Path | None = None) -> Iterator[int]:
    """Serve a folder to `anonymous`; the port. `log` gets what is listed and sent (`ftp_log`)."""
    if find_spec("pyftpdlib") is None:
        pytest.skip("pyftpdlib is not installed (pip install pyftpdlib)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    call = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        _SERVE,
        str(port),
        str(root),
        str(log or os.devnull),
    ]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens("127.0.0.1", port), alive=process)
        yield port
    finally:
        process.terminate()
        process.wait()


class _Liar(socketserver.StreamRequestHandler):
    """Refuses EPSV, and answers PASV with another machine's address."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _LyingServer)
        data = socket.create_server((server.server_address[0], 0))
        port = data.getsockname()[1]
        self.wfile.write(b"220 at your service\r\n")
        while line := self.rfile.readline(1024):
            command = line.split()[0].upper().decode()
            if command == "PASV":
                self.wfile.write(
                    f"227 Entering ({server.named.replace('.', ',')},{port >> 8},{port & 255})\r\n".encode()
                )
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


class _LyingServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    named = ""


@contextmanager
def _served(
    handler: type[socketserver.StreamRequestHandler],
    named: str = "",
    place: tuple[str, int] = ("127.0.0.1", 0),
) -> Iterator[int]:
    server = _LyingServer(place, handler)
    server.named = named
    with serving(server):
        yield server.server_address[1]


@contextmanager
def lying_ftp(named: str, address: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A server that names this address for its data; its port."""
    with _served(_Liar, named, (address, port)) as chosen:
        yield chosen


class _Flooder(socketserver.StreamRequestHandler):
    """Greets without end."""

    def handle(self) -> None:
        with suppress(OSError):
            while True:
                self.wfile.write(b"220-" + b"welcome " * 1_000 + b"\r\n")


@contextmanager
def flooding_ftp() -> Iterator[int]:
    """A server whose greeting has no end."""
    with _served(_Flooder) as port:
        yield port


class _Busy(socketserver.StreamRequestHandler):
    """Has no room: at once, or when the password was said."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _LyingServer)
        if server.named:
            self.wfile.write(b"220 at your service\r\n")
            self.rfile.readline(1024)
            self.wfile.write(b"331 password\r\n")
            self.rfile.readline(1024)
        self.wfile.write(b"421 too many\r\n")


@contextmanager
def busy_ftp(after: str = "") -> Iterator[int]:
    """A server that answers 421 (RFC 959 section 4.2), with `after` only when somebody logged in;
    its port.
    """
    with _served(_Busy, after) as port:
        yield port


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
    with serving(server := _Server(content)):
        yield server.server_address[1], server.asked
