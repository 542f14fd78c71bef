"""An S3 server on loopback (moto) with the failures of real stores and networks.

Moto checks and writes a key in two steps, unlike S3, so requests are serialized here.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.servers.local_http import serving

BUCKET = "crawls"
KEY_ID, SECRET = "AKIATESTTESTTESTTEST", "a-secret-that-no-message-may-hold"
_Body = Iterable[bytes]
_StartResponse = Callable[..., Any]

_ERRORS = {
    503: ("SlowDown", "Please reduce your request rate."),
    500: ("InternalError", "We encountered an internal error."),
    409: ("ConditionalRequestConflict", "A conflicting operation occurred."),
}


Rule = Callable[[str, str], bool]
"""(method, key) -> whether this request fails."""


def never(_method: str, _key: str) -> bool:
    return False


@dataclass
class Faults:
    """The failures of the server, and their counters.

    `drop`: the request is executed, and its response lost. `refuse`: status 500, 503 or 409, and
    the request is not executed (0: no failure). `stale_s`: listings lack keys written within this
    time. `cut`: the connection closes after half of the body. `late`: delay of the response (s).
    `replace_body`: a body that replaces that of the response (None: no failure).
    """

    drop: Rule = never
    refuse: Callable[[str, str], int] = never
    stale_s: float = 0.0
    cut: Rule = never
    late: Callable[[str, str], float] = never
    replace_body: Callable[[str, str], bytes | None] = lambda method, key: None
    requests: list[tuple[str, str]] = field(default_factory=list)
    dropped: int = 0
    refused: int = 0
    hidden: int = 0
    cuts: int = 0
    replaced: int = 0

    def clear(self) -> None:
        """Stop all failures. The counters keep their values."""
        for name in ("drop", "refuse", "stale_s", "cut", "late", "replace_body"):
            setattr(self, name, self.__dataclass_fields__[name].default)


@dataclass(frozen=True)
class S3Server:
    """A running server, its failures, and the environment of its clients."""

    endpoint: str
    faults: Faults
    environment: Mapping[str, str]


@contextmanager
def s3_server(address: str = "127.0.0.1") -> Iterator[S3Server]:
    """Run a server with the bucket `BUCKET`."""
    faults = Faults()
    application = _FaultInjector(DomainDispatcherApplication(create_backend_app), faults)
    server = make_server(address, 0, application, threaded=True, request_handler=_Handler)
    endpoint = f"http://{address}:{server.server_port}"
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
    with serving(server):
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield S3Server(endpoint, faults, environment)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def location(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The location of a workspace, on the server without failures."""
    for name, value in {**server.environment, "LYCOSA_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    server.faults.clear()
    yield f"s3://{BUCKET}/{tmp_path.name}"
    server.faults.clear()


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        """Do not log."""


def _cut(body: bytes, connection: socket.socket) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    connection.shutdown(socket.SHUT_RDWR)
    yield b""


class _FaultInjector:
    """Pass requests to moto, and inject the failures."""

    def __init__(
        self, application: Callable[[dict[str, Any], _StartResponse], _Body], faults: Faults
    ) -> None:
        self._application = application
        self._faults = faults
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}

    def __call__(self, environ: dict[str, Any], start_response: _StartResponse) -> _Body:
        method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].lstrip("/").partition("/")[2]
        faults = self._faults
        faults.requests.append((method, key))
        status = faults.refuse(method, key)
        if status:
            faults.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            code, message = _ERRORS[status]
            body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()
            start_response(
                f"{status} Refused",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
            )
            return [body]
        with self._lock:
            if method in ("PUT", "POST"):
                self._written[key] = time.monotonic()
            response = self._execute(environ, start_response, method, key)
        time.sleep(faults.late(method, key))
        return response

    def _execute(
        self, environ: dict[str, Any], start_response: _StartResponse, method: str, key: str
    ) -> _Body:
        faults = self._faults
        head: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            head[:] = [status, headers]

        body = b"".join(self._application(environ, start))
        if faults.drop(method, key):
            faults.dropped += 1
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start_response("500 Lost", [("Content-Length", "0")])
            return [b""]
        status, headers = head
        if faults.stale_s and "list-type" in environ.get("QUERY_STRING", ""):
            body = self._without_new_keys(body)
        replacement = faults.replace_body(method, key)
        if replacement is not None:
            faults.replaced += 1
            status, body = "200 OK", replacement
        if method != "HEAD":
            headers = [item for item in headers if item[0].lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        if body and method != "HEAD" and faults.cut(method, key):
            faults.cuts += 1
            return _cut(body, environ["werkzeug.socket"])
        return [body]

    def _without_new_keys(self, listing: bytes) -> bytes:
        """Remove recently written keys from a listing."""
        since = time.monotonic() - self._faults.stale_s

        def entry_or_nothing(match: re.Match[bytes]) -> bytes:
            name = match["name"].decode()
            times = [at for key, at in self._written.items() if key.startswith(name)]
            is_folder = match[0].startswith(b"<CommonPrefixes")
            is_new = bool(times) and (min(times) if is_folder else max(times)) > since
            self._faults.hidden += is_new
            return b"" if is_new else match[0]

        pattern = rb"<(Contents|CommonPrefixes)>.*?<(?:Key|Prefix)>(?P<name>[^<]*)</.*?</\1>"
        return re.sub(pattern, entry_or_nothing, listing, flags=re.DOTALL)
