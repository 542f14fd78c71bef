"""A small site that treats its visitors differently: it sets cookies, asks for passwords, and lets
members in by a form.

`/` leads everywhere. `/open/…` set and show cookies, `/basic/…` want Basic authentication,
`/club/…` the session that the form at `/login` opens (user `wolf`, password `spider`); a session is
good for so many pages. Requests are kept as they came.
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
_PAGE = "<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p>{links}</body></html>"


@dataclass
class Asked:
    """One request: header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Members:
    """The site. `pages_a_session`: how many club pages a session opens before it ends."""

    pages_a_session: int = 1_000
    robots: str = ""
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)  # session -> pages left
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def to(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path == path]

    def answer(self, asked: Asked) -> tuple[int, list[tuple[str, str]], str]:
        path = asked.path
        if path == "/robots.txt":
            return (
                (200, [("Content-Type", "text/plain")], self.robots)
                if self.robots
                else (404, [], "")
            )
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
            return self._page(
                "open seen=home"
                if "seen=home" in asked.headers.get("cookie", "")
                else "open unseen",
                [],
            )
        if path.startswith("/basic/"):
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if asked.headers.get("authorization") != f"Basic {token}":
                return 401, [("WWW-Authenticate", 'Basic realm="x"')], "no"
            return self._page("secret basic", [])
        if path == "/login":
            return self._login(asked)
        if path == "/welcome":
            return self._page("welcome", [])
        if path.startswith("/club/"):
            session = asked.headers.get("cookie", "").partition("session=")[2].partition(";")[0]
            with self.lock:
                left = self.sessions.get(session, 0)
                self.sessions[session] = left - 1
            return (
                self._page(f"club {path}", [])
                if left > 0
                else (302, [("Location", f"/login?next={path}")], "")
            )
        return 404, [], "nothing"

    def _login(self, asked: Asked) -> tuple[int, list[tuple[str, str]], str]:
        form = (
            '<form method="post"><input type="hidden" name="token" value="t&amp;1"><input '
            'name="user"><input type="password" name="pass">'
        )
        if asked.method == "GET":
            return (
                200,
                [("Content-Type", "text/html"), ("Set-Cookie", "form=1")],
                _PAGE.format(title="log in", text=form, links="</form>"),
            )
        sent = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        if sent != {
            "token": "t&1",
            "user": USER,
            "pass": PASSWORD,
        } or "form=1" not in asked.headers.get("cookie", ""):
            return (
                200,
                [("Content-Type", "text/html")],
                _PAGE.format(title="wrong", text=form, links="</form>"),
            )
        with self.lock:
            session = f"s3cr3t-{len(self.sessions)}"
            self.sessions[session] = self.pages_a_session
        return (
            302,
            [("Location", "/welcome"), ("Set-Cookie", f"session={session}; HttpOnly; Path=/")],
            "",
        )

    def _page(
        self, title: str, links: list[str], headers: list[tuple[str, str]] | None = None
    ) -> tuple[int, list[tuple[str, str]], str]:
        anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
        return (
            200,
            [("Content-Type", "text/html"), *(headers or [])],
            _PAGE.format(title=title, text=f"Words of {title}.", links=anchors),
        )


class Answering(Protocol):
    """A site that answers requests by itself."""

    port: int
    asked: list[Asked]

    def answer(self, asked: Asked) -> tuple[int, list[tuple[str, str]], str]:
        """(status, headers, text)."""
        ...


Site = TypeVar("Site", bound=Answering)


@contextmanager
def members(site: Site) -> Iterator[Site]:
    """Serve a site on loopback."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(
                self.command,
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                body,
            )
            site.asked.append(asked)
            status, headers, text = site.answer(asked)
            self.reply(status, text.encode(), headers)

        do_POST = do_GET

    server = QuietServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    with serving(server):
        yield site
