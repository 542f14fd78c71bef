"""`lycosa index`: bring the search index up to the log, or build it anew."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, WorkspaceOption, load_config, print_json, require_workspace, workspace_root


def command(
    context: typer.Context,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build it anew from the tables.")] = False,
    workspace: WorkspaceOption = "",
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Index what is committed and not indexed yet."""
    from dataclasses import asdict

    from lycosa.index.indexer import Indexer

    root = workspace_root(context, workspace)
    require_workspace(root)
    indexer = Indexer(root, load_config(context, root, overrides).index)
    report = indexer.rebuild() if rebuild else indexer.update()
    if json_output:
        print_json(asdict(report))
        return
    print(f"generation {report.generation}: {report.documents:,} documents, up to log entry {report.log_entry}")
