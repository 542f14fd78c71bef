"""The server: which tools and resources a client sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp_types import ToolAnnotations

from lycosa.api import Workspace
from lycosa.commands.untrusted.sql import SqlRunner
from lycosa.core.errors import LycosaError, UsageError
from lycosa.core.version import VERSION
from lycosa.crawl.worker import Limits
from lycosa.fetch.connect_to import parse_connect_to
from lycosa.mcp.fetch_tools import CrawlTools, FetchTools
from lycosa.mcp.output import NOTICE, READS, WRITES, error_text
from lycosa.mcp.read_tools import SQL_DESCRIPTION, ReadTools

PAGE_TEMPLATE = "lycosa://page{?url,at}"
"""URI template of the stored pages."""

INSTRUCTIONS = f"""\
Lycosa is a web crawler, web archive and search engine. `passages` finds the parts of pages that
answer a question, `search` finds pages, `read_page` returns one as Markdown, and `page_history`
lists its archived versions. Cite pages by their URL and the time `fetched_at`.

{NOTICE}"""


MAX_CRAWL = Limits(max_pages=200, max_time_ms=600_000)
"""Default maximum limits of one crawl of a client."""


@dataclass(frozen=True)
class McpOptions:
    """The workspace of a server, and the permissions of its clients.

    Args:
        root: the workspace.
        settings: overrides of lycosa.toml.
        allow_fetch: clients may fetch pages.
        allow_crawl: clients may crawl, and so write to the workspace.
        allow_private: `HOST:PORT` that may have a private address.
        collection: where crawled pages are stored.
        limits: of one crawl.
    """

    root: str
    settings: Sequence[str] = ()
    allow_fetch: bool = False
    allow_crawl: bool = False
    allow_private: Sequence[str] = ()
    collection: str = "mcp"
    limits: Limits = MAX_CRAWL


def create_server(options: McpOptions) -> tuple[MCPServer[Any], Callable[[], None]]:
    """Return a server, and the function that ends its processes.

    Raises:
        ConfigError: a setting is wrong.
        UsageError: `allow_private` is wrong.
    """
    workspace = Workspace(options.root, _settings(options))
    server: MCPServer[Any] = MCPServer(
        "lycosa",
        title="Lycosa",
        description="Search, read and crawl web pages.",
        instructions=INSTRUCTIONS,
        version=VERSION,
        log_level="ERROR",
        resource_security=ResourceSecurity(exempt_params={"url"}),
    )
    read = ReadTools(workspace, SqlRunner(options.root))
    _add(server, read.search, READS)
    _add(server, read.passages, READS)
    _add(server, read.read_page, READS)
    _add(server, read.page_history, READS)
    _add(server, read.find_text, READS)
    _add(server, read.list_collections, READS)
    _add(server, read.sql, READS, SQL_DESCRIPTION)
    _add_pages(server, workspace)
    if options.allow_fetch:
        _add(server, FetchTools(workspace, options.collection).fetch_page, READS)
    if options.allow_crawl:
        crawls = CrawlTools(workspace, options.collection, options.limits)
        _add(server, crawls.crawl_site, WRITES)
        _add(server, crawls.focused_crawl, WRITES)
    return server, read.close


def _add(
    server: MCPServer[Any],
    tool: Callable[..., Any],
    annotations: ToolAnnotations,
    description: str | None = None,
) -> None:
    server.add_tool(tool, description=description, annotations=annotations, structured_output=True)


def _add_pages(server: MCPServer[Any], workspace: Workspace) -> None:
    @server.resource(
        PAGE_TEMPLATE,
        title="Stored page",
        description="A stored page as Markdown, by its URL. `at`: time or number of a version.",
        mime_type="text/markdown",
        meta={"untrusted": True},
    )
    def page(url: str = "", at: str = "") -> str:
        try:
            stored = workspace.archive.markdown(url, at)
        except LycosaError as error:
            raise ResourceError(error_text(error)) from None
        head = f"{NOTICE}\n\nURL: {stored.url}\nFetched at: {stored.version.fetched_at}\n"
        return f"{head}\n{stored.markdown}"


def _settings(options: McpOptions) -> list[str]:
    """Return the overrides, with the private addresses that the operator allows."""
    if not options.allow_private:
        return [*options.settings]
    entries = list(Workspace(options.root, options.settings).config().fetch.connect_to)
    for pair in options.allow_private:
        host, _, port = pair.rpartition(":")
        if not host or not port.isdecimal():
            raise UsageError(f"--allow-private {pair!r}: write HOST:PORT, for example 10.0.0.5:80")
        entries.append(f"{host}:{port}:{host}:{port}")
    parse_connect_to(entries)
    return [*options.settings, f"fetch.connect_to={json.dumps(entries)}"]
