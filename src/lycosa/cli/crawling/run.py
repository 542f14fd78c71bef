"""`lycosa run`: crawl the configured collections continuously, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from lycosa.cli.crawling.progress import exit_on_signals
from lycosa.cli.options import EngineWorkers, InWorkspace, ListenOption, PortOption
from lycosa.cli.output import timed_note
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError


@dataclass(frozen=True)
class PageOptions:
    """The options of the web interface and of the metrics during the crawl."""

    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Also serve the web interface and the API, as `lycosa serve` does."
        ),
    ] = False
    port: PortOption = None
    host: ListenOption = ""
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="N",
            min=0,
            max=65535,
            help="Serve Prometheus metrics on this port; 0 selects a free port.",
        ),
    ] = None
    metrics_host: Annotated[
        str,
        typer.Option(
            "--metrics-host", metavar="HOST", help="Address to listen on for --metrics-port."
        ),
    ] = "127.0.0.1"


def command(
    where: InWorkspace,
    engine: EngineWorkers,
    pages: PageOptions,
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="Crawl only this collection; repeatable (default: all).",
        ),
    ] = None,
) -> None:
    """Crawl the configured collections continuously.

    Recrawls pages, updates the index and compacts the tables until Ctrl-C or SIGTERM.
    """
    from lycosa.commands.engines import is_shared, open_engine
    from lycosa.daemon.daemon import RunOrder, run
    from lycosa.daemon.metrics_port import metrics_served
    from lycosa.processes.memory import steady_memory

    if not pages.serve and (pages.port is not None or pages.host):
        raise UsageError("--port and --host require --serve")
    exit_on_signals()
    gc.freeze()  # a garbage collection in the daemon then takes 5 ms, not 100 ms
    steady_memory()
    order = RunOrder(where.root, tuple(collections or ()), tuple(where.settings), engine.workers)
    with ExitStack() as stack:
        if pages.metrics_port is not None:
            address = stack.enter_context(
                metrics_served(where.root, pages.metrics_port, pages.metrics_host)
            )
            timed_note(f"serving metrics at {address}")
        if pages.serve:
            _serve(stack, where, pages)
        processes = None
        if is_shared(engine.engine, engine.address, engine.workers):
            processes = stack.enter_context(
                open_engine(engine.engine, engine.address, where.open().config(errors={}))
            )
        run(replace(order, engine=processes), timed_note)


def _serve(stack: ExitStack, where: InWorkspace, pages: PageOptions) -> None:
    from lycosa.serve.processes import ServerProcesses
    from lycosa.serve.server import ServerOptions

    settings = where.open().config(errors={}).serve
    served = ServerOptions(
        where.root,
        pages.host or settings.host,
        settings.port if pages.port is None else pages.port,
        tuple(where.settings),
    )
    stack.enter_context(ServerProcesses(served, timed_note, settings.processes)).start()
