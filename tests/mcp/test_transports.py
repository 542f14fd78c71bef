"""Test `lycosa mcp` with the official client over both transports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from lycosa import Workspace
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.store.storage.storage import open_storage
from mcp import Client, StdioServerParameters
from tests.cli.conftest import run_here
from tests.mcp.conftest import QUICK, address, new_root
from tests.waiting import until

SETTINGS = [word for each in QUICK for word in ("--set", each)]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def _command(root: str, *options: str) -> list[str]:
    return ["-m", "lycosa", "-w", root, *SETTINGS, "mcp", *options]


def _run(
    root: str, *options: str, input_text: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `lycosa mcp` over stdio with this input until it ends."""
    return subprocess.run(
        [sys.executable, *_command(root, *options)],
        input=input_text,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextlib.contextmanager
def http_server(root: str, *options: str) -> Iterator[str]:
    """Run `lycosa mcp --http`; yield its URL."""
    process = subprocess.Popen(
        [sys.executable, *_command(root, "--http", "--port", "0", *options)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        match = re.search(r"Serving MCP at (http://\S+/mcp)\.", line)
        assert match, line + process.stderr.read()
        yield match[1]
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    assert rest == ""
    assert process.returncode == 0


@asynccontextmanager
async def connected(transport: str, root: str, *options: str) -> AsyncIterator[Client]:
    """Connect the official client to a new server over this transport."""
    if transport == "stdio":
        parameters = StdioServerParameters(
            command=sys.executable, args=_command(root, *options), env={**os.environ}
        )
        async with Client(parameters) as client:
            yield client
        return
    token = Tokens(open_storage(root)).add("agent")
    headers = {"Authorization": f"Bearer {token}"}
    with http_server(root, *options) as url:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_crawl_search_and_read(transport: str, site: str, tmp_path: Path) -> None:
    root = new_root(tmp_path)
    Workspace(root, QUICK).crawl(site, max_pages=1)
    reports: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))

    async def script() -> Any:
        allowed = ("--allow-fetch", "--allow-crawl", "--allow-private", address(site))
        async with connected(transport, root, *allowed) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"search", "fetch_page", "crawl_site", "focused_crawl"} <= names
            crawled = await client.call_tool(
                "crawl_site",
                {"url": site, "max_pages": 18},
                progress_callback=on_progress,
            )
            assert crawled.structured_content is not None, crawled
            assert crawled.structured_content["result"]["pages"] == 18
            query = {"query": "how do wolf spider mothers carry their young"}
            answer = await client.call_tool("search", query)
            assert answer.structured_content is not None
            best = answer.structured_content["result"]["hits"][0]["url"]
            rows = await client.call_tool("sql", {"query": "SELECT count(*) AS n FROM pages"})
            assert rows.structured_content is not None
            assert rows.structured_content["result"]["rows"] == [[19]]
            page = await client.call_tool("fetch_page", {"url": best})
            assert page.structured_content is not None
            return page.structured_content["result"]

    page = anyio.run(script)
    assert page["url"] == f"{site}life/mothers.html"
    assert "The mother spins a disc of silk" in page["markdown"]
    assert reports[0] == (0, 18)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_protocol_versions_are_supported(mode: str, root: str) -> None:
    async def script() -> set[str]:
        parameters = StdioServerParameters(
            command=sys.executable, args=_command(root), env={**os.environ}
        )
        async with Client(parameters, mode=mode) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert "search" in anyio.run(script)


def test_invalid_input_lines_do_not_stop_the_server(root: str) -> None:
    """Lines that are not JSON-RPC, then end of input."""
    hostile = ["", "{", "[]", "null", "\x1b[2J", "x" * 100_000, '{"jsonrpc":"2.0","id":{}}']
    lines = [*hostile, json.dumps({**PING, "params": {}})]
    done = _run(root, input_text="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def served(root: str) -> Iterator[tuple[str, str]]:
    """The URL of a server, and a token."""
    token = Tokens(open_storage(root)).add("reader")
    with http_server(root) as url:
        yield url, token


def _post(url: str, token: str, **headers: str) -> httpx.Response:
    fields = {"Accept": "application/json, text/event-stream", **headers}
    if token:
        fields["Authorization"] = f"Bearer {token}"
    return httpx.post(url, json=PING, headers=fields)


@pytest.mark.proves("access-mcp-http")
def test_a_token_is_required(served: tuple[str, str]) -> None:
    url, token = served
    refused = _post(url, "")
    assert refused.status_code == 401
    assert "lycosa token add NAME" in refused.json()["detail"]
    assert refused.headers["www-authenticate"] == "Bearer"
    assert _post(url, "lycosa_wrong").status_code == 401
    assert _post(url, token).status_code not in (401, 403, 421)
    assert httpx.get(url).status_code == 401
    assert httpx.get(url.removesuffix("mcp")).status_code == 401


@pytest.mark.proves("access-mcp-http")
@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:8010", "169.254.169.254"])
def test_a_foreign_host_is_refused(host: str, served: tuple[str, str]) -> None:
    url, token = served
    assert _post(url, token, Host=host).status_code == 421


@pytest.mark.proves("access-mcp-http")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", ""])
def test_a_page_of_another_site_is_refused(origin: str, served: tuple[str, str]) -> None:
    url, token = served
    assert _post(url, token, Origin=origin).status_code == 403


def test_the_origin_of_the_server_is_accepted(served: tuple[str, str]) -> None:
    url, token = served
    assert _post(url, token, Origin=url.removesuffix("/mcp")).status_code not in (401, 403)


@pytest.mark.proves("access-mcp-limits")
def test_a_large_request_is_refused(served: tuple[str, str]) -> None:
    url, token = served
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    assert httpx.post(url, content=b" " * 2_000_000, headers=headers).status_code == 413


def test_a_revoked_token_is_refused(root: str, served: tuple[str, str]) -> None:
    url, _ = served
    tokens = Tokens(open_storage(root))
    token = tokens.add("short")
    until(lambda: _post(url, token).status_code != 401)
    tokens.remove("short")
    until(lambda: _post(url, token).status_code == 401)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--port", "0"), "--host and --port require --http"),
        (("--allow-private", "x"), "write HOST:PORT"),
        (("--max-time", "soon"), "soon"),
        (("--http", "--host", "192.0.2.1", "--port", "0"), "cannot listen on 192.0.2.1"),
    ],
)
def test_invalid_options_are_reported(options: tuple[str, ...], message: str, root: str) -> None:
    done = run_here(*_command(root, *options)[2:])
    assert done.code in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err


def test_without_the_mcp_package_the_message_names_the_extra(root: str, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('not installed')\n")
    path = os.pathsep.join([str(tmp_path), *(each for each in sys.path if each)])
    done = _run(root, PYTHONPATH=path)
    assert done.returncode == 2
    assert "pip install 'lycosa[mcp]'" in done.stderr
    assert done.stdout == ""
