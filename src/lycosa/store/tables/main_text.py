"""`main_text` in the files of `pages`: as lines of `text`, which the files have anyway.

In memory a row has its main text. In a file it is null if `main_lines` has its place.
"""

from __future__ import annotations

import polars as pl

from lycosa.store.tables.schema import PAGES, Table

_FROM = pl.element().gather_every(2)
_UNTIL = pl.element().gather_every(2, offset=1)
_LINE_NUMBERS = pl.col("main_lines").list.eval(pl.int_ranges(_FROM, _UNTIL).explode())
_RESTORED = pl.col("text").str.split("\n").list.gather(_LINE_NUMBERS).list.join("\n")


def without_main_text(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return rows as a file stores them."""
    if table is not PAGES:
        return rows
    needed = pl.when(pl.col("main_lines").list.len() == 0).then("main_text")
    return rows.with_columns(main_text=needed)


def with_main_text(rows: pl.LazyFrame, table: Table) -> pl.LazyFrame:
    """Return rows of a file with their main text. Readers of other columns do not pay for it."""
    if table is not PAGES:
        return rows
    return rows.with_columns(main_text=pl.coalesce("main_text", _RESTORED))
