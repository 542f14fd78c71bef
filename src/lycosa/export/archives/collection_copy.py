"""Copy one collection into another workspace: unchanged rows, records as they are compressed.

The copy can be crawled, searched (after `lycosa index`) and exported like the original. Records
that several collections share are copied completely, so their metadata records name the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import polars as pl

from lycosa.archive.cdxj import write_lines
from lycosa.archive.warc.record import new_record_id
from lycosa.archive.warc.writer import warcinfo_record
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.records import UrlState
from lycosa.export.archives.warc import (
    ArchivedCapture,
    UnreadableRecord,
    copy_warcinfo,
    index_line,
    readable_groups,
)
from lycosa.store.log.archive_files import CDXJ_NAME, WARC_NAME
from lycosa.store.log.claim import Claim, DataFolder
from lycosa.store.log.transaction import CommitContents
from lycosa.store.tables.files import write_table
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.workspace import Workspace

_COMMIT_CAPTURES = 5_000
_FRAME_BYTES = 24 * 2**20
_SOURCE = ["host_key", "url_key"]
_COUNTERS = ("pages", "suspects")  # `pages.NAME`, used by budgets


@dataclass(slots=True)
class CopyReport:
    """The copied rows by table, exchanges, and compressed bytes of records.

    `unreadable` records are omitted; the rows of their visits are copied without a location.
    """

    rows: Counter[str] = field(default_factory=Counter)
    exchanges: int = 0
    bytes: int = 0
    unreadable: list[UnreadableRecord] = field(default_factory=list)

    def add_exchanges(self, exchanges: int, size: int) -> None:
        self.exchanges += exchanges
        self.bytes += size


@dataclass(slots=True, frozen=True)
class _Rows:
    """A frame as a buffer of a commit."""

    table: str
    frame: pl.DataFrame

    @property
    def rows(self) -> int:
        return self.frame.height

    def write(self, path: str) -> None:
        write_table(self.frame, path, TABLES[self.table])


def copy_collection(
    source: Workspace,
    name: str,
    target: Workspace,
    settings: Mapping[str, Any],
    clock: Clock | None = None,
) -> CopyReport:
    """Copy a collection in the current state of the log. The caller owns the target.

    `settings`: those of the collection, for the log of the target. An interrupted copy cannot be
    continued: purge it in the target and copy again.

    Raises:
        UsageError: the source has no such collection, the target has it, or their partitions
            differ.
        FileNotFoundError: a replaced table file was deleted meanwhile: purge the copy, start again.
    """
    if (source.partitions, source.normaliser) != (target.partitions, target.normaliser):
        raise UsageError(
            f"{target.root} has {target.partitions} partitions and {source.root} has "
            f"{source.partitions}: specify a new folder"
        )
    tables = LiveTables(source)
    if not _contains(tables, name):
        raise UsageError(
            f"{source.root} has no collection {name!r}; `lycosa collection list` "
            "lists the collections"
        )
    if _contains(LiveTables(target), name):
        raise UsageError(
            f"{target.root} already has a collection {name!r}: purge it there first, "
            "or specify another folder"
        )
    return _Copy(source, tables, name, target, clock or SystemClock()).run(settings)


def _contains(tables: LiveTables, name: str) -> bool:
    mine = pl.col("collection") == name
    return any(
        tables.all_rows(table).filter(mine).head(1).collect().height
        for table in ("urls", "visits", "pages")
    )


class _Copy:
    def __init__(
        self, source: Workspace, tables: LiveTables, name: str, target: Workspace, clock: Clock
    ) -> None:
        self._source = source
        self._tables = tables
        self._name = name
        self._mine = pl.col("collection") == name
        self._target = target
        self._clock = clock
        self._report = CopyReport()

    def run(self, settings: Mapping[str, Any]) -> CopyReport:
        claim = self._target.claim(
            "collection copy", settings={self._name: dict(settings)}, clock=self._clock
        )
        for captures in self._captures():
            self._copy_captures(claim, captures)
        sources: list[pl.DataFrame] = []
        for table in ("pages", "metadata", "items", "urls", "found"):
            for frame in self._tables.ordered(table, memory_bytes=_FRAME_BYTES):
                rows = frame.filter(self._mine)
                self._commit(claim, table, rows)
                if table == "pages":
                    sources.append(rows.select(_SOURCE))
        redirects = (
            self._tables.scan("visits")
            .filter(self._mine & (pl.col("redirect_to") != ""))
            .select(_SOURCE)
            .collect()
        )
        keys = pl.concat([*sources, redirects]).unique()
        for table in ("links", "matches"):
            for frame in self._tables.ordered(table, memory_bytes=_FRAME_BYTES):
                self._commit(
                    claim, table, frame.join(keys, on=_SOURCE, how="semi", maintain_order="left")
                )
        self._copy_hosts(claim)
        counters = self._tables.state.counters
        names = [f"{kind}.{self._name}" for kind in _COUNTERS]
        copied = {name: counters[name] for name in names}
        claim.commit(claim.next_folder(), {}, CommitContents(counters=copied))
        claim.release()
        return self._report

    def _commit(self, claim: Claim, table: str, rows: pl.DataFrame) -> None:
        if rows.height:
            claim.commit(claim.next_folder(), {table: _Rows(table, rows)})
            self._report.rows[table] += rows.height

    def _captures(self) -> Iterator[pl.DataFrame]:
        """Yield the visits in the order of the archive, a few thousand at a time."""
        visits = self._tables.scan("visits").filter(self._mine)
        files = visits.select("warc_file").unique().sort("warc_file").collect()["warc_file"]
        for warc_file in files:
            rows = visits.filter(pl.col("warc_file") == warc_file).sort("warc_offset").collect()
            yield from rows.iter_slices(_COMMIT_CAPTURES)

    def _copy_captures(self, claim: Claim, visits: pl.DataFrame) -> None:
        folder = claim.next_folder()
        warc_file = visits.item(0, "warc_file")
        if not warc_file:
            claim.commit(folder, {"visits": _Rows("visits", visits)})
            self._report.rows["visits"] += visits.height
            return
        moved, lines = self._copy_records(folder, visits)
        offset = pl.col("warc_offset").replace_strict(moved, default=None, return_dtype=pl.Int64)
        placed = visits.with_columns(
            pl.when(offset.is_null())
            .then(pl.lit(""))
            .otherwise(pl.lit(folder.warc))
            .alias("warc_file"),
            offset.fill_null(0),
            pl.when(offset.is_null()).then(0).otherwise("warc_length").alias("warc_length"),
        )
        write_lines(f"{folder.absolute}/{CDXJ_NAME}", sorted(lines))
        claim.commit(
            folder,
            {"visits": _Rows("visits", placed.sort(SORT, maintain_order=True))},
            CommitContents(warc=folder.warc, cdxj=folder.cdxj),
        )
        self._report.rows["visits"] += visits.height

    def _copy_records(
        self, folder: DataFolder, visits: pl.DataFrame
    ) -> tuple[dict[int, int], list[str]]:
        """Copy the exchanges of some visits; return the new offset of each by the old one, and the
        index lines.
        """
        moved: dict[int, int] = {}
        lines: list[str] = []
        rows = (
            visits.unique("warc_offset", keep="first", maintain_order=True)
            .with_columns(pl.col("fetched_at").dt.epoch("ms"))
            .select(ArchivedCapture._fields)
        )
        info = {"isPartOf": self._name, "description": "copied by Lycosa, records unchanged"}
        captures = map(ArchivedCapture._make, rows.iter_rows())
        with open(f"{folder.absolute}/{WARC_NAME}", "xb") as output:
            output.write(warcinfo_record(new_record_id(), self._clock.now_ms(), folder.warc, info))
            for capture, file, records in readable_groups(
                self._source, captures, self._report.unreadable
            ):
                if not moved:
                    copy_warcinfo(file, output, self._report.unreadable)
                first, last = records[0], records[-1]
                moved[capture.warc_offset] = output.tell()
                if capture.http_status and first.type != "metadata":
                    lines.append(index_line(capture, first, WARC_NAME, output.tell()))
                output.write(file.peek(first.offset, last.offset + last.length - first.offset))
            self._report.add_exchanges(len(moved), output.tell())
        return moved, lines

    def _copy_hosts(self, claim: Claim) -> None:
        """Copy the hosts and domains of the collection, with the counts of the target."""
        there = LiveTables(self._target)
        touched = self._tables.scan("urls").filter(self._mine).select("host_key").unique().collect()
        states = [
            (pl.col("state") == state.value).sum().cast(pl.Int64).alias(f"now_{state.value}")
            for state in (UrlState.KNOWN, UrlState.VISITED)
        ]
        counted = there.scan("urls").group_by("host_key").agg(states).collect()
        pages = (
            there.scan("pages")
            .group_by("host_key")
            .agg(pl.len().cast(pl.Int64).alias("now_pages"))
            .collect()
        )
        ours = there.scan("hosts").select("host_key", "host").collect()
        domains = set(
            self._tables.scan("hosts")
            .join(touched.lazy(), on="host_key", how="semi")
            .collect()["registrable_domain"]
        )
        above = (pl.col("host") == "") & pl.col("registrable_domain").is_in(domains)
        existing = (
            frame.join(touched, on="host_key", how="semi")
            for frame in there.ordered("hosts", memory_bytes=_FRAME_BYTES)
        )
        copied = (
            frame.filter(pl.col("host_key").is_in(touched["host_key"].implode()) | above)
            .join(ours, on=["host_key", "host"], how="anti")
            for frame in self._tables.ordered("hosts", memory_bytes=_FRAME_BYTES)
        )  # fmt: skip
        for frame in chain(list(existing), copied):
            joined = frame.join(counted, on="host_key", how="left").join(
                pages, on="host_key", how="left"
            )
            host = pl.col("host") != ""
            new = [
                pl.when(host)
                .then(pl.col(f"now_{column}").fill_null(0))
                .otherwise(column)
                .alias(column)
                for column in ("known", "visited", "pages")
            ]
            self._commit(claim, "hosts", joined.with_columns(new).select(frame.columns))
