"""Rows on their way to Parquet: buffers that hold columns, not Python objects.

A buffer takes rows as tuples and packs them into a polars frame every few hundred, so that what
waits for a commit costs its bytes and little more. Guarded by bench/store.py (CPU a page, peak
memory).
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from lycosa.core.records import HostRow, Link, Page, UrlRow, Visit
from lycosa.store.tables.rows import NO_VALUES, Row, host_row, page_row, url_row, visit_row
from lycosa.store.tables.schema import SORT, TABLES, Table

GROUP_BYTES = 8 * 2**20
"""A row group holds at most about this much, in memory: a reader of large pages holds one or two of
them.
"""

PASSING_GROUP_BYTES = 2**21
"""The same of a file that will be folded into another one before long: a merge holds about a group
of each of its files.
"""

PASSING_LEVEL = 1
"""zstd's, for such a file."""

GROUP_ROWS = "lycosa.group_rows"
"""Key of a file's own metadata: how many rows a row group has. Who reads by groups unpacks each
once.
"""

_TYPES: dict[str, pl.DataType] = {
    "u16": pl.UInt16(),
    "u32": pl.UInt32(),
    "u64": pl.UInt64(),
    "i64": pl.Int64(),
    "f64": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "time": pl.Datetime("ms", "UTC"),
}
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SEPARATOR = "\x1f"  # hardly in any text
_PENDING_ROWS = {"pages": 100}
_DEFAULT_PENDING_ROWS = 2_000
_PENDING_LINK_PAGES = 200


def polars_type(name: str) -> pl.DataType:
    """The polars type of a column's type in `lycosa.store.tables.schema`."""
    inner = re.fullmatch(r"list\[(.+)\]", name)
    if not inner:
        return _TYPES[name]
    if ":" not in inner[1]:
        return pl.List(_TYPES[inner[1]])
    fields = (part.split(":") for part in inner[1].split(","))
    return pl.List(pl.Struct({field: _TYPES[kind] for field, kind in fields}))


def polars_schema(table: Table) -> dict[str, pl.DataType]:
    """A table's columns and their polars types, in order."""
    return {column.name: polars_type(column.type) for column in table.columns}


