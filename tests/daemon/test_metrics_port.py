"""The daemon's port for figures, and clients that behave badly."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lycosa.daemon.metrics_port import metrics_served


def test_a_client_that_breaks_off_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with metrics_served(str(tmp_path), 0) as address:
        place = ("127.0.0.1", urlsplit(address).port or 0)
        for _ in range(5):
            client = socket.create_connection(place)
            # reset, not closed
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /met")
            client.close()
        with socket.create_connection(place) as client:  # taken after the others
            client.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.0 404")
        while any("process_request" in thread.name for thread in threading.enumerate()):
            time.sleep(0.01)
    assert capsys.readouterr().err == ""
