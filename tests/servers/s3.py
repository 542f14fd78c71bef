"""S3 on loopback: moto's server, with faults that S3 and networks have.

Moto looks whether a name is there and writes it in two steps; S3 does not, so conditional requests
take turns here.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

BUCKET = "crawls"
KEY_ID, SECRET = "AKIATESTTESTTESTTEST", "a-secret-that-no-message-may-hold"
_Answer = Iterable[bytes]
_Start = Callable[..., Any]

_REFUSALS = {
    503: ("SlowDown", "Please reduce your request rate."),
    500: ("InternalError", "We encountered an internal error."),
    409: ("ConditionalRequestConflict", "A conflicting operation occurred."),
}


@dataclass
class Faults:
    """What goes wrong: rules are asked in turn, each with (method, key); the first that says so
    decides.

    `drop`: the request is done and its answer lost. `refuse`: 503, 500 or 409 before it is done.
    `stale`: listings lack the keys that were written within so many seconds. `cut`: half of the
    answer's body comes, then the connection is reset. `late`: the answer comes so many seconds
    after it is done. `say`: other bytes instead of the answer's.
    """

    drop: Callable[[str, str], bool] = lambda method, key: False
    refuse: Callable[[str, str], int] = lambda method, key: 0
    stale_s: float = 0.0
    cut: Callable[[str, str], bool] = lambda method, key: False
    late: Callable[[str, str], float] = lambda method, key: 0.0
    say: Callable[[str, str], bytes | None] = lambda method, key: None
    requests: list[tuple[str, str]] = field(default_factory=list)
    dropped: int = 0
    refused: int = 0
    hidden: int = 0
    cuts: int = 0
    said: int = 0

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self.drop, self.refuse, self.stale_s = (
            (lambda method, key: False),
            (lambda method, key: 0),
            0.0,
        )
        self.cut, self.late, self.say = (
            (lambda method, key: False),
            (lambda method, key: 0.0),
            (lambda method, key: None),
        )


@dataclass(frozen=True)
class S3Server:
    """A running server: its address, what goes wrong there, and the environment that leads a client
    to it.
    """

    endpoint: str
    faults: Faults
    environment: Mapping[str, str]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Moto's S3 at a free port of 127.0.0.1, with one bucket, `BUCKET`."""
    faults = Faults()
    application = _Faulty(DomainDispatcherApplication(create_backend_app), faults)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Handler)
    thread = threading.Thread(target=server.serve_forever, name="s3", daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    try:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield S3Server(endpoint, faults, environment)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def location(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a workspace of the test's own may lie; nothing goes wrong there at first."""
    for name, value in {**server.environment, "LYCOSA_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    server.faults.clear()
    yield f"s3://{BUCKET}/{tmp_path.name}"
    server.faults.clear()


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        """Says nothing."""


def _cut(body: bytes, connection: socket.socket) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    connection.shutdown(socket.SHUT_RDWR)
    yield b""


class _Faulty:
    """Moto behind the faults."""

    def __init__(
        self, application: Callable[[dict[str, Any], _Start], _Answer], faults: Faults
    ) -> None:
        self._application = application
        self._faults = faults
        self._turns = threading.Lock()
        self._written: dict[str, float] = {}

    def __call__(self, environ: dict[str, Any], start_response: _Start) -> _Answer:
        method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].lstrip("/").partition("/")[2]
        faults = self._faults
        faults.requests.append((method, key))
        status = faults.refuse(method, key)
        if status:
            faults.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            code, message = _REFUSALS[status]
            body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()
            start_response(
                f"{status} Refused",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
            )
            return [body]
        with self._turns:  # what moto does is short
            if method in ("PUT", "POST"):
                self._written[key] = time.monotonic()
            answered = self._answer(environ, start_response, method, key)
        time.sleep(faults.late(method, key))
        return answered

    def _answer(
        self, environ: dict[str, Any], start_response: _Start, method: str, key: str
    ) -> _Answer:
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            started[:] = [status, headers]

        body = b"".join(self._application(environ, start))
        if self._faults.drop(method, key):
            self._faults.dropped += 1
            connection: socket.socket = environ["werkzeug.socket"]
            connection.shutdown(socket.SHUT_RDWR)
            start_response("500 Lost", [("Content-Length", "0")])
            return [b""]
        status, headers = started
        if (
            self._faults.stale_s
            and method == "GET"
            and "list-type" in parse_qs(environ.get("QUERY_STRING", ""))
        ):
            body = self._without_new(body)
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        other = self._faults.say(method, key)
        if other is not None:
            self._faults.said += 1
            status, headers, body = (
                "200 OK",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(other)))],
                other,
            )
        start_response(status, headers)
        if body and method != "HEAD" and self._faults.cut(method, key):
            self._faults.cuts += 1
            return _cut(body, environ["werkzeug.socket"])
        return [body]

    def _without_new(self, body: bytes) -> bytes:
        def keep(match: re.Match[bytes]) -> bytes:
            inside = re.search(rb"<(?:Key|Prefix)>([^<]*)</", match[0])
            name = inside[1].decode() if inside else ""
            newest = max(
                (at for key, at in self._written.items() if key.startswith(name)), default=0.0
            )
            oldest = min(
                (at for key, at in self._written.items() if key.startswith(name)), default=0.0
            )
            new = (
                oldest if match[0].startswith(b"<CommonPrefixes") else newest
            ) > time.monotonic() - self._faults.stale_s
            self._faults.hidden += new
            return b"" if new else match[0]

        return re.sub(
            rb"<Contents>.*?</Contents>|<CommonPrefixes>.*?</CommonPrefixes>",
            keep,
            body,
            flags=re.DOTALL,
        )
