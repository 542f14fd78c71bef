"""`lycosa mcp`: the workspace as tools of language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lycosa.cli.crawling.progress import exit_on_signals
from lycosa.cli.options import InWorkspace, ListenOption
from lycosa.cli.output import note
from lycosa.core.errors import UsageError

DEFAULT_PORT = 8010


@dataclass(frozen=True)
class AllowOptions:
    """The actions that clients may take, apart from reading, and their limits."""

    allow_fetch: Annotated[
        bool, typer.Option("--allow-fetch", help="Let clients fetch single pages.")
    ] = False
    allow_crawl: Annotated[
        bool, typer.Option("--allow-crawl", help="Let clients crawl sites and store pages.")
    ] = False
    allow_private: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-private",
            metavar="HOST:PORT",
            help="Let clients fetch from this private address; repeatable.",
        ),
    ] = None
    collection: Annotated[
        str,
        typer.Option("--collection", metavar="NAME", help="Collection that crawls store pages in."),
    ] = "mcp"
    max_pages: Annotated[
        int,
        typer.Option("--max-pages", metavar="N", min=1, help="Maximum number of pages of a crawl."),
    ] = 200
    max_time: Annotated[
        str, typer.Option("--max-time", metavar="TIME", help="Maximum duration of a crawl.")
    ] = "10m"


def command(
    where: InWorkspace,
    allow: AllowOptions,
    http: Annotated[
        bool,
        typer.Option("--http", help="Serve over HTTP with tokens instead of standard input."),
    ] = False,
    host: ListenOption = "",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help=f"Port (default {DEFAULT_PORT}); 0 selects a free port.",
        ),
    ] = None,
) -> None:
    """Serve the workspace to language models (Model Context Protocol)."""
    try:
        import mcp  # noqa: F401 - of the extra
    except ImportError:
        raise UsageError(
            "`lycosa mcp` needs the package mcp, which is not installed: pip install 'lycosa[mcp]'"
        ) from None
    from lycosa.core.parameters import duration_ms
    from lycosa.crawl.worker import Limits
    from lycosa.mcp.http import serve_http, serve_stdio
    from lycosa.mcp.server import McpOptions

    if not http and (host or port is not None):
        raise UsageError("--host and --port require --http")
    settings = where.open().config().serve
    options = McpOptions(
        where.root,
        where.settings,
        allow.allow_fetch,
        allow.allow_crawl,
        allow.allow_private or (),
        allow.collection,
        Limits(allow.max_pages, duration_ms("max_time", allow.max_time)),
    )
    if http:
        exit_on_signals()
        chosen = DEFAULT_PORT if port is None else port
        serve_http(options, host or settings.host, chosen, settings, note)
    else:
        serve_stdio(options)
