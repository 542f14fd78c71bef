"""`lycosa index`: bring the search index up to the log, or build it anew."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    AddressOption,
    EngineOption,
    JsonOption,
    SetOption,
    WorkspaceOption,
    load_config,
    open_engine,
    print_json,
    require_workspace,
    workspace_root,
)
from lycosa.core.units import number_of


def command(
    context: typer.Context,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the index from the tables.")
    ] = False,
    engine: EngineOption = "",
    address: AddressOption = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Update the search index."""
    from dataclasses import asdict

    from lycosa.index.indexer import Indexer
    from lycosa.maintenance.jobs import index_on

    root = workspace_root(context, workspace)
    require_workspace(root)
    config = load_config(context, root, overrides)
    if engine:
        with open_engine(engine, address, config) as processes:
            report = index_on(processes, root, config.index, rebuild=rebuild)
    else:
        indexer = Indexer(root, config.index)
        report = indexer.rebuild() if rebuild else indexer.update()
    if json_output:
        print_json(asdict(report))
        return
    print(
        f"generation {report.generation}: {number_of(report.documents, 'document')}, up to log "
        f"entry {report.log_entry}"
    )
