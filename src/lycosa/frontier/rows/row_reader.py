"""Reading the live rows of some hosts from the tables, without reading the rest.

The files of a table are sorted by partition and host key. A small index of each
(`lycosa.frontier.rows.row_positions`) maps hosts to rows, so only their rows are read. Of rows with
equal keys the one of the latest entry is live (`lycosa.store.tables.live`); all rows of a host are
read together.

A reader uses the files of the last `refresh`. Uncommitted rows are handled by the caller. Guarded
by bench/large.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.core.records import UrlState
from lycosa.frontier.rows.row_positions import FileIndex, Places, cuts, places, spans, within
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.files import polars_schema
from lycosa.store.tables.schema import TABLES, Table

NEVER = pl.lit(None, dtype=pl.Int64)
"""For `due`: not to be fetched."""

PASS_ROWS = 150_000
"""Rows in memory at once when a whole table is read, and when rows are chosen for many hosts
together.
"""

# files up to here are indexed host by host, so that most are not opened for a host
_EXACT_ROWS = 32_768
_STEP = 512  # rows of a run in larger files: 16 bytes of index
# Rows between two selected ones that are read too, since another slice costs as much as decoding
# these:
_NEAR_CHOOSING = 32_768  # of a few columns
_NEAR = 8_192  # of all
_READ_AHEAD = 8_192  # minimum rows of a slice when a complete file is read
_FILE, _ROW, _FAR, _KIND = "file", "row", "_far", "_kind"


@dataclass(slots=True, frozen=True)
class _File:
    """One live file: a scan of it that can be sliced, and its index."""

    rows: pl.LazyFrame
    index: FileIndex


@dataclass(slots=True, frozen=True)
class RowChoice:
    """Selection and order of the rows of each host: at most `limit`, and at most `far` that are not
    `near`.

    Rows of each `kind` alternate, within a kind in the given order.
    """

    order: Sequence[pl.Expr] = ()
    limit: int | None = None
    near: pl.Expr | None = None
    far: int = 1
    kind: pl.Expr | None = None


class HostRowReader:
    """The live rows of one table that has a key: `urls`, `hosts`, or `pages`. Not thread-safe.

    `path` returns the absolute path of a committed file (`DataFiles.local_path`). With
    `partitions`, `live` yields only those.
    """

    def __init__(
        self,
        table: str,
        path: Callable[[str, int, str], str],
        partitions: Collection[int] | None = None,
    ) -> None:
        self._partitions = partitions
        self.table: Table = TABLES[table]
        self._schema = polars_schema(self.table)
        self._path = path
        self._files: dict[str, _File] = {}  # in the order of their entries
        # A selected row keeps all texts of its frame in memory. Concatenation copies its own
        # text.
        self._copies = [
            pl.concat_str(pl.col(name), pl.lit("")).alias(name)
            for name, kind in self._schema.items()
            if kind == pl.String
        ]

    def refresh(self, files: Sequence[DataFile]) -> None:
        """Use these files (`LogState.files[table]`) and no others.

        Reads two columns of those that are new.

        Raises:
            FileNotFoundError: one is missing.
            WorkspaceError: one is not sorted.
        """
        for file in files:
            if file.path in self._files:
                self._path(
                    file.path, file.bytes, file.digest
                )  # marks the copy of a remote file as in use
        self._files = {file.path: self._files.get(file.path) or self._open(file) for file in files}

    def live(self, columns: Sequence[str], rows: int = PASS_ROWS) -> Iterator[pl.DataFrame]:
        """Yield the live rows of the table, about `rows` at a time, whole hosts together, in the
        order of partition and host key.

        Within a host rows have no particular order. Besides `columns` a frame has the table's key.
        """
        chosen = list(dict.fromkeys([*self.table.key, "partition", "host_key", *columns]))
        readers = [_Reader(file.rows.select(chosen), file.index) for file in self._files.values()]
        ranges = cuts([reader.index for reader in readers], rows)
        for low, high in ranges if self._partitions is None else within(ranges, self._partitions):
            parts = [part for reader in readers if (part := reader.between(low, high)).height]
            if not parts:
                continue
            frame = pl.concat(parts, rechunk=False)
            where = places(frame["partition"].to_numpy(), frame["host_key"].to_numpy())
            inside = where >= np.uint64(low)
            if high < 1 << 64:
                inside &= where < np.uint64(high)
            live = newest(frame.filter(pl.Series(inside)), self.table.key)
            if live.height:
                yield live

    def rows(
        self,
        partitions: npt.NDArray[np.uint16],
        host_keys: npt.NDArray[np.uint64],
        where: pl.Expr | None = None,
        choice: RowChoice | None = None,
    ) -> pl.DataFrame:
        """Return the live rows of these hosts that satisfy `where`, with all columns, in the order
        of partition and host key.

        Superseded rows are ignored.
        """
        choice = choice or RowChoice()
        needed = [*self.table.key, "partition", "host_key"]
        for expression in (*choice.order, where, choice.near, choice.kind):
            needed += [] if expression is None else expression.meta.root_names()
        columns = list(dict.fromkeys(needed))
        frames = [
            self._whole(self._choose(some_places, host_keys[some], columns, where, choice))
            for some, some_places in self._portions(places(partitions, host_keys))
        ]
        return pl.concat(frames) if frames else pl.DataFrame(schema=self._schema)

    def find(
        self,
        partitions: npt.NDArray[np.uint16],
        host_keys: npt.NDArray[np.uint64],
        url_keys: npt.NDArray[np.uint64],
    ) -> pl.DataFrame:
        """Return the live rows of single URLs, all collections and operations."""
        return self.rows(
            partitions, host_keys, pl.col("url_key").is_in(pl.Series(url_keys).implode())
        )

    def _open(self, file: DataFile) -> _File:
        rows = pl.scan_parquet(
            self._path(file.path, file.bytes, file.digest),
            schema=self._schema,
            missing_columns="insert",
            extra_columns="ignore",
            glob=False,
            hive_partitioning=False,
        )
        keys = rows.select("partition", "host_key")
        parts = (keys.slice(first, PASS_ROWS).collect() for first in range(0, file.rows, PASS_ROWS))
        row_places = (
            places(part["partition"].to_numpy(), part["host_key"].to_numpy()) for part in parts
        )
        try:
            return _File(
                rows, FileIndex.of_parts(row_places, 1 if file.rows <= _EXACT_ROWS else _STEP)
            )
        except ValueError as error:
            raise WorkspaceError(f"{file.path}: {error}; run `lycosa check`") from None

    def _portions(self, places: Places) -> Iterator[tuple[npt.NDArray[np.int64], Places]]:
        """Yield hosts in the order of their places, with about PASS_ROWS rows at a time."""
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        sizes = np.zeros(places.size, np.int64)
        for file in self._files.values():
            first, end = file.index.runs(ordered)
            repeated = (
                np.concatenate([[False], (first[1:] == first[:-1]) & (end[1:] == end[:-1])])
                if places.size
                else np.zeros(0, bool)
            )
            sizes += np.where(repeated, 0, end - first)
        steps = np.cumsum(sizes) // PASS_ROWS
        for part in np.split(np.arange(places.size), np.flatnonzero(steps[1:] != steps[:-1]) + 1):
            if part.size:
                yield order[part], ordered[part]

    def _choose(
        self,
        places: Places,
        host_keys: npt.NDArray[np.uint64],
        columns: list[str],
        where: pl.Expr | None,
        choice: RowChoice,
    ) -> pl.DataFrame:
        """Return the file and row numbers of the selected rows, in the order of `choice`."""
        near, kind = choice.near, choice.kind
        reads = []
        for number, file in enumerate(self._files.values()):
            for first, end in spans(*file.index.runs(places), _NEAR_CHOOSING):
                row = pl.int_range(first, first + pl.len(), dtype=pl.Int64).alias(_ROW)
                slice_ = file.rows.select(columns).slice(first, end - first)
                reads.append(slice_.with_columns(pl.lit(number, dtype=pl.Int32).alias(_FILE), row))
        if not reads:
            return pl.DataFrame(schema={_FILE: pl.Int32, _ROW: pl.Int64})
        hosts = pl.Series(host_keys).implode()
        # One after the other: `collect_all` takes five times as long for 100 small slices, and 80
        # MB.
        parts = [read.filter(pl.col("host_key").is_in(hosts)).collect() for read in reads]
        frame = newest(pl.concat(parts, rechunk=False), self.table.key)
        if where is not None:
            frame = frame.filter(where)
        frame = frame.sort("partition", "host_key", *choice.order, _FILE, _ROW)
        if near is not None:
            is_far = ~near.fill_null(False)
            frame = frame.filter(
                ~is_far
                | (is_far.cast(pl.UInt32).cum_sum().over("partition", "host_key") <= choice.far)
            )
        if kind is not None:
            is_far = pl.lit(False) if near is None else ~near.fill_null(False)
            frame = frame.with_columns(is_far.alias(_FAR), kind.alias(_KIND))
            turn = pl.col("host_key").cum_count().over("partition", "host_key", _FAR, _KIND)
            frame = frame.sort("partition", "host_key", _FAR, turn, maintain_order=True)
        if choice.limit is not None:
            frame = frame.group_by("partition", "host_key", maintain_order=True).head(choice.limit)
        return frame.select(_FILE, _ROW)

    def _whole(self, chosen: pl.DataFrame) -> pl.DataFrame:
        """Return all columns of chosen rows, in their order."""
        files = list(self._files.values())
        parts = [pl.DataFrame(schema={_FILE: pl.Int32, _ROW: pl.Int64, **self._schema})]
        for (number,), of_file in chosen.partition_by(_FILE, as_dict=True).items():
            rows = of_file[_ROW].sort().to_numpy()
            for first, end in spans(rows, rows + 1, _NEAR):
                part = files[int(number)].rows.slice(first, end - first).collect()
                in_group = rows[(rows >= first) & (rows < end)]
                marked = part[in_group - first].with_columns(
                    pl.lit(number, dtype=pl.Int32).alias(_FILE),
                    pl.Series(_ROW, in_group),
                    *self._copies,
                )
                parts.append(marked.select(parts[0].columns))
        return chosen.join(
            pl.concat(parts), on=[_FILE, _ROW], how="left", maintain_order="left"
        ).drop(_FILE, _ROW)


class _Reader:
    """Reads a file from its start to its end, in slices that are not too small."""

    def __init__(self, rows: pl.LazyFrame, index: FileIndex) -> None:
        self.index = index
        self._rows = rows
        self._held = pl.DataFrame()
        self._first = 0  # row number of the first row of `_held`

    def between(self, low: int, high: int) -> pl.DataFrame:
        """Return the rows of `FileIndex.between`."""
        first, end = self.index.between(low, high)
        if end <= first:
            return self._held.clear()
        if end > self._first + self._held.height:
            self._held, self._first = self._held.clear(), first  # freed before more is read
            self._held = self._rows.slice(first, max(end - first, _READ_AHEAD)).collect()
        part = self._held.slice(first - self._first, end - first)
        if end >= min(self._first + _READ_AHEAD, self.index.rows):
            self._held = self._held.clear()
        return part


def newest(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Return the last row of each key, in no order; `rows` are in the order of their entries.

    Rows with equal keys are few: only rows with an equal `url_key` are compared in full.
    """
    probe = "url_key" if "url_key" in key else "host_key"
    doubtful = rows[probe].is_duplicated()
    if not doubtful.any():
        return rows
    return pl.concat(
        [
            rows.filter(~doubtful),
            rows.filter(doubtful).unique(subset=list(key), keep="last", maintain_order=True),
        ]
    )


def summary(rows: pl.DataFrame, due: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Summarise the live rows of `urls` by host.

    Partition, host_key, waiting (URLs in state known), visited, due_at.

    `due`: for each collection, an expression over the columns of `urls` that returns when a URL is
    due: ms since 1970, or null for never. `due_at` is the earliest of a host's, null for never;
    rows of other collections are counted and never due.
    """
    when = NEVER
    for collection, expression in due.items():
        when = (
            pl.when(pl.col("collection") == collection)
            .then(expression.cast(pl.Int64))
            .otherwise(when)
        )
    return rows.group_by("partition", "host_key", maintain_order=True).agg(
        waiting=(pl.col("state") == UrlState.KNOWN).sum().cast(pl.UInt32),
        visited=(pl.col("state") == UrlState.VISITED).sum().cast(pl.UInt32),
        due_at=when.min(),
    )
