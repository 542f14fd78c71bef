"""Purge: what an exclusion names is first invisible, by one log entry, and then gone, file by file.

`exclude` is all that readers need. `purge` then writes every table file that holds such rows, and
every WARC that holds such records, again without them; one entry makes the new files count in place
of the old ones, which are deleted at once. It may be killed at any time and called again: what it
left is done then.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ArchiveError
from lycosa.core.units import format_time
from lycosa.store.compaction.compact import maintenance
from lycosa.store.compaction.plan import MergeSettings
from lycosa.store.compaction.vacuum import KEEP_ENTRIES_MS, sweep_alone
from lycosa.store.exclusion.exclusions import parse_rule
from lycosa.store.exclusion.purge_archive import (
    Cut,
    copy_index,
    copy_without,
    moved,
    moves,
    plan_cut,
    replace_in_place,
)
from lycosa.store.log.archive_files import folder_numbers
from lycosa.store.log.claim import DATA, NotLive, append, seal
from lycosa.store.log.entry import EXCLUDE, FOLDER, PURGE, DataFile, Entry, new_attempt
from lycosa.store.log.state import LiveFile, LogState
from lycosa.store.tables.files import scan_file, write_rows
from lycosa.store.tables.ordered import Source, in_key_order
from lycosa.store.tables.schema import TABLES, Table
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace

ATTEMPTS = 5  # a merge or purge on another machine may come in between
WARC_SUFFIX = ".warc.gz"


@dataclass(slots=True)
class PurgeReport:
    """What a purge did. `pending` are files that still hold excluded records and why; empty: the
    last byte is gone from the store's tables and archives. (The search index is its own: it follows
    the exclusion.)
    """

    exclusion: int = 0  # the log entry by which the newest of the rules holds
    entry: int = 0  # the log entry that put new files in place of old ones; 0: none was needed
    rows: Counter[str] = field(default_factory=Counter)  # removed, by table
    records: int = 0
    archives: int = 0  # WARC files written again, or dropped whole
    bytes_deleted: int = 0
    pending: list[tuple[str, str]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.pending


def exclude(workspace: Workspace, rules: Iterable[str], *, clock: Clock | None = None) -> int:
    """Put exclusions into the log; returns the entry by which all of them hold. Rules that hold
    already are not written again.

    Raises:
        UsageError: one is not a rule (`lycosa.store.exclusion.exclusions`).
        WorkspaceError: the log is damaged.
    """
    wanted = sorted({parse_rule(rule) for rule in rules})
    state = workspace.state()
    fresh = tuple(rule for rule in wanted if rule not in state.exclusions.rules)
    if not fresh:
        return max((state.exclusions.rules[rule] for rule in wanted), default=0)
    at = format_time((clock or SystemClock()).now_ms())
    workspace.storage.make_folder(FOLDER)  # nobody may have crawled here yet
    return append(state, Entry(kind=EXCLUDE, attempt=new_attempt(), at=at, exclusions=fresh)).number


def purge(
    workspace: Workspace, rules: Iterable[str] = (), *, clock: Clock | None = None
) -> PurgeReport:
    """Exclude what `rules` name, and remove what all exclusions of the workspace name from tables
    and archives.

    Needs no claim. What a living worker holds uncommitted is `pending`: call again after its next
    commit.

    Raises:
        UsageError: one is not a rule. ArchiveError: a WARC is damaged where excluded records may
        lie; what was not reached stays, invisible. WorkspaceError: the log is damaged, or others
        rewrite files all the time. OSError: storage failed.
    """
    ticks = clock or SystemClock()
    report = PurgeReport(exclusion=exclude(workspace, rules, clock=ticks))
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
                Purge(workspace, state, report).run(ticks.now_ms())
                break
            except NotLive:
                if attempt + 1 == ATTEMPTS:
                    raise
        swept = sweep_alone(workspace, state, 0, KEEP_ENTRIES_MS, ticks.now_ms())
        report.bytes_deleted += swept.bytes
        _purge_orphans(workspace, state, report)
    return report


@dataclass(slots=True)
class Purge:
    """One rewriting of what holds excluded rows and records, up to its entry.
    `lycosa.store.exclusion.purge_collection` chooses otherwise.
    """

    workspace: Workspace
    state: LogState
    report: PurgeReport
    attempt: str = field(default_factory=new_attempt)

    def run(self, now_ms: int) -> None:
        """Write anew, append the entry, delete. Raises NotLive, having removed what was written."""
        storage = self.workspace.storage
        cuts = self._cuts()
        files: dict[str, tuple[DataFile, ...]] = {}
        warcs: list[DataFile] = []
        indexes: list[DataFile] = []
        replaced: list[str] = []
        gone: Counter[str] = Counter()
        written: list[str] = []
        named = False
        try:
            for path, (target, cut) in cuts.items():
                replaced.append(path)
                index, new_index = _index_of(path), _index_of(target)
                if index in self.state.indexes:
                    replaced.append(index)
                if not cut.kept:
                    continue
                written.append(target)
                copy_without(storage.local(path), storage.place(target), cut)
                warcs.extend(seal(storage, {target: 0}).values())
                if index in self.state.indexes:
                    written.append(new_index)
                    name = os.path.basename(target)
                    self._copy_index(storage.local(index), storage.place(new_index), name, cut)
                    indexes.extend(seal(storage, {new_index: 0}).values())
            places = moves(cuts)
            for table in TABLES.values():
                new = []
                for file in self._touched(table, list(cuts)):
                    replaced.append(file.path)
                    rewritten = self._rewrite(table, file, places, written)
                    new.extend(rewritten)
                    gone[table.name] += file.rows - sum(part.rows for part in rewritten)
                if new:
                    files[table.name] = tuple(new)
            if replaced:
                draft = Entry(
                    kind=PURGE,
                    attempt=self.attempt,
                    at=format_time(now_ms),
                    files=files,
                    warcs=tuple(warcs),
                    indexes=tuple(indexes),
                    replaces=tuple(replaced),
                )
                self.report.entry = append(self.state, draft).number
                for folder in {os.path.dirname(path) for path in written}:
                    storage.settle(folder)
            named = True
        finally:
            if not named and self.state.log.read(self.state.head + 1) is None:
                for path in written:
                    storage.remove(path)
        self.report.rows.update(gone)
        self.report.records += sum(len(cut.removed) for _, cut in cuts.values())
        self.report.archives += len(cuts)
        for path in replaced:
            self.report.bytes_deleted += storage.size(path) or 0
            storage.remove(path)
        for folder in {os.path.dirname(path) for path in replaced}:
            storage.sync_folder(folder)  # no power cut brings them back

    def _copy_index(self, path: str, target: str, warc_name: str, cut: Cut) -> None:
        copy_index(path, target, warc_name, cut, self.state.excluded)

    def _cuts(self) -> dict[str, tuple[str, Cut]]:
        """Each committed WARC with excluded records, where it goes, and what to take out."""
        hidden = is_excluded(self.state.exclusions, "visits")
        paths: set[str] = set()
        if hidden is None:
            return {}
        for file in self.state.files.get("visits", []):
            rows = (
                scan_file(self.workspace.storage, TABLES["visits"], file)
                .filter(hidden)
                .select(pl.col("warc_file").unique())
            )
            paths.update(rows.collect()["warc_file"])
        cuts: dict[str, tuple[str, Cut]] = {}
        for path in sorted(paths & self.state.warcs.keys()):
            cut = plan_cut(self.workspace.path(path), self.state.excluded)
            if cut.removed:
                cuts[path] = (
                    f"{os.path.dirname(path)}/archive-{self.attempt[:12]}{WARC_SUFFIX}",
                    cut,
                )
        return cuts

    def _touched(self, table: Table, warcs: list[str]) -> list[LiveFile]:
        """The files of a table that hold excluded rows, or rows of records that move."""
        test = is_excluded(self.state.exclusions, table.name)
        if test is None:
            return []
        if table.name == "visits":
            test = test | pl.col("warc_file").is_in(warcs)
        files = self.state.files.get(table.name, [])
        return [
            file
            for file in files
            if scan_file(self.workspace.storage, table, file).select(test.any()).collect().item()
        ]

    def _rewrite(
        self, table: Table, file: LiveFile, places: pl.DataFrame, written: list[str]
    ) -> list[DataFile]:
        """A table file without excluded rows; nothing if none is left."""
        frames = self._rows(table, file, places)
        first = next(frames, None)
        if first is None:
            return []
        path = f"{os.path.dirname(file.path)}/{table.name}-{self.attempt[:12]}.parquet"
        written.append(path)
        rows = write_rows(self.workspace.storage.place(path), _chain(first, frames), table)
        return list(seal(self.workspace.storage, {path: rows}, file.entry).values())

    def _rows(self, table: Table, file: LiveFile, places: pl.DataFrame) -> Iterator[pl.DataFrame]:
        hidden = is_excluded(self.state.exclusions, table.name)
        for frame in in_key_order(
            self.workspace.storage, table, [Source((file,))], MergeSettings().memory_bytes
        ):
            kept = frame if hidden is None else frame.filter(~hidden)
            if kept.height:
                yield moved(kept, places) if table.name == "visits" else kept


def _purge_orphans(workspace: Workspace, state: LogState, report: PurgeReport) -> None:
    """WARCs that no entry names: those of dead claims are written again in place, that of a living
    one is its worker's. On S3 and HDFS they lie in the spool of the machine that wrote them, and
    only this machine's are seen.
    """
    storage = workspace.storage
    for name in storage.drafts(DATA):
        numbers = folder_numbers(name)
        for path in (
            f"{DATA}/{name}/{file}"
            for file in storage.drafts(f"{DATA}/{name}")
            if file.endswith(WARC_SUFFIX)
        ):
            if numbers is None or path in state.warcs or not storage.draft_size(path):
                continue
            try:
                cut = plan_cut(workspace.path(path), state.excluded)
            except ArchiveError as error:
                claim = state.claims.get(numbers[0])
                if state.is_forgotten(numbers[0]) or (
                    claim and claim.partitions <= state.orphans_used.get(path, set())
                ):
                    # a power cut damaged it; what could be read of it was taken up
                    storage.remove(path)
                    storage.sync_folder(f"{DATA}/{name}")
                    continue
                report.pending.append(
                    (
                        path,
                        f"it cannot be read: {error}; the next crawl "
                        "recovers what is readable: purge again after it",
                    )
                )
                continue
            if not cut.removed:
                continue
            if state.holds(numbers[0]):
                report.pending.append(
                    (path, "its worker has not committed it yet: call again after the next commit")
                )
                continue
            before = storage.draft_size(path) or 0
            replace_in_place(workspace.path(path), cut)
            report.records += len(cut.removed)
            report.archives += 1
            report.bytes_deleted += before - (storage.draft_size(path) or 0)


def _index_of(warc: str) -> str:
    return warc.removesuffix(WARC_SUFFIX) + ".cdxj"


def _chain(first: pl.DataFrame, rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield from rest
