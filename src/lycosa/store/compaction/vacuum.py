"""Delete obsolete files: replaced files, entries before a snapshot, files of killed processes.

Live table and WARC files are never deleted. A log reader whose next entry was deleted starts from
the snapshot. A reader whose state is older than the retention of replaced files must read the log
again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import WorkspaceError
from lycosa.store.compaction.plan import BASE, DELTA
from lycosa.store.coordination.owner import BUSY, maintenance
from lycosa.store.log.archive_files import WARC_NAME, folder_numbers
from lycosa.store.log.claim import DATA
from lycosa.store.log.entry import FOLDER, PURGE, Entry, at_ms, entry_path
from lycosa.store.log.snapshot import (
    INTERVAL,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
    write_header,
)
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import TEMPORARY_SUFFIX
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import ENTRY
from lycosa.store.workspace import Workspace

DAY_MS = 86_400_000
KEEP_REPLACED_MS = DAY_MS
KEEP_ENTRIES_MS = 7 * DAY_MS
_TABLE_SUFFIX = ".parquet"
_COMPLETE_NEWEST, _COMPLETE_EVERY = 4, 10_000
"""Snapshots that stay complete: the newest ones, in case one is damaged, and each 10,000th, where
a check of the log can start. With a million commits, a snapshot has 35 MB.
"""
_PURGE_FILE = re.compile(r"archive-[0-9a-f]{12}\.(warc\.gz|cdxj)|.*\.temporary")


@dataclass(slots=True, frozen=True)
class VacuumReport:
    """The numbers of deleted files, bytes, entries and folders. `gave_up`: why nothing was."""

    files: int = 0
    bytes: int = 0
    entries: int = 0
    folders: int = 0
    gave_up: str = ""


def vacuum(
    workspace: Workspace,
    *,
    keep_replaced_ms: int = KEEP_REPLACED_MS,
    keep_entries_ms: int = KEEP_ENTRIES_MS,
    now_ms: int | None = None,
    clock: Clock | None = None,
) -> VacuumReport:
    """Delete table files that were replaced before `keep_replaced_ms` (by a purge: at once), log
    entries before a snapshot, and replayed folders of ended claims after `keep_entries_ms`.

    May be killed at any time. Returns at once if another process on this machine compacts, vacuums
    or purges.

    Raises:
        WorkspaceError: the log is damaged; nothing was deleted.
        OSError: storage failed.
    """
    now = (clock or SystemClock()).now_ms() if now_ms is None else now_ms
    with maintenance(workspace.storage) as locked:
        if not locked:
            return VacuumReport(gave_up=BUSY)
        return vacuum_locked(workspace, workspace.state(), keep_replaced_ms, keep_entries_ms, now)


def vacuum_locked(
    workspace: Workspace, state: LogState, keep_replaced_ms: int, keep_entries_ms: int, now_ms: int
) -> VacuumReport:
    """Vacuum; the caller holds the `maintenance` lock."""
    deletion = _Deletion(
        workspace, state, now_ms - keep_replaced_ms, now_ms - keep_entries_ms, now_ms - DAY_MS
    )
    deletion.delete_tables()
    deletion.delete_archives()
    deletion.sync()
    deletion.delete_folders()
    deletion.delete_entries()
    return VacuumReport(deletion.files, deletion.bytes, deletion.entries, deletion.folders)


@dataclass(slots=True)
class _Deletion:
    workspace: Workspace
    state: LogState
    replaced_before: int  # ms
    entries_before: int  # ms, for entries and orphans
    yesterday: int  # ms
    files: int = 0  # deleted, like the following
    bytes: int = 0
    entries: int = 0
    folders: int = 0
    # path -> the entry that replaced it, of all existing entries
    _replacements: dict[str, int] | None = None
    _oldest: int = 0
    _removed_in: set[str] = field(default_factory=set)  # folders

    @property
    def storage(self) -> Storage:
        return self.workspace.storage

    def delete_tables(self) -> None:
        """Delete table files that were replaced, or written but never committed."""
        live = self.state.live_paths()
        committed = {os.path.dirname(path) for path in (*self.state.warcs, *self.state.retired)}
        recent = self._recently_replaced()
        for top in (DATA, BASE, DELTA):
            for path in self.storage.files_below(top):
                if not path.endswith(_TABLE_SUFFIX) or path in live:
                    continue
                if not (recent[path] if path in recent else self._is_obsolete(path, committed)):
                    continue
                if os.path.basename(path).startswith("found") and not self._applied(path):
                    continue
                self._remove(path)

    def delete_archives(self) -> None:
        """Delete archive files that a killed purge replaced, or wrote but did not commit."""
        for path in self.state.retired:
            for file in (path, path.removesuffix(".warc.gz") + ".cdxj"):
                if not self._is_committed(file) and self.storage.size(file) is not None:
                    self._remove(file)
        for path in self.storage.files_below(DATA):
            if self._is_committed(path) or path.endswith(_TABLE_SUFFIX):
                continue
            # uploaded but not committed: replay reads the spool
            if not self.storage.on_disk and self._has_ended(path):
                self.files += 1
                self.bytes += self.storage.size(path) or 0
                self.storage.files.unpublish(path)
                continue
            if not _PURGE_FILE.fullmatch(os.path.basename(path)):
                continue
            if (self.storage.modified_at(path) or 0) < self.replaced_before:
                self._remove(path)

    def sync(self) -> None:
        """Make deletions durable: the files may contain excluded pages."""
        for folder in self._removed_in:
            self.storage.sync_folder(folder)

    def delete_folders(self) -> None:
        """Delete replayed folders of ended claims, and empty folders."""
        committed = {os.path.dirname(path) for path in (*self.state.warcs, *self.state.indexes)}
        committed |= set(map(os.path.dirname, self.state.live_paths()))
        for name in self.storage.files.draft_names(DATA):
            numbers = folder_numbers(name)
            folder = f"{DATA}/{name}"
            if (
                numbers is None
                or folder in committed
                or not self._has_ended(f"{folder}/{WARC_NAME}")
            ):
                continue
            if self._is_superseded(numbers[0]) and self._replayed(
                f"{folder}/{WARC_NAME}", numbers[0]
            ):
                if self.storage.on_disk:
                    for path in self.storage.files_below(folder):
                        self._remove(path)
                self.storage.files.drop_drafts(folder)
            self._remove_folder(folder)
        if not self.storage.on_disk:
            for name in self.storage.names(DATA):
                self._remove_folder(f"{DATA}/{name}")
        for top in (BASE, DELTA):
            self._remove_folder(top)

    def delete_entries(self) -> None:
        """Delete entries before a snapshot, and reduce old snapshots. Last, because the other steps
        read them.
        """
        numbers = snapshot_numbers(self.storage)
        complete = list(islice(filter(self._is_complete, reversed(numbers)), _COMPLETE_NEWEST))
        if not complete:
            return
        self._reduce([number for number in numbers if number < complete[-1]])
        # Entries after the second newest snapshot are retained in case the newest is damaged.
        start = complete[:2][-1]
        obsolete = []
        for number in (number for number in self.workspace.log.numbers() if number < start):
            entry = self.workspace.log.read(number)
            path = entry_path(number)
            if (
                entry is None
                or max(at_ms(entry), self.storage.modified_at(path) or 0) >= self.entries_before
            ):
                break
            obsolete.append(entry)
        if not obsolete:
            return
        self._remove_unfinished()
        for hundred in range(-(-obsolete[0].number // INTERVAL) * INTERVAL, start, INTERVAL):
            if hundred < obsolete[-1].number + INTERVAL:
                entries = (
                    self.workspace.log.read(number)
                    for number in range(hundred - INTERVAL + 1, hundred + 1)
                )
                write_header(
                    self.storage, hundred, [entry.attempt if entry else "" for entry in entries]
                )
        self.storage.sync_folder(FOLDER)
        for entry in obsolete:
            self.storage.remove(entry_path(entry.number))
            self.entries += 1

    def _reduce(self, numbers: list[int]) -> None:
        """Reduce these snapshots to their first lines, except every `_COMPLETE_EVERY`th, oldest
        first: all before the newest reduced one are reduced and not read again.
        """
        waiting = []
        for number in reversed(numbers):
            if number % _COMPLETE_EVERY:
                if not (self.storage.read(snapshot_path(number)) or b"").partition(b"\n")[2]:
                    break
                waiting.append(number)
        for number in reversed(waiting):
            write_header(self.storage, number, ())

    def _recently_replaced(self) -> dict[str, bool]:
        """Return recently replaced files, and whether they may be deleted."""
        replaced: dict[str, bool] = {}
        horizon = min(self.replaced_before, self.yesterday)
        for entry in self._entries_back():
            if at_ms(entry) < horizon:
                break
            deletable = entry.kind == PURGE or at_ms(entry) < self.replaced_before
            replaced.update((path, deletable) for path in entry.replaces)
        return replaced

    def _entries_back(self) -> Iterator[Entry]:
        """Yield the existing entries, newest first."""
        number = self.state.head
        while number and (entry := self.workspace.log.read(number)) is not None:
            yield entry
            number -= 1

    def _is_obsolete(self, path: str, committed: set[str]) -> bool:
        """Return whether a file that is not live, and was not replaced recently, can never be
        committed.
        """
        if (self.storage.modified_at(path) or 0) >= self.replaced_before:
            return False
        numbers = folder_numbers(path.split("/")[1]) if path.startswith(f"{DATA}/") else None
        if numbers is None:
            # of a compaction, which checks its files before it commits
            return not path.startswith(f"{DATA}/")
        if os.path.dirname(path) in committed or self._has_ended(path):
            return True
        # of an active claim: only if it was replaced
        return self._replaced_by(path) != self._oldest

    def _applied(self, path: str) -> bool:
        """Return whether all rows of a replaced file of `found` are applied by their owners."""
        rows = pl.scan_parquet(
            self.storage.files.local_path(path), glob=False, hive_partitioning=False
        )
        last = (
            pl.col(ENTRY).max()
            if ENTRY in rows.collect_schema()
            else pl.lit(self._replaced_by(path))
        )
        newest = rows.group_by("partition").agg(last.alias(ENTRY)).collect()
        return all(
            self.state.applied.get(partition, 0) >= entry for partition, entry in newest.iter_rows()
        )

    def _replaced_by(self, path: str) -> int:
        """Return the entry that replaced a file, or the oldest entry if that was deleted."""
        if self._replacements is None:
            entries = list(self._entries_back())
            self._replacements = {
                path: entry.number for entry in entries for path in entry.replaces
            }
            self._oldest = entries[-1].number if entries else self.state.head
        return self._replacements.get(path, self._oldest)

    def _is_superseded(self, claim: int) -> bool:
        """Return whether all partitions of a claim were claimed again, long enough ago."""
        if self.state.is_forgotten(claim):
            return True
        later = [
            other
            for other in self.state.claims.values()
            if other.number > claim and other.at_ms < self.entries_before
        ]
        return self.state.claims[claim].partitions <= frozenset().union(
            *(other.partitions for other in later)
        )

    def _has_ended(self, path: str) -> bool:
        """Return whether a file of `data` belongs to an ended claim."""
        numbers = folder_numbers(path.split("/")[1])
        if numbers is None:
            return False
        return self.state.is_forgotten(numbers[0]) or (
            numbers[0] in self.state.claims and not self.state.holds(numbers[0])
        )

    def _replayed(self, warc: str, claim: int) -> bool:
        """Return whether all exchanges of an uncommitted WARC file are replayed."""
        if self.state.is_forgotten(claim) or not self.storage.files.draft_size(warc):
            return True
        return self.state.claims[claim].partitions <= self.state.orphans_used.get(warc, set())

    def _is_complete(self, number: int) -> bool:
        try:
            return read_snapshot(self.storage, number) is not None
        except WorkspaceError:
            return False

    def _is_committed(self, path: str) -> bool:
        return path in self.state.warcs or path in self.state.indexes

    def _remove_unfinished(self) -> None:
        """Remove unfinished entries before the entries, so that none can replace a deleted one."""
        for path in self.storage.files_below(FOLDER):
            if (
                path.endswith(TEMPORARY_SUFFIX)
                and (self.storage.modified_at(path) or 0) < self.replaced_before
            ):
                self._remove(path)

    def _remove(self, path: str) -> None:
        size = self.storage.size(path) or 0
        self.storage.remove(path)
        self._removed_in.add(os.path.dirname(path))
        self.files += 1
        self.bytes += size

    def _remove_folder(self, path: str) -> None:
        self.folders += self.storage.remove_empty_folders(path)
