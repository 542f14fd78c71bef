"""`lycosa rank`: what follows from all pages together; now the copies that redirects led to."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, table, workspace_root
from lycosa.core.errors import WorkError

_ATTEMPTS = 3


def command(
    context: typer.Context,
    show: Annotated[int, typer.Option("--show", min=0, metavar="N", help="How many of the copies to list.")] = 0,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Mark pages that redirects fetched twice; exports leave them out from then on."""
    from dataclasses import asdict

    from lycosa.graph.generation import current_duplicates, make_generation
    from lycosa.store.workspace import Workspace

    opened = Workspace.open(workspace_root(context, workspace))
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            info = make_generation(opened)
            break
        except FileNotFoundError as error:  # a merge took a file away: read the log again
            if attempt == _ATTEMPTS:
                raise WorkError(f"the tables' files went away three times ({error}): call again when no merge runs") from None
    copies = current_duplicates(opened).head(show).select("collection", "url", "canonical_of").to_dicts() if show else []
    if json_output:
        print_json({**asdict(info), "copies": copies})
        return
    print(f"generation {info.generation}, as of log entry {info.log_entry}: {info.duplicates:,} pages are copies that redirects led to")
    if copies:
        print(table([(str(copy["url"]), f"is {copy['canonical_of']} ({copy['collection']})") for copy in copies]))
