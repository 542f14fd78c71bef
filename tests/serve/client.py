"""Asking an ASGI application without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from fastapi import FastAPI


class Client:
    """Plain calls in, httpx responses out. Errors that the application answers and raises again are
    not raised here.
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
        """`address` is the client's."""
        return self._ask(method, path, b"", params, headers, address)

    def send(
        self, method: str, path: str, content: str | bytes, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """A request with a body."""
        return self._ask(method, path, content, None, headers, "127.0.0.1")

    def _ask(
        self,
        method: str,
        path: str,
        content: str | bytes,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str] | None,
        address: str,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(
                self._app, raise_app_exceptions=False, client=(address, 50_000)
            )
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(
                    method, path, params=params, headers=headers, content=content
                )

        return asyncio.run(ask())
