"""`lycosa sql QUERY`: SQL over the live tables."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, workspace_root


def command(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help='As in "SELECT host, pages FROM hosts ORDER BY pages DESC".')],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Ask the live tables (visits pages links urls hosts found matches) in SQL."""
    import polars as pl

    from lycosa.store.live import LiveTables
    from lycosa.store.workspace import Workspace

    answer = LiveTables(Workspace.open(workspace_root(context, workspace))).sql(query)
    if json_output:
        print_json(answer.to_dicts())
        return
    if csv:
        sys.stdout.write(answer.write_csv())
        return
    with pl.Config(tbl_rows=200, tbl_cols=-1, tbl_width_chars=200, fmt_str_lengths=120, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(answer)
    print(f"{answer.height:,} rows" + (", the first and last 100 are shown; --json or --csv prints all" if answer.height > 200 else ""), file=sys.stderr)
