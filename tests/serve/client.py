"""A client that calls an ASGI application without a socket, and its credentials."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import httpx
from fastapi import FastAPI

from lycosa.commands.maintenance.tokens import Tokens
from lycosa.store.storage.storage import open_storage

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}


class Client:
    """Synchronous methods that return httpx responses.

    An exception that the application turns into a response is not raised here.
    """

    def __init__(self, app: FastAPI, base_url: str = "http://127.0.0.1") -> None:
        self._app = app
        self._base_url = base_url

    def get(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        return self.request("GET", path, params, headers)

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> httpx.Response:
        """Send a request without a body, from an IP address."""
        return self._send(method, path, b"", params, headers, address)

    def send(
        self, method: str, path: str, content: str | bytes, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a request with a body."""
        return self._send(method, path, content, None, headers, "127.0.0.1")

    def _send(
        self,
        method: str,
        path: str,
        content: str | bytes,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str] | None,
        address: str,
    ) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(
                self._app, raise_app_exceptions=False, client=(address, 50_000)
            )
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(
                    method, path, params=params, headers=headers, content=content
                )

        return asyncio.run(send())


def bearer_headers(root: str, name: str = "ada") -> dict[str, str]:
    """Add a token to a workspace; return headers of a JSON request."""
    return {**JSON, "authorization": f"Bearer {Tokens(open_storage(root)).add(name)}"}


def sign_in(client: Client, token: str) -> tuple[dict[str, str], str]:
    """Sign in; return headers of a form request, and the CSRF token."""
    response = client.send("POST", "/login", f"token={token}", FORM)
    headers = {**FORM, "cookie": response.headers["set-cookie"].partition(";")[0]}
    csrf = re.search(
        r'name="csrf" value="([0-9a-f]{64})"', client.get("/login", headers=headers).text
    )
    assert csrf
    return headers, csrf[1]
