"""Taking one collection out of a workspace: its rows, and the records and links that no other
collection has.

Whoever calls holds all partitions, so that no worker commits rows of it meanwhile. As with every
purge, what is rewritten counts from one log entry on, and what it replaces is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from lycosa.archive.cdxj import write_lines
from lycosa.archive.warc.members import read_records
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.records import UrlState
from lycosa.store.compaction.compact import maintenance
from lycosa.store.compaction.plan import MergeSettings
from lycosa.store.compaction.vacuum import KEEP_ENTRIES_MS, sweep_alone
from lycosa.store.exclusion.purge import ATTEMPTS, WARC_SUFFIX, Purge, PurgeReport
from lycosa.store.exclusion.purge_archive import Cut, moved
from lycosa.store.log.claim import NotLive
from lycosa.store.log.state import LiveFile
from lycosa.store.tables.files import scan_file
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.ordered import Source, in_key_order
from lycosa.store.tables.schema import Table
from lycosa.store.workspace import Workspace

_SOURCE = ["host_key", "url_key"]
_RECORD = ["warc_file", "warc_offset"]


def purge_collection(workspace: Workspace, name: str, *, clock: Clock | None = None) -> PurgeReport:
    """Remove what a workspace holds of a collection alone. For who holds all partitions.

    Memory: the keys of the collection's URLs and the places of its records.

    Raises:
        ArchiveError: a WARC is damaged where its records lie; nothing was removed.
        WorkspaceError: the log is damaged, or others rewrite files all the time.
        OSError: storage failed.
    """
    ticks = clock or SystemClock()
    report = PurgeReport()
    with maintenance(workspace.storage) as alone:
        if not alone:
            report.pending.append(
                (
                    workspace.root,
                    "another process is compacting, vacuuming or purging this workspace: try again",
                )
            )
            return report
        for attempt in range(ATTEMPTS):
            state = workspace.state()
            try:
                _Collection(workspace, state, report, name=name).run(ticks.now_ms())
                break
            except NotLive:
                if attempt + 1 == ATTEMPTS:
                    raise
        swept = sweep_alone(workspace, state, 0, KEEP_ENTRIES_MS, ticks.now_ms())
        report.bytes_deleted += swept.bytes
    return report


@dataclass(slots=True)
class _Collection(Purge):
    """Chooses by collection. `_sources`: URLs that it alone has rows of; `_hosts`: its hosts, with
    what they hold without it.
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
        pages = tables.scan("pages").filter(~mine).group_by("host_key").agg(pl.len().alias("held"))
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

    def _cuts(self) -> dict[str, tuple[str, Cut]]:
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
        cuts: dict[str, tuple[str, Cut]] = {}
        for (path,), places in only.partition_by(["warc_file"], as_dict=True).items():
            if path in self.state.warcs:
                folder = str(path).rpartition("/")[0]
                cut = _cut_records(self.workspace.path(str(path)), set(places["warc_offset"]))
                cuts[str(path)] = (f"{folder}/archive-{self.attempt[:12]}{WARC_SUFFIX}", cut)
        return cuts

    def _copy_index(self, path: str, target: str, warc_name: str, cut: Cut) -> None:
        removed = {offset for offset, _ in cut.removed}
        lines = []
        with open(path, encoding="ascii", newline="\n") as file:
            for line in file:
                key, timestamp, rest = line.rstrip("\n").split(" ", 2)
                fields = json.loads(rest)
                offset = int(fields["offset"])
                if offset not in removed:
                    fields |= {"offset": str(cut.shift(offset)), "filename": warc_name}
                    lines.append(f"{key} {timestamp} {json.dumps(fields)}")
        write_lines(target, sorted(lines))

    def _touched(self, table: Table, warcs: list[str]) -> list[LiveFile]:
        found = []
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
                found.append(file)
        return found

    def _rows(self, table: Table, file: LiveFile, places: pl.DataFrame) -> Iterator[pl.DataFrame]:
        for frame in in_key_order(
            self.workspace.storage, table, [Source((file,))], MergeSettings().memory_bytes
        ):
            if "collection" in table.names:
                kept = frame.filter(pl.col("collection") != self.name)
            elif table.name == "hosts":
                kept = self._recounted(frame)
            else:
                kept = frame.join(self._sources, on=_SOURCE, how="anti", maintain_order="left")
            if kept.height:
                yield moved(kept, places) if table.name == "visits" else kept

    def _recounted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of hosts that others have, with what these hold; rows of registrable domains as they
        are.
        """
        joined = frame.join(self._hosts, on="host_key", how="left", maintain_order="left")
        mine = (pl.col("host") != "") & pl.col("left").is_not_null()
        kept = joined.filter(~(mine & (pl.col("left") == 0)))
        new = {"known": "now_known", "visited": "now_visited", "pages": "held"}
        counted = [
            pl.when(mine).then(pl.col(now).cast(frame.schema[name])).otherwise(name).alias(name)
            for name, now in new.items()
        ]
        return kept.with_columns(counted).select(frame.columns)


def _cut_records(path: str, offsets: set[int]) -> Cut:
    """Take out the exchanges whose first records stand at `offsets`: each ends with its metadata
    record.
    """
    cut, inside = Cut(), False
    for record in read_records(path):
        cut.end = record.offset + record.length
        inside = inside or record.offset in offsets
        if inside:
            cut.removed.append((record.offset, record.length))
            inside = record.type != "metadata"
        elif record.type != "warcinfo":
            cut.kept += 1
    return cut
