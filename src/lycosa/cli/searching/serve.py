"""`lycosa serve`: the web interface and the JSON API."""

from __future__ import annotations

import gc
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.crawling.progress import exit_on_signals
from lycosa.cli.options import EngineOptions, InWorkspaces, ListenOption, PeersOption, PortOption
from lycosa.cli.output import note
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError

if TYPE_CHECKING:
    from lycosa.config.settings import Config
    from lycosa.serve.search.sources import Source
    from lycosa.serve.server import ServerOptions

READY_S = 60.0
"""Time for replicas to open their shards; then the pages are served without the missing ones."""


@dataclass(frozen=True)
class ReplicaOptions(EngineOptions):
    """Search the index in replicas on an engine."""

    replicas: Annotated[
        int,
        typer.Option(
            "--replicas",
            metavar="N",
            min=1,
            max=100,
            help="Number of replicas per shard, with --engine.",
        ),
    ] = 1


def command(
    where: InWorkspaces,
    shards: ReplicaOptions,
    port: PortOption = None,
    host: ListenOption = "",
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
    peers: PeersOption = None,
) -> None:
    """Serve the web interface and the JSON API."""
    from lycosa.serve.server import ServerOptions, run_server
    from lycosa.store.workspace import Workspace

    exit_on_signals()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    Workspace.open(where.root)
    config = where.open().config()
    served = ServerOptions(
        where.root,
        host or config.serve.host,
        config.serve.port if port is None else port,
        tuple(where.settings),
    )
    count = config.serve.processes if processes is None else processes
    if count > 1:
        if shards.engine or len(where.roots) > 1 or peers:
            raise UsageError(
                "--processes serves one workspace: configure other workspaces and "
                "peers in lycosa.toml, [search]"
            )
        _serve_by(count, served)
        return
    with ExitStack() as stack:
        source = _source(stack, where.roots, peers or [], config, shards)
        run_server(served, config.serve, source)


def _source(
    stack: ExitStack, roots: list[str], peers: list[str], config: Config, shards: ReplicaOptions
) -> Source | None:
    """Return where to search; None: in the index of the workspace."""
    from lycosa.commands.engines import open_engine
    from lycosa.search.federation.federated_search import open_federated_search
    from lycosa.search.federation.replica import ReplicaSupervisor
    from lycosa.search.federation.sharded_search import ShardedSearch
    from lycosa.serve.search.sources import ShardsAndOthers, ShardSource

    is_federated = len(roots) > 1 or peers or config.search.peers or config.search.workspaces
    if not (shards.engine or shards.address):
        if not is_federated:
            return None
        federation = open_federated_search(roots, peers, config, own_name="")
        return stack.enter_context(closing(federation))
    engine = stack.enter_context(open_engine(shards.engine, shards.address, config))
    copy = shards.engine == "ray"
    keeper = stack.enter_context(
        closing(ReplicaSupervisor(engine, roots[0], shards.replicas, copy=copy, notify=note))
    )
    replicas = stack.enter_context(closing(ShardedSearch(keeper.replicas)))
    source: Source = ShardSource(replicas)
    if is_federated:
        others = open_federated_search(roots[1:], peers, config, whole=[replicas])
        source = ShardsAndOthers(replicas, stack.enter_context(closing(others)))
    if not keeper.wait(READY_S):
        note("some shards are not ready; search results name the missing ones")
    return source


def _serve_by(processes: int, served: ServerOptions) -> None:
    """Serve by several processes until SIGINT or SIGTERM."""
    import threading

    from lycosa.serve.processes import ServerProcesses

    with ServerProcesses(served, print, processes) as servers:
        servers.start()
        threading.Event().wait()
