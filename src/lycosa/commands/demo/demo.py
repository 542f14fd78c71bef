"""The demonstration: real commands on a small multilingual local web.

The folder `web/` of this package has one folder for each site (see its README.md). Each site is
served on an address of its own; all use the same port. Links between sites have the form
`http://NAME.demo/`, where NAME is a folder: the server replaces them with the address and port of
that site when it reads a file. `_redirects` contains lines of the form `/path target status`.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lycosa.core.errors import UsageError, WorkError
from lycosa.processes.threads import OnError, start_thread

WEB = Path(__file__).parent / "web"
SITES = {
    "wolfspiders": "127.0.2.1",
    "harbour": "127.0.2.2",
    "boulangerie": "127.0.2.3",
    "chayuan": "127.0.2.4",
    "muzey": "127.0.2.5",
    "niwa": "127.0.2.6",
    "nujum": "127.0.2.7",
    "biblioteca": "127.0.2.8",
}
"""Folder in `WEB` -> address."""

WORKSPACE = "demo-data"
PAGES_OF_A_REAL_SITE = 200
QUERIES = ("wolf spider mother", "明前龙井茶")
FIRST_PORT, LAST_PORT = 8000, 8099
IDLE_CONNECTION_S = 15.0

_PLACEHOLDER = re.compile(rb"http://([a-z]+)\.demo(?=[/\"'\s<]|$)")
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}
# without a charset: the pages declare theirs in <meta>, two of them a legacy one


@dataclass(frozen=True)
class Resource:
    """One complete response of a site."""

    status: int
    content_type: str
    body: bytes
    location: str = ""
    modified_s: float = 0.0

    @property
    def etag(self) -> str:
        return '"' + hashlib.blake2b(self.body, digest_size=8).hexdigest() + '"'


@dataclass(frozen=True)
class DemoWeb:
    """The served sites."""

    origins: Mapping[str, str]  # site -> http://ADDRESS:PORT
    resources: Mapping[str, Mapping[str, Resource]]  # site -> path -> response

    def seeds(self) -> list[str]:
        """Return the front page of every site."""
        return [f"{origin}/" for origin in self.origins.values()]


def load_site(folder: Path, origins: Mapping[str, str]) -> dict[str, Resource]:
    """Return the response of each path of a site.

    `http://NAME.demo` is replaced by the real origins.

    Raises:
        WorkError: a file links to an unknown site, or `_redirects` cannot be read.
    """

    def replace(match: re.Match[bytes]) -> bytes:
        name = match[1].decode("ascii")
        if name not in origins:
            raise WorkError(
                f"{folder}: a file links to http://{name}.demo, but there is no such site"
            )
        return origins[name].encode("ascii")

    site: dict[str, Resource] = {}
    for path in sorted(folder.rglob("*")):
        name = "/" + path.relative_to(folder).as_posix()
        if path.is_dir():
            if (path / "index.html").is_file():
                site[name] = _redirect(301, f"{name}/")
        elif name == "/_redirects":
            for line in _PLACEHOLDER.sub(replace, path.read_bytes()).decode("utf-8").splitlines():
                fields = line.split()
                if len(fields) != 3 or not fields[2].isdigit():
                    raise WorkError(
                        f"{path}: {line!r} does not have the form `/path target status`"
                    )
                site[fields[0]] = _redirect(int(fields[2]), fields[1])
        elif path.suffix in _TYPES:
            body = _PLACEHOLDER.sub(replace, path.read_bytes())
            resource = Resource(200, _TYPES[path.suffix], body, modified_s=path.stat().st_mtime)
            site[name] = resource
            if path.name == "index.html":
                site[name.removesuffix("index.html")] = resource
    return site


def _redirect(status: int, target: str) -> Resource:
    return Resource(
        status,
        "text/html; charset=utf-8",
        f'<!doctype html><a href="{target}">{target}</a>\n'.encode(),
        location=target,
    )


class _SiteServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    resources: Mapping[str, Resource]

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors except those of clients that disconnect."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "lycosa-demo"
    sys_version = ""
    timeout = IDLE_CONNECTION_S
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        assert isinstance(self.server, _SiteServer)
        path = unquote(urlsplit(self.path).path)
        resource = self.server.resources.get(path)
        if resource is None:
            missing = self.server.resources.get("/404.html")
            body = (
                missing.body if missing else b"<!doctype html><title>Not found</title>Not found\n"
            )
            resource = Resource(404, "text/html", body)
        elif resource.status == 200 and self.headers.get("If-None-Match") == resource.etag:
            resource = Resource(304, "", b"")
            with_body = False
        self.send_response(resource.status, HTTPStatus(resource.status).phrase)
        if resource.content_type:
            self.send_header("Content-Type", resource.content_type)
        if resource.location:
            self.send_header("Location", resource.location)
        if resource.status == 200:
            self.send_header("ETag", resource.etag)
            self.send_header("Last-Modified", formatdate(resource.modified_s, usegmt=True))
        if resource.status != 304:
            self.send_header("Content-Length", str(len(resource.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(resource.body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the demonstration shows only the crawler."""


