"""Remove a collection: its rows, and the records and links that no other collection has.

The caller holds all partitions, so that no worker commits rows of the collection meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from lycosa.archive.warc.members import Record
from lycosa.core.records import UrlState
from lycosa.store.exclusion.purge import Purge, PurgeReport, run_purge
from lycosa.store.exclusion.purge_archive import WarcCut, plan_cut
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.files import scan_file
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import Table
from lycosa.store.workspace import Workspace

_SOURCE = ["host_key", "url_key"]
_RECORD = ["warc_file", "warc_offset"]


def purge_collection(workspace: Workspace, name: str) -> PurgeReport:
    """Remove the rows, records and links of one collection alone. The caller holds all partitions.

    Memory: the keys of the collection's URLs and the positions of its records. Raises the same
    errors as `purge`.
    """
    return run_purge(workspace, lambda state: _CollectionPurge(workspace, state, name=name))


@dataclass(slots=True)
class _CollectionPurge(Purge):
    """Removes by collection. `_sources`: URLs with rows of this collection only; `_hosts`: its
    hosts, with their counts without it.
    """

    name: str = ""
    _sources: pl.DataFrame = field(init=False)
    _hosts: pl.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        tables = LiveTables(self.workspace, self.state)
        mine = pl.col("collection") == self.name
        seen = pl.concat(
            [
                tables.all_rows(table).select(*_SOURCE, mine.alias("mine"))
                for table in ("pages", "visits")
            ]
        )
        self._sources = (
            seen.group_by(_SOURCE)
            .agg(pl.col("mine").all())
            .filter("mine")
            .select(_SOURCE)
            .collect()
        )
        urls = tables.scan("urls").select("host_key", "collection", "state")
        visits = tables.all_rows("visits").select("host_key", "collection")
        pages = (
            tables.scan("pages").filter(~mine).group_by("host_key").agg(pl.len().alias("now_pages"))
        )
        others = (
            urls.filter(~mine)
            .group_by("host_key")
            .agg(
                pl.len().alias("left"),
                *(
                    (pl.col("state") == state.value).sum().cast(pl.Int64).alias(state.value)
                    for state in (UrlState.KNOWN, UrlState.VISITED)
                ),
            )
        )
        touched = pl.concat(
            [urls.filter(mine).select("host_key"), visits.filter(mine).select("host_key")]
        ).unique()
        joined = (
            touched.join(others, on="host_key", how="left")
            .join(pages, on="host_key", how="left")
            .fill_null(0)
        )
        self._hosts = joined.rename({"known": "now_known", "visited": "now_visited"}).collect()

    def purge_orphans(self) -> PurgeReport:
        """Do nothing: replay skips collections that are not configured."""
        return PurgeReport()

    def _cuts(self) -> dict[str, WarcCut]:
        rows = (
            LiveTables(self.workspace, self.state)
            .all_rows("visits")
            .select(*_RECORD, mine=pl.col("collection") == self.name)
        )
        only = (
            rows.group_by(_RECORD)
            .agg(pl.col("mine").all())
            .filter("mine")
            .select(_RECORD)
            .collect()
        )
        return {
            str(path): plan_cut(
                self.workspace.path(str(path)), _in_exchanges(set(places["warc_offset"]))
            )
            for (path,), places in only.partition_by(["warc_file"], as_dict=True).items()
            if path in self.state.warcs
        }

    def _touched(self, table: Table, warcs: list[str]) -> list[DataFile]:
        touched = []
        for file in self.state.files.get(table.name, []):
            rows = scan_file(self.workspace.storage, table, file)
            if "collection" in table.names:
                test = pl.col("collection") == self.name
                if table.name == "visits":
                    test |= pl.col("warc_file").is_in(warcs)
                hit = rows.select(test.any()).collect().item()
            else:
                keys, on = (
                    (self._hosts, ["host_key"])
                    if table.name == "hosts"
                    else (self._sources, _SOURCE)
                )
                hit = (
                    rows.join(keys.lazy().select(on), on=on, how="semi")
                    .select(pl.len())
                    .collect()
                    .item()
                    > 0
                )
            if hit:
                touched.append(file)
        return touched

    def _remaining(self, table: Table, frame: pl.DataFrame) -> pl.DataFrame:
        if "collection" in table.names:
            return frame.filter(pl.col("collection") != self.name)
        if table.name == "hosts":
            return self._recounted(frame)
        return frame.join(self._sources, on=_SOURCE, how="anti", maintain_order="left")

    def _recounted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows of hosts that other collections have, with new counts; rows of registrable
        domains are unchanged.
        """
        joined = frame.join(self._hosts, on="host_key", how="left", maintain_order="left")
        mine = (pl.col("host") != "") & pl.col("left").is_not_null()
        remaining = joined.filter(~(mine & (pl.col("left") == 0)))
        new = {"known": "now_known", "visited": "now_visited", "pages": "now_pages"}
        counted = [
            pl.when(mine).then(pl.col(now).cast(frame.schema[name])).otherwise(name).alias(name)
            for name, now in new.items()
        ]
        return remaining.with_columns(counted).select(frame.columns)


def _in_exchanges(offsets: set[int]) -> Callable[[Record], bool]:
    """Return a test for `plan_cut`: whether a record belongs to an exchange that starts at one of
    these offsets. Each exchange ends with its metadata record.
    """
    inside = False

    def is_removed(record: Record) -> bool:
        nonlocal inside
        first_or_later = inside or record.offset in offsets
        inside = first_or_later and record.type != "metadata"
        return first_or_later

    return is_removed
