"""`lycosa serve`: the search page and the JSON API."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lycosa.cli.common import SetOption, WorkspaceOption, load_config, note, require_workspace, workspace_root

if TYPE_CHECKING:
    from lycosa.crawl.engine import Engine

READY_S = 60.0
"""How long replicas may take to open their shards before the page is served without those that are not there yet."""


def command(
    context: typer.Context,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one (default 8000).")] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on (default 127.0.0.1).")] = "",
    engine: Annotated[
        Literal["", "local", "ray"],
        typer.Option("--engine", help="Search in replicas of the index's shards: `local` processes, or on a `ray` cluster."),
    ] = "",
    address: Annotated[str, typer.Option("--address", metavar="HOST:PORT", help="The Ray cluster; without it one is started here.")] = "",
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=100, help="Replicas of each shard, with --engine.")] = 1,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
) -> None:
    """Serve the search page and the JSON API until Ctrl-C."""
    from lycosa.app.status import workspace_status
    from lycosa.search.federation import Federation
    from lycosa.search.keeper import ReplicaKeeper
    from lycosa.serve.server import run_server
    from lycosa.serve.source import ShardSource

    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    root = workspace_root(context, workspace)
    require_workspace(root)
    config = load_config(context, root, overrides)
    with contextlib.ExitStack() as stack:
        source = None
        if engine:
            machines = stack.enter_context(contextlib.closing(_engine(engine, address, config.cluster.install)))
            keeper = stack.enter_context(contextlib.closing(ReplicaKeeper(machines, root, replicas, copy=engine == "ray", say=note)))
            source = ShardSource(stack.enter_context(contextlib.closing(Federation(keeper.replicas))))
            if not keeper.wait(READY_S):
                note("not all shards can be searched yet; answers say which are missing")
        run_server(
            root,
            host or config.serve.host,
            config.serve.port if port is None else port,
            status=lambda: workspace_status(root),
            source=source,
        )


def _engine(name: str, address: str, install: str) -> Engine:
    """Raises UsageError if the engine is not installed or takes no address, WorkError if its cluster cannot be reached."""
    from lycosa.core.errors import UsageError
    from lycosa.crawl.engines.local import LocalEngine

    if name == "local":
        if address:
            raise UsageError("--address names a Ray cluster: use it with --engine ray")
        return LocalEngine()
    try:
        from lycosa.crawl.engines.ray import RayEngine
    except ModuleNotFoundError as error:
        raise UsageError(f"--engine ray needs Ray, which is not installed ({error.name}): pip install 'lycosa[ray]'") from None
    return RayEngine(address, install=install)
