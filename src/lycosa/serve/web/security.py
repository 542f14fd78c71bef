"""The security headers of every response, and a check of the Host header.

The pages show text from untrusted sites. The policy lets a browser load our own style sheet and
icon and nothing else: no script, no image, no frame, no request to another machine (Content
Security Policy Level 3).
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from lycosa.core.messages import Message
from lycosa.serve.web.i18n import message
from lycosa.serve.web.problems import error_response

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",  # a query must not reach the site that is clicked
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex, nofollow",
}

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


def allowed_hosts(listen_host: str) -> frozenset[str] | None:
    """Return the host names that requests may use when we listen on `listen_host`; None: any.

    On loopback only the names of loopback are allowed: otherwise another site could resolve its own
    name to 127.0.0.1 and read the pages (DNS rebinding). On a public address, the reverse proxy of
    the operator decides.
    """
    if listen_host in _LOOPBACK_NAMES or listen_host.startswith("127."):
        return _LOOPBACK_NAMES | {listen_host}
    return None


def host_of(header: str) -> str:
    """Return the host in a Host header, without port, in lower case (RFC 9110 section 7.2)."""
    host = header.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


class SecurityMiddleware:
    """ASGI middleware: refuses foreign Host headers with 421, adds missing `SECURITY_HEADERS` to
    every HTTP response, and allows HEAD for all routes with GET (RFC 9110 section 9.3.2; the server
    omits the body).
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] | None = None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(part: AsgiMessage) -> None:
            if part["type"] == "http.response.start":
                headers = MutableHeaders(scope=part)
                for name, value in SECURITY_HEADERS.items():
                    # a cached copy, and the frame around it, bring policies of their own
                    headers.setdefault(name, value)
                static = scope["path"].startswith("/static/")
                headers.setdefault("cache-control", "no-cache" if static else "no-store")
            await send(part)

        if (
            self._hosts is not None
            and host_of(Headers(scope=scope).get("host", "")) not in self._hosts
        ):
            answer = error_response(
                Request(scope),
                421,
                message("This server answers to its own address only"),
                Message("foreign_host", "The Host header names another machine."),
            )
            await answer(scope, receive, send_guarded)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send_guarded)
