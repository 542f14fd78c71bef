"""Purge: exclude URLs by one log entry, then remove their rows and records from all files.

Readers obey the exclusion at once. The purge rewrites every table file with such rows and every
WARC file with such records; one entry replaces the old files, which are then deleted. It may be
killed at any time and repeated.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ArchiveError
from lycosa.core.units import format_time
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import KEEP_ENTRIES_MS, vacuum_locked
from lycosa.store.coordination.owner import BUSY, maintenance
from lycosa.store.exclusion.exclusions import parse_rule
from lycosa.store.exclusion.purge_archive import (
    WarcCut,
    copy_index,
    copy_without,
    moved,
    moves,
    of_excluded_url,
    plan_cut,
    replace_in_place,
)
from lycosa.store.log.archive_files import folder_numbers
from lycosa.store.log.claim import DATA
from lycosa.store.log.entry import EXCLUDE, FOLDER, PURGE, Entry, new_attempt
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import NotLive, Transaction, append
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.files import scan_file, write_rows
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.schema import TABLES, Table
from lycosa.store.tables.visible import is_excluded
from lycosa.store.workspace import Workspace

_ATTEMPTS = 5  # another machine may compact or purge meanwhile
_WARC_SUFFIX = ".warc.gz"


@dataclass(slots=True, frozen=True)
class PurgeReport:
    """Result of a purge. `pending`: files that still contain excluded records, and why. If empty,
    tables and archives contain none; the search index follows the exclusion.
    """

    exclusion: int = 0  # log entry by which all rules are in force
    entry: int = 0  # log entry that replaced files; 0: none was needed
    rows: Counter[str] = field(default_factory=Counter)  # removed, by table
    records: int = 0
    archives: int = 0  # rewritten or removed WARC files
    bytes_deleted: int = 0
    pending: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: PurgeReport) -> PurgeReport:
        """Combine the reports of consecutive steps."""
        return PurgeReport(
            max(self.exclusion, other.exclusion),
            max(self.entry, other.entry),
            self.rows + other.rows,
            self.records + other.records,
            self.archives + other.archives,
            self.bytes_deleted + other.bytes_deleted,
            self.pending + other.pending,
        )

    @property
    def complete(self) -> bool:
        return not self.pending


def exclude(workspace: Workspace, rules: Iterable[str], *, clock: Clock | None = None) -> int:
    """Write exclusions to the log unless in force; return the entry by which all are in force.

    Raises:
        UsageError: invalid rule (`lycosa.store.exclusion.exclusions`).
        WorkspaceError: the log is damaged.
    """
    parsed = sorted({parse_rule(rule) for rule in rules})
    state = workspace.state()
    new = tuple(rule for rule in parsed if rule not in state.exclusions.rules)
    if not new:
        return max((state.exclusions.rules[rule] for rule in parsed), default=0)
    at = format_time((clock or SystemClock()).now_ms())
    workspace.storage.make_folder(FOLDER)  # a new workspace has none
    return append(state, Entry(kind=EXCLUDE, attempt=new_attempt(), at=at, exclusions=new)).number


def purge(workspace: Workspace, rules: Iterable[str] = ()) -> PurgeReport:
    """Exclude `rules`, and remove all excluded rows and records from tables and archives.

    Needs no claim. Uncommitted files of a living worker are `pending`: repeat after its commit.

    Raises:
        UsageError: invalid rule.
        ArchiveError: a WARC file is damaged; records not yet removed stay, invisible.
        WorkspaceError: the log is damaged, or other processes rewrite files continuously.
        OSError: storage failed.
    """
    report = PurgeReport(exclusion=exclude(workspace, rules))
    return report + run_purge(workspace, lambda state: Purge(workspace, state))


def run_purge(workspace: Workspace, new_purge: Callable[[LogState], Purge]) -> PurgeReport:
    """Run a purge under the maintenance lock, repeat it after conflicts, and vacuum."""
    clock = SystemClock()
    with maintenance(workspace.storage) as locked:
        if not locked:
            return PurgeReport(pending=((workspace.root, f"{BUSY}: try again"),))
        for attempt in range(_ATTEMPTS):
            purging = new_purge(workspace.state())
            try:
                report = purging.run(format_time(clock.now_ms()))
                break
            except NotLive:
                if attempt + 1 == _ATTEMPTS:
                    raise
        vacuumed = vacuum_locked(workspace, purging.state, 0, KEEP_ENTRIES_MS, clock.now_ms())
        return report + PurgeReport(bytes_deleted=vacuumed.bytes) + purging.purge_orphans()


@dataclass(slots=True)
class Purge:
    """Rewrites the files with excluded rows and records in one transaction.

    `lycosa.store.exclusion.purge_collection` selects by collection instead.
    """

    workspace: Workspace
    state: LogState
    _transaction: Transaction = field(init=False)
    _replaced: list[str] = field(init=False, default_factory=list)
    _warcs: list[DataFile] = field(init=False, default_factory=list)
    _indexes: list[DataFile] = field(init=False, default_factory=list)

    def run(self, at: str) -> PurgeReport:
        """Rewrite, commit, delete. Raises NotLive."""
        cuts = self._cuts()
        entry = 0
        with Transaction(self.state) as self._transaction:
            for path, cut in cuts.items():
                self._rewrite_archive(path, cut)
            places = moves({path: (self._new_warc(path), cut) for path, cut in cuts.items()})
            files: dict[str, tuple[DataFile, ...]] = {}
            removed: Counter[str] = Counter()
            for table in TABLES.values():
                new: list[DataFile] = []
                for file in self._touched(table, list(cuts)):
                    self._replaced.append(file.path)
                    rewritten = self._rewrite(table, file, places)
                    new += rewritten
                    removed[table.name] += file.rows - sum(part.rows for part in rewritten)
                if new:
                    files[table.name] = tuple(new)
            if self._replaced:
                entry = self._transaction.commit(
                    PURGE,
                    at,
                    files=files,
                    warcs=tuple(self._warcs),
                    indexes=tuple(self._indexes),
                    replaces=tuple(self._replaced),
                ).number
        records = sum(len(cut.removed) for cut in cuts.values())
        return PurgeReport(0, entry, removed, records, len(cuts), self._delete_replaced())

    def purge_orphans(self) -> PurgeReport:
        """Remove excluded records from WARC files that no entry names.

        Those of ended claims are rewritten in place; that of a living worker is its own. On S3 and
        HDFS only the spool of this machine is visible.
        """
        report = PurgeReport()
        files = self.workspace.storage.files
        for name in files.draft_names(DATA):
            numbers = folder_numbers(name)
            for file in files.draft_names(f"{DATA}/{name}"):
                path = f"{DATA}/{name}/{file}"
                if (
                    numbers is not None
                    and file.endswith(_WARC_SUFFIX)
                    and path not in self.state.warcs
                    and files.draft_size(path)
                ):
                    report += self._purge_orphan(path, numbers[0])
        return report

    def _purge_orphan(self, path: str, claim: int) -> PurgeReport:
        storage = self.workspace.storage
        try:
            cut = plan_cut(self.workspace.path(path), of_excluded_url(self.state.excluded))
        except ArchiveError as error:
            info = self.state.claims.get(claim)
            if self.state.is_forgotten(claim) or (
                info and info.partitions <= self.state.orphans_used.get(path, set())
            ):
                # damaged by a power cut; its readable part was replayed
                storage.remove(path)
                storage.sync_folder(os.path.dirname(path))
                return PurgeReport()
            reason = "the next crawl recovers what is readable: purge again after it"
            return PurgeReport(pending=((path, f"it cannot be read: {error}; {reason}"),))
        if not cut.removed:
            return PurgeReport()
        if self.state.holds(claim):
            reason = "its worker has not committed it yet: call again after the next commit"
            return PurgeReport(pending=((path, reason),))
        before = storage.files.draft_size(path) or 0
        replace_in_place(storage.files.draft_path(path), cut)
        freed = before - (storage.files.draft_size(path) or 0)
        return PurgeReport(records=len(cut.removed), archives=1, bytes_deleted=freed)

    def _new_warc(self, path: str) -> str:
        attempt = self._transaction.attempt[:12]
        return f"{os.path.dirname(path)}/archive-{attempt}{_WARC_SUFFIX}"

    def _rewrite_archive(self, path: str, cut: WarcCut) -> None:
        """Rewrite a WARC file and its CDXJ file; remove them if no record remains."""
        files, transaction = self.workspace.storage.files, self._transaction
        target = self._new_warc(path)
        index, new_index = _index_of(path), _index_of(target)
        indexed = index in self.state.indexes
        self._replaced += [path, index] if indexed else [path]
        if not cut.remaining:
            return
        copy_without(files.local_path(path), transaction.start(target), cut)
        self._warcs += transaction.publish({target: 0})
        if indexed:
            copy_index(
                files.local_path(index), transaction.start(new_index), os.path.basename(target), cut
            )
            self._indexes += transaction.publish({new_index: 0})

    def _delete_replaced(self) -> int:
        """Delete the replaced files; return their bytes."""
        storage = self.workspace.storage
        deleted = 0
        for path in self._replaced:
            deleted += storage.size(path) or 0
            storage.remove(path)
        for folder in {os.path.dirname(path) for path in self._replaced}:
            storage.sync_folder(folder)  # a power cut must not restore them
        return deleted

    def _cuts(self) -> dict[str, WarcCut]:
        """Return each committed WARC file with records to remove."""
        hidden = is_excluded(self.state.exclusions, "visits")
        if hidden is None:
            return {}
        paths: set[str] = set()
        for file in self.state.files.get("visits", []):
            rows = (
                scan_file(self.workspace.storage, TABLES["visits"], file)
                .filter(hidden)
                .select(pl.col("warc_file").unique())
            )
            paths.update(rows.collect()["warc_file"])
        cuts = {
            path: plan_cut(self.workspace.path(path), of_excluded_url(self.state.excluded))
            for path in sorted(paths)
            if path in self.state.warcs
        }
        return {path: cut for path, cut in cuts.items() if cut.removed}

    def _touched(self, table: Table, warcs: list[str]) -> list[DataFile]:
        """Return the files of a table with rows to remove, or rows of records that move."""
        test = is_excluded(self.state.exclusions, table.name)
        if test is None:
            return []
        if table.name == "visits":
            test = test | pl.col("warc_file").is_in(warcs)
        return [
            file
            for file in self.state.files.get(table.name, [])
            if scan_file(self.workspace.storage, table, file).select(test.any()).collect().item()
        ]

    def _remaining(self, table: Table, frame: pl.DataFrame) -> pl.DataFrame:
        hidden = is_excluded(self.state.exclusions, table.name)
        return frame if hidden is None else frame.filter(~hidden)

    def _rewrite(self, table: Table, file: DataFile, places: pl.DataFrame) -> list[DataFile]:
        """Write the remaining rows of a table file; nothing if there are none."""
        attempt = self._transaction.attempt[:12]
        path = f"{os.path.dirname(file.path)}/{table.name}-{attempt}.parquet"
        rows = write_rows(self._transaction.start(path), self._rows(table, file, places), table)
        return self._transaction.publish({path: rows}, as_of=file.entry) if rows else []

    def _rows(self, table: Table, file: DataFile, places: pl.DataFrame) -> Iterator[pl.DataFrame]:
        memory_bytes = CompactionSettings().memory_bytes
        source = SortedFiles((file,))
        for frame in in_key_order(self.workspace.storage, table, [source], memory_bytes):
            rows = self._remaining(table, frame)
            if rows.height:
                yield moved(rows, places) if table.name == "visits" else rows


def _index_of(warc: str) -> str:
    return warc.removesuffix(_WARC_SUFFIX) + ".cdxj"
