"""Buffers of rows for the next commit, in columns.

A buffer packs every few hundred rows into a polars frame, so that memory is close to the size of
the data. Hot path (bench/tables.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from lycosa.core.host_row import HostRow
from lycosa.core.records import Link, Page, UrlRow, Visit
from lycosa.store.tables.files import polars_schema, write_table
from lycosa.store.tables.rows import (
    NO_VALUES,
    Row,
    host_row,
    item_rows,
    metadata_row,
    page_row,
    url_row,
    visit_row,
)
from lycosa.store.tables.schema import TABLES

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SEPARATOR = "\x1f"  # rare in texts
_PENDING_ROWS = {"pages": 100}
_DEFAULT_PENDING_ROWS = 2_000
_PENDING_LINK_PAGES = 200
_PENDING_LINKS = 10_000  # about 3 MB
_PENDING_CHARACTERS = 2**20


class TableBuffer:
    """Rows of one table for the next commit.

    Raises:
        ValueError: (when rows are packed) the number of values differs from that of the columns.
    """

    def __init__(self, name: str) -> None:
        self.table = TABLES[name]
        self._schema = polars_schema(self.table)
        self._pending: list[Row] = []
        self._pending_characters = 0
        self._pending_limit = _PENDING_ROWS.get(name, _DEFAULT_PENDING_ROWS)
        self._frames: list[pl.DataFrame] = []
        self._packed_rows = 0
        self.bytes = 0
        """The estimated size of the packed rows; the last few hundred rows are not included."""

    @property
    def rows(self) -> int:
        return self._packed_rows + len(self._pending)

    def add(self, row: Row, characters: int = 0) -> None:
        """Add a row in the order of the table's columns (`lycosa.store.tables.rows`).

        `characters`: the length of its long texts.
        """
        self._pending.append(row)
        self._pending_characters += characters
        if (
            len(self._pending) >= self._pending_limit
            or self._pending_characters >= _PENDING_CHARACTERS
        ):
            self._pack()

    def extend(self, rows: Iterable[Row]) -> None:
        """Add many rows."""
        for row in rows:
            self.add(row)

    def add_unpacked(self, rows: Iterable[Row]) -> None:
        """Add many rows quickly; they are packed by `frame` or `write`."""
        self._pending.extend(rows)

    def frame(self) -> pl.DataFrame:
        """Return all rows in the order in which they were added."""
        self._pack()
        if not self._frames:
            return pl.DataFrame(schema=self._schema)
        if len(self._frames) > 1:
            self._frames = [pl.concat(self._frames)]
        return self._frames[0]

    def write(self, path: str) -> None:
        """Write all rows to a Parquet file, stably sorted by `SORT`. Not synced."""
        write_table(self.frame(), path, self.table)

    def _pack(self) -> None:
        if self._pending:
            rows, self._pending, self._pending_characters = self._pending, [], 0
            self._add_frame(_frame(rows, self._schema))

    def _add_frame(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._packed_rows += frame.height
        self.bytes += int(frame.estimated_size())


class LinksBuffer(TableBuffer):
    """The buffer of `links`: adds the links of a page at once, their common values only once."""

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
        """Add the links of a visit. The sequence must not be changed afterwards."""
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
        if len(self._sources) >= _PENDING_LINK_PAGES or self._link_rows >= _PENDING_LINKS:
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
            # By page: one zip over all links creates an iterator per link, which the garbage
            # collector has to traverse.
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
        self._add_frame(pl.DataFrame(frame))


class Buffers:
    """One buffer per table: the rows of a worker between two commits."""

    def __init__(self) -> None:
        self.visits = TableBuffer("visits")
        self.pages = TableBuffer("pages")
        self.metadata = TableBuffer("metadata")
        self.items = TableBuffer("items")
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
        """Add the rows of `pages`, `metadata` and `items` of a visit. Links are added once per
        exchange by `links.add_links`.
        """
        characters = len(page.text) + len(page.main_text) + len(page.markdown or "")
        self.pages.add(page_row(visit, page, redirect_from, values), characters)
        self.metadata.add(metadata_row(visit, page.metadata))
        self.items.extend(item_rows(visit, page.items))

    def add_url(self, row: UrlRow) -> None:
        self.urls.add(url_row(row))

    def add_host(self, row: HostRow) -> None:
        self.hosts.add(host_row(row))

    def mapping(self) -> dict[str, TableBuffer]:
        """Return the buffers by table, for `Claim.commit`."""
        return {name: getattr(self, name) for name in TABLES}

    @property
    def bytes(self) -> int:
        return sum(buffer.bytes for buffer in self.mapping().values())


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
        # 0 means "never" in records, null in tables.
        return pl.Series(name, [value or None for value in values], dtype=pl.Int64).cast(kind)
    if isinstance(kind, pl.List):
        if not any(values):
            return pl.Series(name, [[]], dtype=kind).new_from_index(0, len(values))
        if kind.inner == pl.String() and (lists := _text_lists(name, values)) is not None:
            return lists
        # By JSON: 2 us per page; from Python objects polars needs 45 us.
        return _texts(name, [_json(value) if value else "[]" for value in values]).str.json_decode(
            kind
        )
    if isinstance(kind, pl.String):
        return _texts(name, values)
    return pl.Series(name, values, dtype=kind)


def _text_lists(name: str, values: list[list[str]]) -> pl.Series | None:
    """Create lists of texts by splitting, twice as fast as JSON. None if a text contains the
    separator.
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
    except UnicodeEncodeError:  # an unpaired surrogate
        return pl.Series(
            name,
            [
                value and value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                for value in values
            ],
            dtype=pl.String,
        )
