"""`lycosa sql QUERY`: SQL over the live tables."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from lycosa.cli.common import JsonOption, WorkspaceOption, print_json, table, workspace_root
from lycosa.cli.output import json_text
from lycosa.core.units import number_of
from lycosa.processes.terminal import raw

_MOST, _WIDE, _CELL = 100, 8, 500
"""Rows shown, columns from which a row is shown as a block, characters of a value in such a block.
"""


def command(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL query.")],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; lists are JSON.")] = False,
    workspace: WorkspaceOption = "",
    json_output: JsonOption = False,
) -> None:
    """Query the live tables in SQL.

    Tables: visits, pages, links, urls, hosts, found, matches (docs/tables.md).
    """
    import polars as pl

    from lycosa.store.tables.live import LiveTables
    from lycosa.store.workspace import Workspace

    answer = LiveTables(Workspace.open(workspace_root(context, workspace))).sql(query)
    if json_output:
        print_json(answer.to_dicts())
        return
    if csv:
        flat = answer.with_columns(
            pl.Series(name, [json_text(value) for value in answer[name].to_list()])
            for name, kind in answer.schema.items()
            if kind.is_nested()
        )
        (sys.stdout if sys.stdout.isatty() else raw(sys.stdout)).write(flat.write_csv())
        return
    if answer.width > _WIDE:
        _print_records(answer.head(_MOST).to_dicts())
    else:
        with pl.Config(
            tbl_rows=_MOST,
            tbl_cols=-1,
            tbl_width_chars=200,
            fmt_str_lengths=120,
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
        ):
            print(answer.head(_MOST))
    print(
        f"{number_of(answer.height, 'row')}"
        + (
            f", the first {_MOST} are shown; --json or --csv prints all"
            if answer.height > _MOST
            else ""
        ),
        file=sys.stderr,
    )


def _print_records(rows: list[dict[str, Any]]) -> None:
    """A wide row is a block of lines, one a column."""
    for row in rows:
        print(table([(name, str(value)[:_CELL]) for name, value in row.items()], "") + "\n")
