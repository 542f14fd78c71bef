"""The live rows of the tables, without superseded and excluded rows.

Within a key the later entry wins, and within an entry the later row. Files are read in the order of
their entries, which is the order of a scan; the rows of a compacted file are ordered by key. Scans
are lazy: a query reads only the files, columns and row groups that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import polars as pl

from lycosa.core.errors import UsageError, WorkError, WorkspaceError
from lycosa.hooks.plugins import Plugins, installed_plugins
from lycosa.store.compaction.plan import base_place
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import ENTRY, group_rows_of, polars_schema, scan_file
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.precedence import live_rows, newest_parses
from lycosa.store.tables.schema import SORT, TABLES, Table
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace

_TYPES = {str: pl.String, int: pl.Int64, float: pl.Float64}
_BATCH_BYTES = 48 * 2**20
_ATTEMPTS = 3
_ROW = "_row"
_Result = TypeVar("_Result")

_CHANGE = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*+(?:alter|create|delete|drop|insert|truncate|update)\b",
    re.IGNORECASE | re.DOTALL,
)

# Polars' table functions. A comment may separate the name from the bracket.
_FILE_FUNCTION = re.compile(r"\b(?:read|scan)_\w+", re.IGNORECASE)
_CALLED = re.compile(r"\b(?:read|scan)_\w+[\s\"`\]]*\(", re.IGNORECASE)
_COMMENT = re.compile(r"--|/\*|#")
_SCAN = re.compile(r"(Parquet )?SCAN \[(.*)")
_ONLY_TABLES = "functions that read files or addresses are not allowed here: query the tables only"


def plugin_columns(plugins: Plugins) -> dict[str, type]:
    """Return the columns that plug-ins add to `pages`.

    Raises:
        UsageError: a column has the name of one of Lycosa, or of another plug-in.
    """
    columns: dict[str, type] = {}
    for plugin, added in plugins.named_results("page_columns"):
        if duplicates := added.keys() & {*TABLES["pages"].names, *columns}:
            raise UsageError(
                f"plug-in {plugin}: pages already has a column {min(duplicates)}; "
                "the plug-in must name its own differently"
            )
        columns.update(added)
    return columns


class LiveTables:
    """The tables of a workspace as of `state`. Refresh the state to see later commits."""

    def __init__(self, workspace: Workspace, state: LogState | None = None) -> None:
        self.storage: Storage = workspace.storage
        self.state = state if state is not None else workspace.state()

    def scan(self, name: str, *, entry: bool = False) -> pl.LazyFrame:
        """Return the live rows of a table. With `entry`, a last column has each row's log entry.

        Raises:
            UsageError: there is no such table.
        """
        table = _table(name)
        rows = live_rows(table, self._all(table), self.state.applied, self._newest_parses(name))
        return rows if entry else rows.drop(ENTRY)

    def all_rows(self, name: str) -> pl.LazyFrame:
        """Return all rows of a table's live files, superseded ones included, with `entry`."""
        return self._all(_table(name))

    def batches(
        self,
        name: str,
        columns: Sequence[str | pl.Expr] = (),
        only: pl.Expr | None = None,
        *,
        memory_bytes: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Yield the live rows of a table in the order of a scan, one file or part after another.

        Memory: rows of `memory_bytes` (50 MB), and the keys of a table with a key; `ordered` needs
        less. `only` filters a table with a key by columns that are equal in all rows of a key.
        """
        table = _table(name)
        chosen = list(columns or table.names)
        files = self.state.files.get(name, [])
        if table.key:
            rows = self._rows_by_file(table, files, only)
            for place, file in enumerate(files):
                if place not in rows:
                    continue
                for start, part in self._parts(
                    table, file, chosen, only=only, memory_bytes=memory_bytes
                ):
                    inside = rows[place]
                    inside = inside.filter(inside.is_between(start, start + part.height - 1))
                    if inside.len():
                        yield part[inside - start]
            return
        parses = self._collected_parses(name)
        for file in files:
            for _, part in self._parts(
                table, file, (*table.names, ENTRY), memory_bytes=memory_bytes
            ):
                live_part = live_rows(table, part.lazy(), self.state.applied, parses)
                frame = live_part.select(chosen).collect()
                if frame.height:
                    yield frame

    def ordered(
        self,
        name: str,
        columns: Sequence[str] = (),
        *,
        memory_bytes: int = _BATCH_BYTES,
    ) -> Iterator[pl.DataFrame]:
        """Yield the live rows of a table by (partition, host_key, url_key).

        About `memory_bytes` of rows are in memory, for `links` and `items` also the keys of all
        sources. All rows of a key are in one frame. Only `columns` are read.
        """
        table = _table(name)
        chosen = list(columns or table.names)
        needed = {*SORT, *table.key, *table.source, table.parsed_at, *chosen}
        if table.parsed_at:
            needed.add("position")
        read = [
            column for column in table.names if column in needed | self._named_by_exclusions(table)
        ]
        hidden = is_excluded(self.state.exclusions, name)
        parses = self._collected_parses(name)
        files = sources(self.state.files.get(name, []))
        for frame in in_key_order(self.storage, table, files, memory_bytes, read):
            visible = frame.lazy() if hidden is None else frame.lazy().filter(~hidden)
            rows = live_rows(table, visible, self.state.applied, parses).select(chosen).collect()
            if rows.height:
                yield rows

    def changes(
        self,
        name: str,
        after: int,
        columns: Sequence[str] = (),
        *,
        memory_bytes: int | None = None,
        partitions: range | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Yield rows of entries after `after` in the order of a scan, to upsert them by key.

        Superseded rows may be included. The last column is `entry`. Of compacted files only rows of
        later entries are returned. With `partitions`, only their row groups are read.
        """
        table = _table(name)
        chosen = [*(columns or table.names), ENTRY]
        inside = None if partitions is None else in_partitions(partitions)
        for file in self.state.files.get(name, []):
            if file.entry <= after:
                continue
            only = inside
            if file.merged and after > 0:
                only = pl.col(ENTRY) > after if inside is None else inside & (pl.col(ENTRY) > after)
            for _, part in self._parts(table, file, chosen, only=only, memory_bytes=memory_bytes):
                if part.height:
                    yield part

    def sql(
        self, query: str, *, max_rows: int | None = None, only_tables: bool = False
    ) -> pl.DataFrame:
        """Return the result of an SQL query (Polars' dialect) on the live tables.

        Args:
            max_rows: maximum number of rows to return.
            only_tables: refuse functions that read other files or addresses (`read_csv`).

        Raises:
            UsageError: the query is invalid, or a table or column does not exist.
            WorkspaceError: a file is missing.
        """
        if only_tables and _reads_files(query):
            raise UsageError(_ONLY_TABLES)
        if _CHANGE.match(query):
            raise UsageError(
                "tables can only be read: write a query that begins with SELECT, "
                "WITH, SHOW or EXPLAIN"
            )
        # Files of other tables are not fetched.
        named = {name for name in TABLES if re.search(rf"\b{name}\b", query, re.IGNORECASE)}
        tables = {
            name: self._with_plugin_columns(name)
            if name in named
            else pl.LazyFrame(schema=polars_schema(table))
            for name, table in TABLES.items()
        }
        tables |= installed_plugins().merged("sql_tables", tables=self, query=query)
        context = pl.SQLContext(tables, eager=False)
        try:
            rows = context.execute(query)
            if only_tables and not self._scans_own_files(rows):
                raise UsageError(_ONLY_TABLES)
            return (rows if max_rows is None else rows.head(max_rows)).collect()
        except FileNotFoundError as error:
            raise WorkspaceError(
                f"a table file is missing: {_first_line(error)}; run `lycosa check`"
            ) from None
        except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
            raise UsageError(
                f"the SQL query failed: {_first_line(error)}; {_names_hint(query, tables)}"
            ) from None

    def _scans_own_files(self, rows: pl.LazyFrame) -> bool:
        """Return whether a query plan reads only files of the tables."""
        paths = tuple(
            self.storage.files.local_path(file.path)
            for files in self.state.files.values()
            for file in files
        )
        return all(
            is_parquet and source.startswith(paths)
            for is_parquet, source in _SCAN.findall(rows.explain(optimized=False))
        )

    def _with_plugin_columns(self, name: str) -> pl.LazyFrame:
        rows = self.scan(name)
        columns = plugin_columns(installed_plugins()) if name == "pages" else {}
        for column, type_ in columns.items():
            value = pl.col("plugin_values").str.json_path_match(f"$.{column}")
            typed = value == "true" if type_ is bool else value.cast(_TYPES[type_], strict=False)
            rows = rows.with_columns(typed.alias(column))
        return rows

    def _all(self, table: Table) -> pl.LazyFrame:
        files = self.state.files.get(table.name, [])
        if not files:
            return pl.LazyFrame(schema=polars_schema(table) | {ENTRY: pl.Int64()})
        self.storage.files.prefetch(files)
        parts = [self._file(table, file) for file in files]
        return pl.concat(parts) if len(parts) > 1 else parts[0]

    def _file(self, table: Table, file: DataFile) -> pl.LazyFrame:
        """Return the rows of a file that can be read, with their entries."""
        rows, condition = scan_file(self.storage, table, file), self._condition(table)
        return rows if condition is None else rows.filter(condition)

    def _condition(self, table: Table) -> pl.Expr | None:
        """Return the condition of rows that can be read: they are not excluded; None: all can."""
        hidden = is_excluded(self.state.exclusions, table.name)
        return None if hidden is None else ~hidden

    def _rows_by_file(
        self, table: Table, files: Sequence[DataFile], only: pl.Expr | None
    ) -> dict[int, pl.Series]:
        """Return place of a file -> positions of its live rows, among those that pass `only`."""
        if not files:
            return {}
        keys = []
        for place, file in enumerate(files):
            rows = self._file(table, file)
            rows = rows if only is None else rows.filter(only)
            keys.append(rows.select(table.key).with_row_index("row").with_columns(file=place))
        live = pl.concat(keys).unique(subset=list(table.key), keep="last").select("file", "row")
        parts = live.collect().partition_by("file", as_dict=True)
        return {place: part["row"].sort() for (place,), part in parts.items()}

    def _parts(
        self,
        table: Table,
        file: DataFile,
        columns: Sequence[str | pl.Expr],
        only: pl.Expr | None = None,
        memory_bytes: int | None = None,
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield (position of the first row, rows) of a file's rows in parts of bounded memory.

        Positions count the rows that pass the filters. Parts are slices of the file, which are
        filtered afterwards: for a slice of filtered rows all rows before it are read again.
        """
        rows = scan_file(self.storage, table, file)
        first, end = 0, file.rows
        if only is not None:
            row = rows.with_row_index(_ROW).filter(only).select(first=_ROW, last=_ROW)
            first, last = row.select(pl.col("first").min(), pl.col("last").max()).collect().row(0)
            if first is None:
                return
            end = last + 1
        filters = [each for each in (self._condition(table), only) if each is not None]
        min_rows = 1_000 if memory_bytes is None else 100
        step = max(min_rows, (memory_bytes or _BATCH_BYTES) // 6 * file.rows // max(1, file.bytes))
        group = group_rows_of(self.storage, file)
        if 2 * step > group:  # so that each group is decompressed once
            step = round(step / group) * group
        position = 0
        for start in range(first - first % group, end, step):
            size = min(step, end - start)
            part_rows = rows if size == file.rows else rows.slice(start, size)
            for condition in filters:
                part_rows = part_rows.filter(condition)
            part = part_rows.select(columns).collect()
            if part.height:
                yield position, part
            position += part.height

    def _named_by_exclusions(self, table: Table) -> set[str]:
        hidden = is_excluded(self.state.exclusions, table.name)
        return set() if hidden is None else set(hidden.meta.root_names())

    def _newest_parses(self, name: str) -> pl.LazyFrame | None:
        """Return the newest parses of all sources of a table; None: it is not one of these."""
        table = TABLES[name]
        if not table.parsed_at:
            return None
        return newest_parses(table, self._all(TABLES["pages"]), self._all(table))

    def _collected_parses(self, name: str) -> pl.LazyFrame | None:
        """Return `_newest_parses` in memory, for repeated use."""
        parses = self._newest_parses(name)
        return None if parses is None else parses.collect().lazy()


def _reads_files(query: str) -> bool:
    """Return whether a query may call a table function; true for some that do not."""
    if _FILE_FUNCTION.search(query) is None:
        return False
    return bool(_CALLED.search(query) or _COMMENT.search(query))


def in_partitions(partitions: range) -> pl.Expr:
    """Return whether a row is in one of these contiguous partitions."""
    if not partitions:
        return pl.lit(False)
    return pl.col("partition").is_between(partitions[0], partitions[-1])


def sources(files: Sequence[DataFile]) -> list[SortedFiles]:
    """Return a table's files as sources for `in_key_order`: the base files of a collection have
    consecutive key ranges.
    """
    parts: dict[object, list[DataFile]] = {}
    for file in files:
        place = base_place(file.path)
        parts.setdefault(file.path if place is None else (place[0], file.entry), []).append(file)
    ordered = [SortedFiles(tuple(sorted(part, key=first_partition))) for part in parts.values()]
    return sorted(ordered, key=lambda source: source.files[0].entry)


def first_partition(file: DataFile) -> int:
    """Return the partition of the first row of a base file; 0 for others."""
    place = base_place(file.path)
    return place[1] if place else 0


def _table(name: str) -> Table:
    table = TABLES.get(name)
    if table is None:
        raise UsageError(f"unknown table {name!r}; the tables are {', '.join(TABLES)}")
    return table


def _names_hint(query: str, tables: Mapping[str, pl.LazyFrame]) -> str:
    """Return the columns of the tables that a query names, or else the tables."""
    named = [name for name in tables if re.search(rf"\b{name}\b", query)]
    if not named:
        return f"the tables are {', '.join(tables)}"
    return "; ".join(f"{name} has {', '.join(tables[name].collect_schema())}" for name in named)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].partition("; valid columns:")[0]


def read_live(root: str, read: Callable[[LiveTables], _Result]) -> _Result:
    """Read from the live tables; repeat if compaction deletes a file meanwhile, as `retried`."""
    workspace = Workspace.open(root)
    return retried(lambda: read(LiveTables(workspace)))


def retried(read: Callable[[], _Result]) -> _Result:
    """Read the log and its tables; repeat if compaction deletes a file meanwhile.

    Raises:
        WorkError: that happened three times.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return read()
        except FileNotFoundError as error:
            if attempt == _ATTEMPTS:
                raise WorkError(
                    f"table files were replaced during all three attempts ({error}): run the "
                    "command again when no compaction is running"
                ) from None
    raise AssertionError
