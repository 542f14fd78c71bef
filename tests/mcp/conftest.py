"""Share a workspace with a demo site, and calls by the official client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from lycosa import Workspace
from lycosa.commands.demo.demo import DemoWeb
from lycosa.mcp.server import McpOptions, create_server
from mcp import Client
from tests.servers.demo import web as web

QUICK = (
    *("collection.delay=0s", "collection.courtesy_factor=0", "crawl.patience=1s"),
    "index.heap=15MiB",
)
_Result = TypeVar("_Result")
ClientScript = Callable[[Client], Awaitable[_Result]]


@pytest.fixture(scope="module")
def site(web: DemoWeb) -> str:
    return f"{web.origins['wolfspiders']}/"


@pytest.fixture(scope="module")
def root(site: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A workspace with the 18 pages of the site `wolfspiders`."""
    workspace = Workspace(tmp_path_factory.mktemp("mcp") / "workspace", QUICK)
    assert workspace.crawl(site).pages == 18
    return workspace.root


def address(url: str) -> str:
    """The `HOST:PORT` of a URL."""
    return url.split("/")[2]


def run_client(options: McpOptions, script: ClientScript[_Result], **named: Any) -> _Result:
    """Run `script` with the official client and a server in this process."""
    server, close = create_server(options)

    async def run() -> _Result:
        async with Client(server, **named) as client:
            return await script(client)

    try:
        return anyio.run(run)
    finally:
        close()


def ask(options: McpOptions, tool: str, arguments: dict[str, Any]) -> tuple[bool, str, Any]:
    """Call a tool. Return whether it failed, its text and its result."""

    async def script(client: Client) -> tuple[bool, str, Any]:
        reply = await client.call_tool(tool, arguments)
        text = "".join(each.text for each in reply.content)  # type: ignore[union-attr]
        return bool(reply.is_error), text, reply.structured_content

    return run_client(options, script)


def call(options: McpOptions, tool: str, **arguments: Any) -> Any:
    """Call a tool that works; return its result."""
    failed, text, content = ask(options, tool, arguments)
    assert not failed, text
    return content["result"]


def failure(options: McpOptions, tool: str, **arguments: Any) -> str:
    """Call a tool that fails; return its message."""
    failed, text, _ = ask(options, tool, arguments)
    assert failed, text
    assert text.startswith(f"Error executing tool {tool}: "), "an unexpected error"
    return text


def new_root(folder: Path) -> str:
    return str(folder / "workspace")
