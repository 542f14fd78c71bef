"""The rule that decides which rows are live, and which of them compaction may drop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

import polars as pl

from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.schema import ITEMS, LINKS, Table

SOURCE = LINKS.source


def live_rows(
    table: Table,
    rows: pl.LazyFrame,
    applied: Mapping[int, int],
    newest_parses: pl.LazyFrame | None = None,
) -> pl.LazyFrame:
    """Return the live ones of `rows`, in the same order.

    `rows` have the column `entry` and contain all rows of their keys, ordered by entry within a
    key. Live are: of `links` and `items` the rows of a source's newest parse, of `found` those that
    their partition has not `applied` yet, of tables with a key the last row of each key, of other
    tables all rows.
    """
    if table.parsed_at:
        assert newest_parses is not None
        live = rows.join(
            newest_parses,
            on=[*table.source, ENTRY, table.parsed_at],
            how="semi",
            maintain_order="left",
        )
        # an item without a position: the newest parse has none
        return live.filter(pl.col("position").is_not_null()) if table is ITEMS else live
    if table.name == "found":
        return rows.filter(unapplied(applied))
    if table.key:
        return rows.unique(subset=list(table.key), keep="last", maintain_order=True)
    return rows


def newest_parses(table: Table, pages: pl.LazyFrame, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the newest parse of each source of `table`: the latest (entry, time) in `pages` and
    in its `rows`.

    So a page without links replaces its links with nothing, and a redirect (which has no page) with
    its target.
    """
    source, time = table.source, table.parsed_at
    parses = pl.concat(
        [
            pages.select(*source, ENTRY, pl.col("fetched_at").alias(time)),
            rows.select(*source, ENTRY, time).unique(),
        ]
    )
    latest = parses.group_by(source).agg(pl.col(ENTRY).max())
    return (
        parses.join(latest, on=[*source, ENTRY], how="semi")
        .group_by(*source, ENTRY)
        .agg(pl.col(time).max())
    )


def without_superseded(
    table: Table, frame: pl.DataFrame, applied: Mapping[int, int]
) -> pl.DataFrame:
    """Drop rows that can never be live again, for compaction of a part of a table's files.

    More rows than the live ones are kept where another table or file decides: of `links` and
    `items` the newest parse of a source within the frame, of `pages` also the rows of the newest
    parses.
    """
    if table.parsed_at:
        return frame.filter(_of_newest_parse(table))
    if table.name == "pages":
        return frame.filter(
            pl.struct(table.key).is_last_distinct()
            | _of_newest_parse(LINKS, "fetched_at")
            | _of_newest_parse(ITEMS)
        )
    return live_rows(table, frame.lazy(), applied).collect()


def unapplied(applied: Mapping[int, int]) -> pl.Expr:
    """Return whether a row of `found` is not applied by the owner of its partition.

    `applied`: partition -> last applied entry.
    """
    by_entry: dict[int, list[int]] = {}
    for partition, entry in applied.items():
        by_entry.setdefault(entry, []).append(partition)
    done = [
        pl.col("partition").is_in(partitions) & (pl.col(ENTRY) <= entry)
        for entry, partitions in by_entry.items()
    ]
    return ~reduce(or_, done) if done else pl.lit(True)


def _of_newest_parse(table: Table, time: str = "") -> pl.Expr:
    """Return whether a row has the latest entry of its source in `table`, and its latest time."""
    source, time = table.source, time or table.parsed_at
    latest = pl.col(ENTRY) == pl.col(ENTRY).max().over(source)
    return latest & (pl.col(time) == pl.when(latest).then(pl.col(time)).max().over(source))
