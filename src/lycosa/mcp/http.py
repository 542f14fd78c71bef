"""The transports: standard input and output, and streamable HTTP with tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.serving import ServeSettings
from lycosa.mcp.server import McpOptions, create_server
from lycosa.processes.memory import steady_memory
from lycosa.serve.server import address_of, listen
from lycosa.serve.web.access import Access
from lycosa.serve.web.problems import problem_response
from lycosa.serve.web.proxies import TrustedProxies
from lycosa.serve.web.rate_limits import RateLimitMiddleware
from lycosa.serve.web.security import SecurityMiddleware, allowed_hosts
from lycosa.serve.web.slow_clients import TimedConnection
from lycosa.store.storage.storage import open_storage

PATH = "/mcp"
MAX_REQUEST_BYTES = 2**20

_MAX_CONNECTIONS = 200


def serve_stdio(options: McpOptions) -> None:
    """Serve one client over standard input and output until it closes them."""
    steady_memory()
    server, close = create_server(options)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
    finally:
        close()


def serve_http(
    options: McpOptions,
    host: str,
    port: int,
    settings: ServeSettings,
    announce: Callable[[str], None],
) -> None:
    """Serve clients with a token over HTTP until SIGINT or SIGTERM.

    `announce` gets a line with the address once the socket listens.

    Raises:
        UsageError: the address is not one of this machine.
        WorkError: the port is taken or not allowed.
    """
    steady_memory()
    with listen(host, port) as listener:
        server, close = create_server(options)
        try:
            config = uvicorn.Config(
                create_app(server, options.root, host, settings),
                http=TimedConnection,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # `lycosa.serve.web.proxies` reads them
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=5,
            )
            announce(f"Serving MCP at {address_of(listener)}mcp. Press Ctrl-C to stop.")
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            close()


def create_app(server: MCPServer[Any], root: str, host: str, settings: ServeSettings) -> Starlette:
    """Return the application: the transport behind the checks of the web interface."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_REQUEST_BYTES,
        # Checked by `SecurityMiddleware` and `TokenRequired` for any address.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.add_middleware(TokenRequired, access=Access(Tokens(open_storage(root))))
    app.add_middleware(RateLimitMiddleware, rate=settings.rate)
    app.add_middleware(SecurityMiddleware, hosts=allowed_hosts(host))
    app.add_middleware(TrustedProxies, trusted=settings.trusted_proxies)
    return app


class TokenRequired:
    """ASGI middleware: refuses requests from pages of other sites (403) and without a token (401).

    The Host header was checked before.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            try:
                _require_same_origin(request)
                self._access.require_bearer(request)
            except HTTPException as error:
                answer = problem_response(
                    error.status_code, "Access denied", error.detail, headers=error.headers
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _require_same_origin(request: Request) -> None:
    """Refuse scripts of other sites: browsers send their Origin, programs send none.

    Raises:
        HTTPException: 403, the request is from a page of another site.
    """
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise HTTPException(403, "This request came from another web site")
