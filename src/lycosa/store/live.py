"""The live rows of the tables: what the log's files say, outdated rows left out.

Within a key the later entry wins, and within an entry the later row. Files are read in the order of their entries, so a
scan's own order is that order. Everything is lazy: a query reads the files, columns and row groups that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_

import polars as pl

from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.store.schema import TABLES, Table
from lycosa.store.state import LiveFile, LogState
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
            rows = self._all(table).join(self._newest_parses(), on=[*_SOURCE, ENTRY, "found_at"], how="semi", maintain_order="left")
        elif name == "found":
            rows = self._unapplied(self._all(table))
        elif table.key:
            rows = self._all(table).unique(subset=list(table.key), keep="last", maintain_order=True)
        else:
            rows = self._all(table)
        return rows if entry else rows.drop(ENTRY)

    def all_rows(self, name: str) -> pl.LazyFrame:
        """All rows of the table's live files, outdated ones too, in the order of their entries, with the column `entry`."""
        return self._all(_table(name))

    def batches(self, name: str, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """The live rows of a table, one data file after the other, in the order of their entries; no empty ones.

        For what must go through all of a large table: memory holds one file's rows and the keys of the table.
        """
        table = _table(name)
        chosen = list(columns or table.names)
        files = self.state.files.get(name, [])
        if table.key:
            keys = [
                self._file(table, file).select(table.key).with_row_index("row").with_columns(file=place) for place, file in enumerate(files)
            ]
            live = pl.concat(keys).unique(subset=list(table.key), keep="last").select("file", "row").collect() if keys else pl.DataFrame()
            rows = {place: part["row"].sort() for (place,), part in live.partition_by("file", as_dict=True).items()} if keys else {}
            for place, file in enumerate(files):
                if place in rows:
                    yield self._file(table, file).select(chosen).collect()[rows[place]]
            return
        keep = self._keep(name)
        for file in files:
            frame = keep(self._file(table, file)).select(chosen).collect()
            if frame.height:
                yield frame

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
        if not files:
            return pl.LazyFrame(schema=polars_schema(table) | {ENTRY: pl.Int64()})
        parts = [self._file(table, file) for file in files]
        return pl.concat(parts) if len(parts) > 1 else parts[0]

    def _file(self, table: Table, file: LiveFile) -> pl.LazyFrame:
        """One file's rows and their entry; columns that it is too old to have are null."""
        rows = pl.scan_parquet(
            self._storage.path(file.path),
            schema=polars_schema(table),
            missing_columns="insert",
            extra_columns="ignore",
            glob=False,
            hive_partitioning=False,
        )
        return rows.with_columns(pl.lit(file.entry, dtype=pl.Int64).alias(ENTRY))

    def _keep(self, name: str) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
        """What leaves the live rows of a table without a key, or of a part of it."""
        if name == "links":
            newest = self._newest_parses().collect().lazy()
            return lambda rows: rows.join(newest, on=[*_SOURCE, ENTRY, "found_at"], how="semi", maintain_order="left")
        if name == "found":
            return self._unapplied
        return lambda rows: rows

    def _newest_parses(self) -> pl.LazyFrame:
        """Each source's newest parse: the latest (entry, time) among its pages rows and its links rows. A page without
        links replaces the set with nothing, a redirect (which has no page) with its target."""
        seen = pl.concat(
            [
                self._all(TABLES["pages"]).select(*_SOURCE, ENTRY, pl.col("fetched_at").alias("found_at")),
                self._all(TABLES["links"]).select(*_SOURCE, ENTRY, "found_at").unique(),
            ]
        )
        latest = seen.group_by(_SOURCE).agg(pl.col(ENTRY).max())
        return seen.join(latest, on=[*_SOURCE, ENTRY], how="semi").group_by(*_SOURCE, ENTRY).agg(pl.col("found_at").max())

    def _unapplied(self, rows: pl.LazyFrame) -> pl.LazyFrame:
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
