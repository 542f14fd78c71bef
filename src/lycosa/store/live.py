"""The live rows of the tables: what the log's files say, outdated rows left out.

Within a key the later entry wins, and within an entry the later row. Files are read in the order of their entries, so a
scan's own order is that order. Everything is lazy: a query reads the files, columns and row groups that it needs.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_

import polars as pl

from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.store.schema import TABLES, Table
from lycosa.store.state import LogState
from lycosa.store.storage import LocalStorage
from lycosa.store.tables import polars_schema
from lycosa.store.workspace import Workspace

ENTRY = "entry"
_SOURCE = ("host_key", "url_key")


class LiveTables:
    """The tables of a workspace as of one version of its log.

    `state` is read when a table is asked for; refresh it and ask again to see more.
    """

    def __init__(self, workspace: Workspace, state: LogState | None = None) -> None:
        self._storage: LocalStorage = workspace.storage
        self.state = state if state is not None else workspace.state()

    def scan(self, name: str, *, entry: bool = False) -> pl.LazyFrame:
        """The live rows of a table. With `entry`, a last column holds the log entry that each row came with.

        Raises:
            UsageError: there is no such table.
        """
        table = _table(name)
        if name == "links":
            rows = self._live_links()
        elif name == "found":
            rows = self._unapplied()
        elif table.key:
            rows = self._all(table).unique(subset=list(table.key), keep="last", maintain_order=True)
        else:
            rows = self._all(table)
        return rows if entry else rows.drop(ENTRY)

    def all_rows(self, name: str) -> pl.LazyFrame:
        """All rows of the table's live files, outdated ones too, in the order of their entries, with the column `entry`."""
        return self._all(_table(name))

    def sql(self, query: str) -> pl.DataFrame:
        """The answer to an SQL query (Polars' dialect) over the live tables.

        Raises:
            UsageError: it cannot be understood, or names a table or column that does not exist.
            WorkspaceError: a file cannot be read.
        """
        context = pl.SQLContext({name: self.scan(name) for name in TABLES}, eager=False)
        try:
            return context.execute(query).collect()
        except FileNotFoundError as error:
            raise WorkspaceError(f"a table's file is missing: {_first_line(error)}; run `lycosa check`") from None
        except pl.exceptions.PolarsError as error:
            raise UsageError(f"the query cannot be answered: {_first_line(error)}; {_known(query)}") from None

    def _all(self, table: Table) -> pl.LazyFrame:
        files = self.state.files.get(table.name, [])
        schema = polars_schema(table)
        if not files:
            return pl.LazyFrame(schema=schema | {ENTRY: pl.Int64()})
        parts = [
            pl.scan_parquet(
                self._storage.path(file.path),
                schema=schema,
                missing_columns="insert",
                extra_columns="ignore",
                glob=False,
                hive_partitioning=False,
            ).with_columns(pl.lit(file.entry, dtype=pl.Int64).alias(ENTRY))
            for file in files
        ]
        return pl.concat(parts) if len(parts) > 1 else parts[0]

    def _live_links(self) -> pl.LazyFrame:
        """A source's newest parse is the latest (entry, time) among its pages rows and its links rows: a page without
        links replaces the set with nothing, a redirect (no page) replaces it with its target."""
        links = self._all(TABLES["links"])
        pages = self._all(TABLES["pages"])
        seen = pl.concat(
            [
                pages.select(*_SOURCE, ENTRY, pl.col("fetched_at").alias("at")),
                links.select(*_SOURCE, ENTRY, pl.col("found_at").alias("at")).unique(),
            ]
        )
        newest = (
            seen.with_columns(pl.col(ENTRY).max().over(_SOURCE).alias("newest"))
            .filter(pl.col(ENTRY) == pl.col("newest"))
            .group_by(*_SOURCE, ENTRY)
            .agg(pl.col("at").max())
        )
        return links.join(newest, left_on=[*_SOURCE, ENTRY, "found_at"], right_on=[*_SOURCE, ENTRY, "at"], how="semi")

    def _unapplied(self) -> pl.LazyFrame:
        rows = self._all(TABLES["found"])
        by_cursor: dict[int, list[int]] = {}
        for partition, cursor in self.state.applied.items():
            by_cursor.setdefault(cursor, []).append(partition)
        if not by_cursor:
            return rows
        read = [pl.col("partition").is_in(partitions) & (pl.col(ENTRY) <= cursor) for cursor, partitions in by_cursor.items()]
        return rows.filter(~reduce(or_, read))


def _table(name: str) -> Table:
    table = TABLES.get(name)
    if table is None:
        raise UsageError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    return table


def _known(query: str) -> str:
    """What a query may name: the columns of the tables that it names, or else the tables."""
    named = [table for table in TABLES.values() if re.search(rf"\b{table.name}\b", query)]
    if not named:
        return f"the tables are {', '.join(TABLES)}"
    return "; ".join(f"{table.name} has {', '.join(table.names)}" for table in named)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].partition("; valid columns:")[0]
