"""Real FTP on loopback: pyftpdlib in a process of its own; and a server that lies about where its data is to be had."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest


@contextmanager
def ftp(root: Path) -> Iterator[int]:
    """Serve a folder to `anonymous`; the port."""
    if find_spec("pyftpdlib") is None:
        pytest.skip("pyftpdlib is not installed (pip install pyftpdlib)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    call = [sys.executable, "-W", "ignore", "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", str(port), "-d", str(root)]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


class _Liar(socketserver.StreamRequestHandler):
    """Refuses EPSV, and answers PASV with another machine's address."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _LyingServer)
        data = socket.create_server(("127.0.0.1", 0))
        port = data.getsockname()[1]
        self.wfile.write(b"220 at your service\r\n")
        while line := self.rfile.readline(1024):
            command = line.split()[0].upper().decode()
            if command == "PASV":
                self.wfile.write(f"227 Entering ({server.named.replace('.', ',')},{port >> 8},{port & 255})\r\n".encode())
            elif command == "RETR":
                self.wfile.write(b"150 here\r\n")
                connection, _ = data.accept()
                connection.sendall(b"the text")
                connection.close()
                self.wfile.write(b"226 done\r\n")
            elif command == "QUIT":
                break
            else:
                replies = {"USER": "331 password", "PASS": "230 in", "TYPE": "200 ok", "CWD": "250 ok", "PWD": '257 "/"', "SIZE": "213 8"}
                self.wfile.write(f"{replies.get(command, '502 no')}\r\n".encode())
        data.close()


class _LyingServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    named = ""


@contextmanager
def lying_ftp(named: str) -> Iterator[int]:
    """A server that names this address for its data."""
    with _LyingServer(("127.0.0.1", 0), _Liar) as server:
        server.named = named
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
