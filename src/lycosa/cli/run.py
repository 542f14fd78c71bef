"""`lycosa run`: work the configured collections for good, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from lycosa.cli.common import (
    AddressOption,
    EngineOption,
    SetOption,
    WorkersOption,
    WorkspaceOption,
    is_shared,
    load_config,
    note,
    open_engine,
    workspace_root,
)


def command(
    context: typer.Context,
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="Crawl only this collection; repeatable (default: all).",
        ),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = "",
    workers: WorkersOption = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Also serve the web interface and the API, as `lycosa serve` does."
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", min=0, max=65535, help="Port for --serve; 0 selects a free port."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address to listen on for --serve.")
    ] = "",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="N",
            min=0,
            max=65535,
            help="Serve Prometheus metrics on this port; 0 selects a free port.",
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            "--metrics-host", metavar="HOST", help="Address to listen on for --metrics-port."
        ),
    ] = "127.0.0.1",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Crawl the configured collections continuously.

    Recrawls pages, updates the index and compacts the tables until Ctrl-C or SIGTERM.
    """
    from contextlib import ExitStack

    from lycosa.core.errors import UsageError
    from lycosa.daemon.daemon import RunOrder, run
    from lycosa.daemon.metrics_port import MetricsPort
    from lycosa.processes.memory import steady_memory

    if not serve and (port is not None or host):
        raise UsageError("--port and --host require --serve")

    gc.freeze()  # so that the daemon's look for garbage costs 5 ms, not 100
    steady_memory()
    before = context.obj[1] if context.obj else ()
    root = workspace_root(context, workspace)
    order = RunOrder(root, tuple(collections or ()), (*before, *(overrides or ())), workers)
    with ExitStack() as stack:
        if metrics_port is not None:
            served = stack.enter_context(MetricsPort(root, metrics_port, metrics_host))
            _say(f"serving metrics at {served.address}")
        if serve:
            from lycosa.serve.processes import ServerOptions, ServerProcesses

            settings = load_config(context, root, overrides, bad={}).serve
            pages = ServerOptions(
                root,
                host or settings.host,
                settings.port if port is None else port,
                order.overrides,
            )
            stack.enter_context(ServerProcesses(pages, _say, settings.processes))
        opened = None
        if is_shared(engine, workers):
            opened = stack.enter_context(
                open_engine(engine, address, load_config(context, root, overrides, bad={}))
            )
        run(order, _say, engine=opened)


def _say(message: str) -> None:
    """A line for people, with the time (UTC)."""
    from datetime import UTC, datetime

    note(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}")