class TableBuffer:
    """Rows of one table that wait to be written.

    Raises:
        ValueError: (late, when rows are packed) a row with another number of values than the table
        has columns.
    """

    def __init__(self, name: str) -> None:
        self.table = TABLES[name]
        self._schema = polars_schema(self.table)
        self._pending: list[Row] = []
        self._pending_limit = _PENDING_ROWS.get(name, _DEFAULT_PENDING_ROWS)
        self._frames: list[pl.DataFrame] = []
        self._packed_rows = 0
        self._packed_bytes = 0

    @property
    def rows(self) -> int:
        return self._packed_rows + len(self._pending)

    @property
    def bytes(self) -> int:
        """What the packed rows hold in memory, about; at most a few hundred rows behind."""
        return self._packed_bytes

    def add(self, row: Row) -> None:
        """Take one row: a tuple in the order of the table's columns
        (`lycosa.store.tables.rows`)."""
        self._pending.append(row)
        if len(self._pending) >= self._pending_limit:
            self._pack()

    def extend(self, rows: Iterable[Row]) -> None:
        """Take many rows."""
        for row in rows:
            self.add(row)

    def frame(self) -> pl.DataFrame:
        """All rows in the order they came in."""
        self._pack()
        if not self._frames:
            return pl.DataFrame(schema=self._schema)
        if len(self._frames) > 1:
            self._frames = [pl.concat(self._frames)]
        return self._frames[0]

    def write(self, path: str) -> None:
        """Write all rows to a Parquet file, sorted by `SORT`, rows of one URL in the order they
        came in. Not synced.
        """
        write_table(self.frame(), path, self.table)

    def _pack(self) -> None:
        if self._pending:
            rows, self._pending = self._pending, []
            self._keep(_frame(rows, self._schema))

    def _keep(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._packed_rows += frame.height
        self._packed_bytes += int(frame.estimated_size())


class LinksBuffer(TableBuffer):
    """The buffer of `links`: takes the links of a page at once, what they share only once. Hot
    path.
    """

    def __init__(self) -> None:
        super().__init__("links")
        # keys, source, found_at, number of links
        self._sources: list[tuple[int, int, int, str, int, int]] = []
        self._links: list[Sequence[Link]] = []
        self._link_rows = 0

    @property
    def rows(self) -> int:
        return super().rows + self._link_rows

    def add_links(self, visit: Visit, links: Sequence[Link]) -> None:
        """Take the links of what a visit brought. The sequence is kept until it is packed: do not
        change it.
        """
        if not links:
            return
        self._sources.append(
            (
                visit.partition,
                visit.host_key,
                visit.url_key,
                visit.url,
                visit.fetched_at,
                len(links),
            )
        )
        self._links.append(links)
        self._link_rows += len(links)
        if len(self._sources) >= _PENDING_LINK_PAGES:
            self._pack()

    def _pack(self) -> None:
        super()._pack()
        if not self._sources:
            return
        partitions, host_keys, url_keys, sources, times, counts = zip(*self._sources, strict=True)
        schema = self._schema
        shared = (
            ("partition", np.array(partitions, np.uint16)),
            ("host_key", np.array(host_keys, np.uint64)),
            ("url_key", np.array(url_keys, np.uint64)),
        )
        frame = [pl.Series(name, np.repeat(values, counts)) for name, values in shared]
        which = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        frame.append(pl.Series("source", sources, dtype=pl.String)[which])
        own: dict[str, list[Any]] = {
            name: [] for name in ("target", "anchor", "rel", "kind", "position")
        }
        for links in self._links:
            # Page by page: a zip over all links at once makes an iterator for each, and the garbage
            # collector walks them all.
            for column, values in zip(own.values(), zip(*links, strict=True), strict=True):
                column.extend(values)
        for name, column in own.items():
            frame.append(_series(name, schema[name], column))
        frame.append(
            pl.Series("found_at", np.repeat(np.array(times, np.int64), counts)).cast(
                schema["found_at"]
            )
        )
        self._sources, self._links, self._link_rows = [], [], 0
        self._keep(pl.DataFrame(frame))


class Buffers:
    """One buffer a table: what a worker fills between two commits."""

    def __init__(self) -> None:
        self.visits = TableBuffer("visits")
        self.pages = TableBuffer("pages")
        self.links = LinksBuffer()
        self.urls = TableBuffer("urls")
        self.hosts = TableBuffer("hosts")
        self.found = TableBuffer("found")
        self.matches = TableBuffer("matches")

    def add_visit(self, visit: Visit) -> None:
        self.visits.add(visit_row(visit))

    def add_page(
        self,
        visit: Visit,
        page: Page,
        redirect_from: str = "",
        values: Mapping[str, Any] = NO_VALUES,
    ) -> None:
        """The pages row of a visit. Its links are the exchange's: `links.add_links` once, however
        many collections.
        """
        self.pages.add(page_row(visit, page, redirect_from, values))

    def add_url(self, row: UrlRow) -> None:
        self.urls.add(url_row(row))

    def add_host(self, row: HostRow) -> None:
        self.hosts.add(host_row(row))

    def mapping(self) -> dict[str, TableBuffer]:
        """The buffers by table, as `Claim.commit` wants them."""
        return {name: getattr(self, name) for name in TABLES}

    @property
    def bytes(self) -> int:
        return sum(buffer.bytes for buffer in self.mapping().values())


def write_table(frame: pl.DataFrame, path: str, table: Table) -> None:
    """Write rows of a table to a Parquet file, sorted by `SORT` (stable); not synced. Raises
    OSError: the disk does not take it.
    """
    ordered = frame.sort(SORT, maintain_order=True)
    rows = group_rows(ordered, table, PASSING_GROUP_BYTES)
    with writing(path):
        ordered.write_parquet(
            path,
            compression="zstd",
            compression_level=PASSING_LEVEL,
            statistics=True,
            row_group_size=rows,
            metadata={GROUP_ROWS: str(rows)},
        )


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """What polars raises when it cannot write the file becomes an OSError that says why.

    It names the system's error, or, where the write of a header failed, only a "transport error":
    then one more write tells.
    """
    try:
        yield
    except pl.exceptions.PolarsError as error:
        if said := _OS_ERROR.search(str(error)):
            number = int(said[1])
            raise OSError(number, os.strerror(number), os.fspath(path)) from error
        if _TRANSPORT in str(error):
            raise _refusal(path) from error
        raise


_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_TRANSPORT = "transport error"
_PROBE_BYTES = 1 << 16


def _refusal(path: str | os.PathLike[str]) -> OSError:
    number = errno.EIO
    try:
        with open(path, "ab", buffering=0) as file:
            if file.write(bytes(_PROBE_BYTES)) < _PROBE_BYTES:
                number = errno.ENOSPC
            else:
                os.fsync(file.fileno())
    except OSError as error:
        number = error.errno or errno.EIO
    return OSError(number, os.strerror(number), os.fspath(path))


def group_rows(frame: pl.DataFrame, table: Table, group_bytes: int = GROUP_BYTES) -> int:
    """How many rows such as these go into one row group of at most `group_bytes` in memory."""
    fitting = group_bytes * frame.height // max(1, int(frame.estimated_size()))
    return max(1, min(table.group_rows, fitting))


def _frame(rows: list[Row], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    for row in rows:
        if len(row) != len(schema):
            raise ValueError(
                f"a row has {len(row)} values, the table has {len(schema)} columns: "
                f"{', '.join(schema)}"
            )
    return pl.DataFrame(
        [
            _series(name, kind, list(map(itemgetter(place), rows)))
            for place, (name, kind) in enumerate(schema.items())
        ]
    )


def _series(name: str, kind: pl.DataType, values: list[Any]) -> pl.Series:
    if isinstance(kind, pl.Datetime):
        # 0 is "never" in the records and null in the tables.
        return pl.Series(name, [value or None for value in values], dtype=pl.Int64).cast(kind)
    if isinstance(kind, pl.List):
        if not any(values):
            return pl.Series(name, [[]], dtype=kind).new_from_index(0, len(values))
        if kind.inner == pl.String() and (lists := _text_lists(name, values)) is not None:
            return lists
        # By way of JSON: polars takes 45 us a page to build these few short lists from Python
        # objects, this 2.
        return _texts(name, [_json(value) if value else "[]" for value in values]).str.json_decode(
            kind
        )
    if isinstance(kind, pl.String):
        return _texts(name, values)
    return pl.Series(name, values, dtype=kind)


def _text_lists(name: str, values: list[list[str]]) -> pl.Series | None:
    """Lists of texts by way of texts that are split, half the work of JSON; None: the separator
    stands in one of them.
    """
    joined = [_SEPARATOR.join(value) if value else None for value in values]
    if sum(text.count(_SEPARATOR) for text in joined if text) != sum(
        len(value) - 1 for value in values if value
    ):
        return None
    lists = _texts(name, joined).str.split(_SEPARATOR)
    return lists.fill_null([]) if lists.null_count() else lists


def _texts(name: str, values: list[str | None]) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=pl.String)
    except UnicodeEncodeError:  # a lone surrogate somewhere: not text in UTF-8
        return pl.Series(
            name,
            [
                value and value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                for value in values
            ],
            dtype=pl.String,
        )
