"""`lycosa rank`: what follows from all pages together: what links say of them, and which of them
say the same.
"""

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
    table,
    workspace_root,
)
from lycosa.core.units import number_of


def command(
    context: typer.Context,
    show: Annotated[
        int, typer.Option("--show", min=0, metavar="N", help="Number of duplicates to list.")
    ] = 0,
    engine: EngineOption = "",
    address: AddressOption = "",
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compute link ranks, duplicates and translations.

    The next index update applies them.
    """
    from dataclasses import asdict

    from lycosa.graph.generation import current_duplicates
    from lycosa.maintenance.jobs import rank_on, rank_workspace
    from lycosa.store.workspace import Workspace

    root = workspace_root(context, workspace)
    opened = Workspace.open(root)
    if engine:
        with open_engine(engine, address, load_config(context, root, overrides)) as carried:
            info = rank_on(carried, opened.root)
    else:
        info = rank_workspace(opened.root)
    copies = (
        current_duplicates(opened).head(show).select("collection", "url", "canonical_of").to_dicts()
        if show
        else []
    )
    if json_output:
        print_json({**asdict(info), "copies": copies})
        return
    print(
        f"generation {info.generation}, as of log entry {info.log_entry}: "
        f"{number_of(info.duplicates, 'duplicate page')} reached by redirects"
    )
    print(
        f"{number_of(info.grouped, 'near-duplicate page')} in {number_of(info.groups, 'group')}; "
        "a search shows one page per group"
    )
    if copies:
        print(
            table(
                [
                    (
                        str(copy["url"]),
                        f"duplicate of {copy['canonical_of']} ({copy['collection']})",
                    )
                    for copy in copies
                ]
            )
        )