@contextmanager
def serve_demo_web(folder: Path | None = None) -> Iterator[DemoWeb]:
    """Serve the sites on 127.0.2.1 to .8 and one free port until the block ends. Loopback only.

    Raises:
        WorkError: a site's files are wrong, or no port is free on all addresses.
    """
    folder = folder or WEB
    with ExitStack() as stack:
        servers = _bind_all(list(SITES.values()))
        for server in servers:
            stack.callback(server.server_close)
        port = servers[0].server_address[1]
        origins = {name: f"http://{address}:{port}" for name, address in SITES.items()}
        resources = {name: load_site(folder / name, origins) for name in SITES}
        for server, name in zip(servers, SITES, strict=True):
            server.resources = resources[name]
            thread = start_thread(
                server.serve_forever, 0.1, name=f"demo-{name}", on_error=OnError.REPORT
            )
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        yield DemoWeb(origins, resources)


def _bind_all(addresses: Sequence[str], attempts: int = 50) -> list[_SiteServer]:
    """Return one listening server per address, all on the port that the first of them gets."""
    for _ in range(attempts):
        servers: list[_SiteServer] = []
        try:
            for address in addresses:
                servers.append(
                    _SiteServer((address, servers[0].server_address[1] if servers else 0), _Handler)
                )
            return servers
        except OSError as error:
            for server in servers:
                server.server_close()
            if error.errno != errno.EADDRINUSE:
                raise WorkError(
                    f"the demo cannot listen on {addresses[len(servers)]}: {error.strerror}"
                ) from None
    raise WorkError(
        f"found no port that is free on all of {', '.join(addresses)} in {attempts} attempts"
    )


def free_port(first: int = FIRST_PORT, last: int = LAST_PORT) -> int:
    """Return the first free port of loopback.

    Raises:
        WorkError: all are taken.
    """
    for port in range(first, last + 1):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise WorkError(f"ports {first} to {last} on 127.0.0.1 are all in use")


def run_demo(
    *,
    url: str = "",
    pages: int | None = None,
    serve: bool = True,
    folder: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Crawl and search the bundled web or a site, and serve it until Ctrl-C.

    With `url`, at most `pages` pages (default 200) of that site are crawled, and not searched.
    Every step is a command of `lycosa`, printed before it runs. A new workspace `demo-data` is
    created in `folder` (default: the current one); it replaces an earlier one.

    Raises:
        UsageError: `demo-data` exists and is not a workspace.
        WorkError: a command failed.
    """
    _make_room((folder or Path.cwd()) / WORKSPACE)

    def lycosa(*arguments: str) -> None:
        _run(("-w", WORKSPACE, *arguments), folder, say)

    if url:
        limit = pages if pages is not None else PAGES_OF_A_REAL_SITE
        say(
            f"Crawling at most {limit} pages of {url}, at most 1 page per second. Change the "
            "number with PAGES=…."
        )
        lycosa("crawl", url, "--max-pages", str(limit))
        _serve(lycosa, serve)
        return
    with serve_demo_web() as web:
        names = ", ".join(f"{name} ({origin})" for name, origin in web.origins.items())
        say(f"Demo sites, reachable from this machine only: {names}")
        lycosa("crawl", *web.seeds(), "--delay", "50ms")
        for query in QUERIES:
            lycosa("search", query, "-n", "3")
        _serve(lycosa, serve)


def _serve(lycosa: Callable[..., None], enabled: bool) -> None:
    if enabled:
        with suppress(KeyboardInterrupt):
            lycosa("serve", "--port", str(free_port()))


def _make_room(workspace: Path) -> None:
    """Remove the workspace of an earlier demonstration.

    Raises:
        UsageError: the folder is not a workspace.
    """
    if not workspace.exists():
        return
    if not (workspace / "workspace.json").is_file():
        raise UsageError(
            f"{workspace} exists but is not a Lycosa workspace: move or rename it, because the "
            "demo creates its workspace there"
        )
    shutil.rmtree(workspace)


def _run(arguments: Sequence[str], folder: Path | None, say: Callable[[str], None]) -> None:
    """Run one `lycosa` command with this terminal.

    Ctrl-C is sent to the command too; this process waits until the command has ended.
    """
    say(f"\n$ lycosa {shlex.join(arguments)}")
    sys.stdout.flush()
    with (
        _sigterm_held() as release_sigterm,
        subprocess.Popen(
            [sys.executable, "-m", "lycosa.cli.main", *arguments], cwd=folder
        ) as process,
    ):
        try:
            release_sigterm()
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise
        except SystemExit:
            process.terminate()
            raise
    if code:
        raise WorkError(f"`lycosa {shlex.join(arguments)}` ended with exit code {code}")


@contextmanager
def _sigterm_held() -> Iterator[Callable[[], None]]:
    """Hold SIGTERM back until the function is called: a process that starts could not be ended."""
    received: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))

    def release() -> None:
        signal.signal(signal.SIGTERM, handler)
        if received:
            signal.raise_signal(received.pop())

    try:
        yield release
    finally:
        signal.signal(signal.SIGTERM, handler)
