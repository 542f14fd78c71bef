"""Asking an ASGI application without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from fastapi import FastAPI


class Client:
    """Plain calls in, httpx responses out. Errors that the application answers and raises again are not raised here."""

    def __init__(self, app: FastAPI, base_url: str = "http://127.0.0.1") -> None:
        self._app = app
        self._base_url = base_url

    def get(self, path: str, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, params, headers)

    def request(
        self, method: str, path: str, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(method, path, params=params, headers=headers)

        return asyncio.run(ask())
