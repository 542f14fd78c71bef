"""The live rows of the tables: what the log's files say, outdated rows left out.

Within a key the later entry wins, and within an entry the later row. Files are read in the order of
their entries, so a scan's own order is that order; rows that a merge has folded together come in
the order of their keys, at the place of the last of them. What an exclusion names is not there.
Everything is lazy: a query reads the files, columns and row groups that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import polars as pl

from lycosa.core.errors import UsageError, WorkError, WorkspaceError
from lycosa.hooks.plugins import installed_plugins
from lycosa.store.compaction.plan import base_place
from lycosa.store.log.state import LiveFile, LogState
from lycosa.store.storage.local import Wanted
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.buffers import polars_schema
from lycosa.store.tables.files import ENTRY, scan_file
from lycosa.store.tables.ordered import Source, in_key_order
from lycosa.store.tables.precedence import SOURCE, not_outranked, unapplied
from lycosa.store.tables.schema import SORT, TABLES, Table
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace

_TYPES = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
_BATCH_BYTES = 48 * 2**20
_ATTEMPTS = 3
_Answer = TypeVar("_Answer")

_CHANGE = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:alter|create|delete|drop|insert|truncate|update)\b",
    re.IGNORECASE | re.DOTALL,
)


class LiveTables:
    """The tables of a workspace as of one version of its log.

    `state` is read when a table is asked for; refresh it and ask again to see more.
    """

    def __init__(self, workspace: Workspace, state: LogState | None = None) -> None:
        self.storage: Storage = workspace.storage
        self.state = state if state is not None else workspace.state()

    def scan(self, name: str, *, entry: bool = False) -> pl.LazyFrame:
        """The live rows of a table. With `entry`, a last column holds the log entry that each row
        came with.

        Raises:
            UsageError: there is no such table.
        """
        table = _table(name)
        if name == "links":
            rows = self._all(table).join(
                self._newest_parses(),
                on=[*SOURCE, ENTRY, "found_at"],
                how="semi",
                maintain_order="left",
            )
        elif name == "found":
            rows = self._unapplied(self._all(table))
        elif table.key:
            rows = self._all(table).unique(subset=list(table.key), keep="last", maintain_order=True)
        else:
            rows = self._all(table)
        return rows if entry else rows.drop(ENTRY)

    def all_rows(self, name: str) -> pl.LazyFrame:
        """All rows of the table's live files, outdated ones too, in the order of their entries,
        with the column `entry`.
        """
        return self._all(_table(name))

    def batches(
        self, name: str, columns: Sequence[str] = (), only: pl.Expr | None = None
    ) -> Iterator[pl.DataFrame]:
        """The live rows of a table in the order of a scan, one data file after the other, large
        files in parts; no empty ones.

        Memory holds one file's rows, at most some 50 MB of them, and for tables with a key the keys
        of the table; `ordered` needs less. `only`: of a table with a key those rows alone; a
        condition on what all rows of a key have in common.
        """
        table = _table(name)
        chosen = list(columns or table.names)
        files = self.state.files.get(name, [])
        if table.key:
            rows_of = [
                self._file(table, file) if only is None else self._file(table, file).filter(only)
                for file in files
            ]
            keys = [
                rows.select(table.key).with_row_index("row").with_columns(file=place)
                for place, rows in enumerate(rows_of)
            ]
            live = (
                pl.concat(keys)
                .unique(subset=list(table.key), keep="last")
                .select("file", "row")
                .collect()
                if keys
                else pl.DataFrame()
            )
            rows = (
                {
                    place: part["row"].sort()
                    for (place,), part in live.partition_by("file", as_dict=True).items()
                }
                if keys
                else {}
            )
            for place, file in enumerate(files):
                if place not in rows:
                    continue
                for start, part in self._parts(table, file, chosen, only=only):
                    inside = rows[place]
                    inside = inside.filter(inside.is_between(start, start + part.height - 1))
                    if inside.len():
                        yield part[inside - start]
            return
        keep = self._keep(name)
        for file in files:
            for _, part in self._parts(table, file, (*table.names, ENTRY)):
                frame = keep(part.lazy()).select(chosen).collect()
                if frame.height:
                    yield frame

    def ordered(
        self, name: str, columns: Sequence[str] = (), *, memory_bytes: int = _BATCH_BYTES
    ) -> Iterator[pl.DataFrame]:
        """The live rows of a table by (partition, host_key, url_key), with about `memory_bytes` of
        rows in memory, however large it is.

        All rows of a key come in one frame. `columns` as they are wanted; others are not read. Of
        `links`, the keys of all sources are held besides.
        """
        table = _table(name)
        chosen = list(columns or table.names)
        needed = {*SORT, *table.key, *chosen} | {
            "links": {"found_at"},
            "pages": {"fetched_at"},
        }.get(name, set())
        read = [
            column for column in table.names if column in needed | self._named_by_exclusions(table)
        ]
        hidden = is_excluded(self.state.exclusions, name)
        newest = self._newest_parses().collect() if name == "links" else None
        for frame in in_key_order(
            self.storage, table, sources(self.state.files.get(name, [])), memory_bytes, read
        ):
            rows = frame if hidden is None else frame.filter(~hidden)
            if newest is not None:
                rows = rows.join(
                    newest, on=[*SOURCE, ENTRY, "found_at"], how="semi", maintain_order="left"
                )
            elif name == "pages":
                rows = rows.filter(pl.struct(table.key).is_last_distinct())
            else:
                rows = not_outranked(table, rows, self.state.applied)
            if rows.height:
                yield rows.select(chosen)

    def changes(
        self,
        name: str,
        after: int,
        columns: Sequence[str] = (),
        *,
        memory_bytes: int | None = None,
        partitions: range | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Rows that came with entries later than `after`, in a scan's order, in parts; for
        followers, that upsert by key.

        Rows that were outranked since may be among them or not. Last column: `entry`. After a merge
        its file is looked through for such rows by its row groups, and older rows of it are not
        given again. With `partitions` only rows of these; row groups of others are not read.
        """
        table = _table(name)
        chosen = [*(columns or table.names), ENTRY]
        inside = None if partitions is None else in_partitions(partitions)
        for file in self.state.files.get(name, []):
            if file.entry <= after:
                continue
            only = inside
            # else all rows are later; a part of a filtered file is found by reading all that
            # precede it
            if file.merged and after > 0:
                only = pl.col(ENTRY) > after if inside is None else inside & (pl.col(ENTRY) > after)
            for _, part in self._parts(table, file, chosen, only=only, memory_bytes=memory_bytes):
                if part.height:
                    yield part

    def sql(self, query: str) -> pl.DataFrame:
        """The answer to an SQL query (Polars' dialect) over the live tables.

        Raises:
            UsageError: it cannot be understood, or names a table or column that does not exist.
            WorkspaceError: a file cannot be read.
        """
        if _CHANGE.match(query):
            raise UsageError(
                "tables can only be read: write a query that begins with SELECT, "
                "WITH, SHOW or EXPLAIN"
            )
        # What is not named is not fetched.
        named = {name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)}
        tables = {
            name: self._with_plugin_columns(name)
            if name in named
            else pl.LazyFrame(schema=polars_schema(table))
            for name, table in TABLES.items()
        }
        context = pl.SQLContext(tables, eager=False)
        try:
            return context.execute(query).collect()
        except FileNotFoundError as error:
            raise WorkspaceError(
                f"a table file is missing: {_first_line(error)}; run `lycosa check`"
            ) from None
        except pl.exceptions.PolarsError as error:
            raise UsageError(
                f"the SQL query failed: {_first_line(error)}; {_known(query)}"
            ) from None

    def _with_plugin_columns(self, name: str) -> pl.LazyFrame:
        rows = self.scan(name)
        columns = installed_plugins().merged("page_columns") if name == "pages" else {}
        return rows.with_columns(
            pl.col("plugin_values")
            .str.json_path_match(f"$.{column}")
            .cast(_TYPES[type_])
            .alias(column)
            for column, type_ in columns.items()
        )

    def _all(self, table: Table) -> pl.LazyFrame:
        files = self.state.files.get(table.name, [])
        if not files:
            return pl.LazyFrame(schema=polars_schema(table) | {ENTRY: pl.Int64()})
        self.storage.bring([Wanted(file.path, file.bytes, file.digest) for file in files])
        parts = [self._file(table, file) for file in files]
        return pl.concat(parts) if len(parts) > 1 else parts[0]

    def _file(self, table: Table, file: LiveFile) -> pl.LazyFrame:
        """One file's visible rows and their entries."""
        rows = scan_file(self.storage, table, file)
        hidden = is_excluded(self.state.exclusions, table.name)
        return rows if hidden is None else rows.filter(~hidden)

    def _parts(
        self,
        table: Table,
        file: LiveFile,
        columns: Sequence[str],
        only: pl.Expr | None = None,
        memory_bytes: int | None = None,
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """(place of the first row, rows) of a file's visible rows, so many bytes in memory at a
        time.
        """
        rows = self._file(table, file) if only is None else self._file(table, file).filter(only)
        rows = rows.select(columns)
        held = memory_bytes or _BATCH_BYTES
        least = 1_000 if memory_bytes is None else 100
        step = max(least, held // 6 * file.rows // max(1, file.bytes))
        if step >= file.rows:
            part = rows.collect()
            if part.height:
                yield 0, part
            return
        for start in range(0, file.rows, step):
            part = rows.slice(start, step).collect()
            if not part.height:
                return
            yield start, part

    def _named_by_exclusions(self, table: Table) -> set[str]:
        hidden = is_excluded(self.state.exclusions, table.name)
        return set() if hidden is None else set(hidden.meta.root_names())

    def _keep(self, name: str) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
        """What leaves the live rows of a table without a key, or of a part of it."""
        if name == "links":
            newest = self._newest_parses().collect().lazy()
            return lambda rows: rows.join(
                newest, on=[*SOURCE, ENTRY, "found_at"], how="semi", maintain_order="left"
            )
        if name == "found":
            return self._unapplied
        return lambda rows: rows

    def _newest_parses(self) -> pl.LazyFrame:
        """Each source's newest parse: the latest (entry, time) among its pages rows and its links
        rows. A page without links replaces the set with nothing, a redirect (which has no page)
        with its target.
        """
        seen = pl.concat(
            [
                self._all(TABLES["pages"]).select(
                    *SOURCE, ENTRY, pl.col("fetched_at").alias("found_at")
                ),
                self._all(TABLES["links"]).select(*SOURCE, ENTRY, "found_at").unique(),
            ]
        )
        latest = seen.group_by(SOURCE).agg(pl.col(ENTRY).max())
        return (
            seen.join(latest, on=[*SOURCE, ENTRY], how="semi")
            .group_by(*SOURCE, ENTRY)
            .agg(pl.col("found_at").max())
        )

    def _unapplied(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.filter(unapplied(self.state.applied))


def in_partitions(partitions: range) -> pl.Expr:
    """Rows of these partitions, contiguous ones."""
    if not partitions:
        return pl.lit(False)
    return pl.col("partition").is_between(partitions[0], partitions[-1])


def sources(files: Sequence[LiveFile]) -> list[Source]:
    """Files of a table, as the log has them, as sources to merge: a collection's base files follow
    each other by key.
    """
    base: dict[tuple[str, int], list[LiveFile]] = {}
    found: list[tuple[int, Source]] = []
    for file in files:
        place = base_place(file.path)
        if place is None:
            found.append((file.entry, Source((file,))))
        else:
            base.setdefault((place[0], file.entry), []).append(file)
    for (_, entry), parts in base.items():
        found.append((entry, Source(tuple(sorted(parts, key=_first_partition)))))
    return [source for _, source in sorted(found, key=lambda item: item[0])]


def _first_partition(file: LiveFile) -> int:
    place = base_place(file.path)
    return place[1] if place else 0


def _table(name: str) -> Table:
    table = TABLES.get(name)
    if table is None:
        raise UsageError(f"unknown table {name!r}; the tables are {', '.join(TABLES)}")
    return table


def _known(query: str) -> str:
    """What a query may name: the columns of the tables that it names, or else the tables."""
    named = [table for table in TABLES.values() if re.search(rf"\b{table.name}\b", query)]
    if not named:
        return f"the tables are {', '.join(TABLES)}"
    return "; ".join(f"{table.name} has {', '.join(table.names)}" for table in named)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].partition("; valid columns:")[0]


def read_live(root: str, read: Callable[[LiveTables], _Answer]) -> _Answer:
    """Read from the live tables; again if a compaction deletes a file meanwhile.

    Raises:
        WorkError: that happened three times.
    """
    workspace = Workspace.open(root)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return read(LiveTables(workspace))
        except FileNotFoundError as error:
            if attempt == _ATTEMPTS:
                raise WorkError(
                    f"table files were replaced during all three attempts ({error}): run the "
                    "command again when no compaction is running"
                ) from None
    raise AssertionError
