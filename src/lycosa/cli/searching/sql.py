"""`lycosa sql`: SQL over the live tables."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from lycosa.cli.options import InWorkspace, JsonOption
from lycosa.cli.output import json_text, note, print_json, table
from lycosa.core.units import number_of
from lycosa.processes.terminal import raw

_MAX_ROWS = 100
_MAX_COLUMNS = 8  # above, a row is a block of lines
_MAX_VALUE = 500  # characters of a value in a block


def command(
    where: InWorkspace,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL query.")],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; lists are JSON.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Query the live tables in SQL.

    Tables: visits, pages, metadata, items, links, urls, hosts, found, matches
    (docs/reference/tables.md), and items_NAME with a column per field of the schema NAME.
    """
    frame = where.open().sql(query)
    if json_output:
        print_json(frame.to_dicts())
        return
    if csv:
        _print_csv(frame)
        return
    if frame.width > _MAX_COLUMNS:
        for row in frame.head(_MAX_ROWS).to_dicts():
            print(table([(name, str(value)[:_MAX_VALUE]) for name, value in row.items()]) + "\n")
    else:
        _print_table(frame.head(_MAX_ROWS))
    more = ""
    if frame.height > _MAX_ROWS:
        more = f", the first {_MAX_ROWS} are shown; --json or --csv prints all"
    note(f"{number_of(frame.height, 'row')}{more}")


def _print_csv(frame: Any) -> None:
    import polars as pl

    flat = frame.with_columns(
        pl.Series(name, [json_text(value) for value in frame[name].to_list()])
        for name, kind in frame.schema.items()
        if kind.is_nested()
    )
    (sys.stdout if sys.stdout.isatty() else raw(sys.stdout)).write(flat.write_csv())


def _print_table(frame: Any) -> None:
    import polars as pl

    with pl.Config(
        tbl_rows=_MAX_ROWS,
        tbl_cols=-1,
        tbl_width_chars=200,
        fmt_str_lengths=120,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
    ):
        print(frame)
