"""`lycosa serve`: the search page and the JSON API."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lycosa.cli.common import SetOption, load_config, note, require_workspace, workspace_roots

if TYPE_CHECKING:
    from lycosa.cluster.engine import Engine
    from lycosa.serve.processes import ServerOptions
    from lycosa.serve.search.sources import Source

READY_S = 60.0
"""How long replicas may take to open their shards before the page is served without those that are
not there yet.
"""


def command(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Port (default 8000); 0 selects a free port.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", metavar="HOST", help="Address to listen on (default 127.0.0.1)."),
    ] = "",
    engine: Annotated[
        Literal["", "local", "ray"],
        typer.Option(
            "--engine",
            metavar="local|ray",
            help="Search index shards in replicas: in local processes, or on a Ray cluster.",
        ),
    ] = "",
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Address of the Ray cluster. Without it, a cluster on this machine is started.",
        ),
    ] = "",
    replicas: Annotated[
        int,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            max=100,
            help="Number of replicas per shard, with --engine.",
        ),
    ] = 1,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            max=64,
            help="Number of server processes (default 1).",
        ),
    ] = None,
    workspaces: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            "--workspace",
            metavar="DIR",
            help="Workspace directory (default ./lycosa-data); further ones are searched too.",
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer", metavar="URL", help="Also search another Lycosa server; repeatable."
        ),
    ] = None,
    overrides: SetOption = None,
) -> None:
    """Serve the web interface and the JSON API."""
    from lycosa.commands.inspection.status import workspace_status
    from lycosa.core.errors import UsageError
    from lycosa.search.engine.replicas import ReplicaKeeper
    from lycosa.search.federation.federated_search import open_federated_search
    from lycosa.search.federation.shards import Federation, ShardsBackend
    from lycosa.serve.processes import ServerOptions
    from lycosa.serve.search.sources import ShardsAndOthers, ShardSource
    from lycosa.serve.server import run_server

    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    roots = workspace_roots(context, workspaces)
    root = roots[0]
    require_workspace(root)
    config = load_config(context, root, overrides)
    many = config.serve.processes if processes is None else processes
    if many > 1:
        if engine or len(roots) > 1 or peers:
            raise UsageError(
                "--processes serves one workspace: configure other workspaces and "
                "peers in lycosa.toml, [search]"
            )
        _serve_by(
            many,
            ServerOptions(
                root,
                host or config.serve.host,
                config.serve.port if port is None else port,
                _overrides(context, overrides),
            ),
        )
        return
    with contextlib.ExitStack() as stack:
        source: Source | None = None
        others = len(roots) > 1 or peers or config.search.peers or config.search.workspaces
        if others and not engine:
            source = stack.enter_context(
                contextlib.closing(open_federated_search(roots, peers or [], config, own_name=""))
            )
        if engine:
            machines = stack.enter_context(
                contextlib.closing(_engine(engine, address, config.cluster.install))
            )
            keeper = stack.enter_context(
                contextlib.closing(
                    ReplicaKeeper(machines, root, replicas, copy=engine == "ray", say=note)
                )
            )
            federation = stack.enter_context(contextlib.closing(Federation(keeper.replicas)))
            source = ShardSource(federation)
            if others:
                shards = [ShardsBackend("", federation)]
                joined = stack.enter_context(
                    contextlib.closing(
                        open_federated_search(roots[1:], peers or [], config, whole=shards)
                    )
                )
                source = ShardsAndOthers(federation, joined)
            if not keeper.wait(READY_S):
                note("some shards are not ready; search results name the missing ones")
        run_server(
            root,
            host or config.serve.host,
            config.serve.port if port is None else port,
            status=lambda: workspace_status(root),
            source=source,
            limits=config.serve,
        )


def _serve_by(processes: int, served: ServerOptions) -> None:
    """Serve by several processes until SIGINT or SIGTERM."""
    import signal

    from lycosa.processes.stopping import StopFlag
    from lycosa.serve.processes import ServerProcesses

    ended = StopFlag()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ServerProcesses(served, print, processes):
        ended.wait()


def _overrides(context: typer.Context, own: list[str] | None) -> tuple[str, ...]:
    before: tuple[str, ...] = context.obj[1] if context.obj else ()
    return (*before, *(own or ()))


def _engine(name: str, address: str, install: str) -> Engine:
    """Raises UsageError if the engine is not installed or takes no address, WorkError if its
    cluster cannot be reached.
    """
    from lycosa.cluster.engines.local import LocalEngine
    from lycosa.core.errors import UsageError

    if name == "local":
        if address:
            raise UsageError("--address names a Ray cluster: use it with --engine ray")
        return LocalEngine()
    try:
        from lycosa.cluster.engines.ray import RayEngine
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--engine ray needs Ray, which is not installed ({error.name}): pip "
            "install 'lycosa[ray]'"
        ) from None
    return RayEngine(address, install=install)
