"""Which rows of a table outrank which: the rule behind "live", for rows that stand together in one
frame.

A merge drops by it what is outranked, and nothing else: the live rows are the same before and
after. Frames come in key order with the column `entry`, rows of one key by their entry and within
it as they came, and all rows of a key in one frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

import polars as pl

from lycosa.store.tables.files import ENTRY
from lycosa.store.tables.schema import Table

SOURCE = ("host_key", "url_key")


def not_outranked(table: Table, frame: pl.DataFrame, applied: Mapping[int, int]) -> pl.DataFrame:
    """The rows that none of the others outranks: of `urls` and `hosts` the latest a key, of `links`
    those of a source's newest parse, of `found` those that their partition has not `applied` yet,
    of `visits` and `matches` all.

    Of `pages` the latest a key, and a source's newest parse should that be another row: `links`
    goes by it.
    """
    if table.name == "links":
        return frame.filter(_of_newest_parse("found_at"))
    if table.name == "found":
        return frame.filter(unapplied(applied))
    if table.name == "pages":
        return frame.filter(
            pl.struct(table.key).is_last_distinct() | _of_newest_parse("fetched_at")
        )
    if table.key:
        return frame.filter(pl.struct(table.key).is_last_distinct())
    return frame


def unapplied(applied: Mapping[int, int]) -> pl.Expr:
    """Whether a row of `found` is one that its partition's owner has not applied. `applied`:
    partition -> last entry applied.
    """
    by_cursor: dict[int, list[int]] = {}
    for partition, cursor in applied.items():
        by_cursor.setdefault(cursor, []).append(partition)
    read = [
        pl.col("partition").is_in(partitions) & (pl.col(ENTRY) <= cursor)
        for cursor, partitions in by_cursor.items()
    ]
    return ~reduce(or_, read) if read else pl.lit(True)


def _of_newest_parse(time: str) -> pl.Expr:
    """Whether a row has the latest entry of its source, and of that entry the latest time."""
    latest = pl.col(ENTRY) == pl.col(ENTRY).max().over(SOURCE)
    return latest & (pl.col(time) == pl.when(latest).then(pl.col(time)).max().over(SOURCE))
