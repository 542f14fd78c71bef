"""A small site with cookies, Basic authentication and a login form.

`/` links to all pages. `/open/…` show whether a cookie was sent, `/basic/…` require Basic
authentication, and `/club/…` the session that the form at `/login` opens (user `wolf`, password
`spider`). A session ends after a number of pages. All requests are recorded.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import parse_qs

from tests.servers.local_http import QuietHandler, QuietServer, serving

USER, PASSWORD = "wolf", "spider"
Response = tuple[int, list[tuple[str, str]], str]
"""(status, headers, text)."""

_PAGE = "<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p>{links}</body></html>"


@dataclass
class Request:
    """One request: header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Members:
    """The site. `pages_per_session`: number of `/club/` pages after which a session ends."""

    pages_per_session: int = 1_000
    robots: str = ""
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)  # session -> pages left
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def requests_to(self, path: str) -> list[Request]:
        """Return the requests for a path."""
        return [each for each in self.requests if each.path == path]

    def answer(self, request: Request) -> Response:
        """Return (status, headers, text)."""
        path = request.path
        if path == "/robots.txt" and self.robots:
            return 200, [("Content-Type", "text/plain")], self.robots
        if path == "/":
            links = [
                f"/{part}/{number}" for part in ("open", "basic", "club") for number in range(4)
            ]
            return self._page(
                "home",
                links,
                [("Set-Cookie", "seen=home; Path=/open"), ("Set-Cookie", "evil=1; Domain=com")],
            )
        if path.startswith("/open/"):
            seen = "seen=home" in request.headers.get("cookie", "")
            return self._page("open seen=home" if seen else "open unseen", [])
        if path == "/wall":
            if "passed=1" in request.headers.get("cookie", ""):
                return self._page("behind the wall", [])
            return 302, [("Location", "/wall"), ("Set-Cookie", "passed=1")], ""
        if path == "/loop":
            return 302, [("Location", "/loop"), ("Set-Cookie", "again=1")], ""
        if path.startswith("/basic/"):
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if request.headers.get("authorization") != f"Basic {token}":
                return 401, [("WWW-Authenticate", 'Basic realm="x"')], "no"
            return self._page("secret basic", [])
        if path == "/login":
            return self._login(request)
        if path == "/welcome":
            return self._page("welcome", [])
        if path.startswith("/club/"):
            session = request.headers.get("cookie", "").partition("session=")[2].partition(";")[0]
            with self.lock:
                left = self.sessions.get(session, 0)
                self.sessions[session] = left - 1
            if left > 0:
                return self._page(f"club {path}", [])
            return 302, [("Location", f"/login?next={path}")], ""
        return 404, [], "nothing"

    def _login(self, request: Request) -> Response:
        form = (
            '<form method="post"><input type="hidden" name="token" value="t&amp;1"><input '
            'name="user"><input type="password" name="pass">'
        )
        html = ("Content-Type", "text/html")
        if request.method == "GET":
            text = _PAGE.format(title="log in", text=form, links="</form>")
            return 200, [html, ("Set-Cookie", "form=1")], text
        sent = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        has_cookie = "form=1" in request.headers.get("cookie", "")
        if sent != {"token": "t&1", "user": USER, "pass": PASSWORD} or not has_cookie:
            return 200, [html], _PAGE.format(title="wrong", text=form, links="</form>")
        with self.lock:
            session = f"s3cr3t-{len(self.sessions)}"
            self.sessions[session] = self.pages_per_session
        cookie = f"session={session}; HttpOnly; Path=/"
        return 302, [("Location", "/welcome"), ("Set-Cookie", cookie)], ""

    def _page(
        self, title: str, links: list[str], headers: list[tuple[str, str]] | None = None
    ) -> Response:
        anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
        return (
            200,
            [("Content-Type", "text/html"), *(headers or [])],
            _PAGE.format(title=title, text=f"Words of {title}.", links=anchors),
        )


class RecordingSite(Protocol):
    """A site that computes its responses and records its requests."""

    port: int
    requests: list[Request]

    def answer(self, request: Request, /) -> Response:
        """Return (status, headers, text)."""
        ...


Site = TypeVar("Site", bound=RecordingSite)


@contextmanager
def served_site(site: Site) -> Iterator[Site]:
    """Serve a site on loopback until the block ends."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fields = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, fields, body)
            site.requests.append(request)
            status, headers, text = site.answer(request)
            self.reply(status, text.encode(), headers)

        do_POST = do_GET

    server = QuietServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    with serving(server):
        yield site
