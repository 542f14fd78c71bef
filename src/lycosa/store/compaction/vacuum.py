"""Deleting what the log no longer needs: replaced files, entries behind a snapshot, what dead
workers and merges left lying.

Nothing live is ever touched, nor a WARC that counts. A follower that was away for longer than
entries are kept starts from the snapshot; a reader that holds an older view of the log for longer
than replaced files are kept must read the log again.
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
from lycosa.store.compaction.compact import maintenance
from lycosa.store.compaction.plan import BASE, DELTA
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
from lycosa.store.storage.local import ASIDE_SUFFIX
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import ENTRY
from lycosa.store.workspace import Workspace

DAY_MS = 86_400_000
KEEP_REPLACED_MS = DAY_MS
KEEP_ENTRIES_MS = 7 * DAY_MS
_TABLE_SUFFIX = ".parquet"
_WHOLE_NEWEST, _WHOLE_EVERY = 4, 10_000
"""Snapshots that stay whole: so many of the newest, should one be damaged, and of older ones those
of such entries, where a check of the entries that are there can begin. Each names all archive
files: of a million commits one has 35 MB.
"""
_PURGE_FILE = re.compile(r"archive-[0-9a-f]{12}\.(warc\.gz|cdxj)|.*\.aside")


@dataclass(slots=True)
class SweepReport:
    """What was deleted. `gave_up` says why nothing was, "" if all was looked at."""

    files: int = 0
    bytes: int = 0
    entries: int = 0
    folders: int = 0
    gave_up: str = ""


def sweep(
    workspace: Workspace,
    *,
    keep_replaced_ms: int = KEEP_REPLACED_MS,
    keep_entries_ms: int = KEEP_ENTRIES_MS,
    now_ms: int | None = None,
    clock: Clock | None = None,
) -> SweepReport:
    """Delete what may go: replaced table files after `keep_replaced_ms` (what a purge replaced: at
    once), log entries before a snapshot, and the folders of dead claims once their WARC is
    replayed, after `keep_entries_ms`.

    May be killed at any time and called again. Returns at once if another process on this machine
    merges, sweeps or purges.

    Raises:
        WorkspaceError: the log is damaged; nothing was deleted.
        OSError: storage failed.
    """
    now = (clock or SystemClock()).now_ms() if now_ms is None else now_ms
    with maintenance(workspace.storage) as alone:
        if not alone:
            return SweepReport(
                gave_up="another process is compacting, vacuuming or purging this workspace"
            )
        return sweep_alone(workspace, workspace.state(), keep_replaced_ms, keep_entries_ms, now)


def sweep_alone(
    workspace: Workspace, state: LogState, keep_replaced_ms: int, keep_entries_ms: int, now_ms: int
) -> SweepReport:
    """`sweep`, for a caller that holds the maintenance lock."""
    broom = _Broom(
        workspace, state, now_ms - keep_replaced_ms, now_ms - keep_entries_ms, now_ms - DAY_MS
    )
    broom.tables()
    broom.archives()
    broom.settle()
    broom.folders()
    broom.log()
    return broom.report


@dataclass(slots=True)
class _Broom:
    workspace: Workspace
    state: LogState
    replaced_before: int  # ms: what was replaced earlier may go
    entries_before: int  # ms: entries and orphans from earlier may go
    yesterday: int  # ms
    report: SweepReport = field(default_factory=SweepReport)
    # path -> the entry that replaced it, of all entries that are there
    _replacements: dict[str, int] | None = None
    _oldest: int = 0
    _removed_in: set[str] = field(default_factory=set)  # folders

    @property
    def storage(self) -> Storage:
        return self.workspace.storage

    def tables(self) -> None:
        """Table files that do not count: replaced, or written and never named."""
        live = {file.path for files in self.state.files.values() for file in files}
        committed = {os.path.dirname(path) for path in (*self.state.warcs, *self.state.retired)}
        recent = self._recent()
        for top in (DATA, BASE, DELTA):
            for path in self.storage.files_below(top):
                if not path.endswith(_TABLE_SUFFIX) or path in live:
                    continue
                if not (recent[path] if path in recent else self._settled(path, committed)):
                    continue
                if os.path.basename(path).startswith("found") and not self._applied(path):
                    continue
                self._remove(path)

    def archives(self) -> None:
        """What a purge replaced and was killed before it deleted it, and what it wrote and was
        killed before it named it.
        """
        for path in self.state.retired:
            for left in (path, path.removesuffix(".warc.gz") + ".cdxj"):
                if (
                    left not in self.state.indexes
                    and left not in self.state.warcs
                    and self.storage.size(left) is not None
                ):
                    self._remove(left)
        for path in self.storage.files_below(DATA):
            if (
                path in self.state.warcs
                or path in self.state.indexes
                or path.endswith(_TABLE_SUFFIX)
            ):
                continue
            # sent, never named: if it can be replayed, then from the spool
            if not self.storage.on_disk and self._dead(path):
                self.report.files += 1
                self.report.bytes += self.storage.size(path) or 0
                self.storage.withdraw(path)
                continue
            if not _PURGE_FILE.fullmatch(os.path.basename(path)):
                continue
            if (self.storage.modified_at(path) or 0) < self.replaced_before:
                self._remove(path)

    def settle(self) -> None:
        """See to it that no power cut brings back what was deleted: it may be excluded."""
        for folder in self._removed_in:
            self.storage.sync_folder(folder)

    def folders(self) -> None:
        """Folders of dead claims, once everything in them is replayed and settled; folders that
        have become empty.
        """
        counting = {os.path.dirname(path) for path in (*self.state.warcs, *self.state.indexes)}
        counting |= {
            os.path.dirname(file.path) for files in self.state.files.values() for file in files
        }
        for name in self.storage.drafts(DATA):
            numbers = folder_numbers(name)
            folder = f"{DATA}/{name}"
            if numbers is None or folder in counting or not self._dead(f"{folder}/{WARC_NAME}"):
                continue
            if self._outlived(numbers[0]) and self._replayed(f"{folder}/{WARC_NAME}", numbers[0]):
                if self.storage.on_disk:
                    for path in self.storage.files_below(folder):
                        self._remove(path)
                self.storage.drop_drafts(folder)
            self._remove_folder(folder)
        if not self.storage.on_disk:
            for name in self.storage.names(DATA):
                self._remove_folder(f"{DATA}/{name}")
        for top in (BASE, DELTA):
            self.report.folders += self.storage.remove_empty_below(top)

    def log(self) -> None:
        """Entries before a snapshot, and old snapshots. Last of all, since the rest goes by what
        they say.
        """
        numbers = snapshot_numbers(self.storage)
        whole = list(islice(filter(self._is_whole, reversed(numbers)), _WHOLE_NEWEST))
        if not whole:
            return
        self._thin([number for number in numbers if number < whole[-1]])
        # The newest may turn out damaged one day: what is behind the one before it can stand in.
        start = whole[:2][-1]
        doomed = []
        for number in (number for number in self.workspace.log.numbers() if number < start):
            entry = self.workspace.log.read(number)
            path = entry_path(number)
            if (
                entry is None
                or max(at_ms(entry), self.storage.modified_at(path) or 0) >= self.entries_before
            ):
                break
            doomed.append(entry)
        if not doomed:
            return
        self._remove_asides()
        for hundred in range(-(-doomed[0].number // INTERVAL) * INTERVAL, start, INTERVAL):
            if hundred < doomed[-1].number + INTERVAL:
                entries = (
                    self.workspace.log.read(number)
                    for number in range(hundred - INTERVAL + 1, hundred + 1)
                )
                write_header(
                    self.storage, hundred, [entry.attempt if entry else "" for entry in entries]
                )
        self.storage.sync_folder(FOLDER)
        for entry in doomed:
            self.storage.remove(entry_path(entry.number))
            self.report.entries += 1

    def _thin(self, numbers: list[int]) -> None:
        """Leave of these snapshots the first lines, but for every `_WHOLE_EVERY`th. The oldest
        first: before the last one that is done all are, and none of them is read again.
        """
        waiting = []
        for number in reversed(numbers):
            if number % _WHOLE_EVERY:
                if not (self.storage.read(snapshot_path(number)) or b"").partition(b"\n")[2]:
                    break
                waiting.append(number)
        for number in reversed(waiting):
            write_header(self.storage, number, ())

    def _recent(self) -> dict[str, bool]:
        """What was replaced of late, and whether it may go; anything else was replaced before, or
        never counted.
        """
        found: dict[str, bool] = {}
        horizon = min(self.replaced_before, self.yesterday)
        for entry in self._entries_back():
            if at_ms(entry) < horizon:
                break
            may_go = entry.kind == PURGE or at_ms(entry) < self.replaced_before
            found.update((path, may_go) for path in entry.replaces)
        return found

    def _entries_back(self) -> Iterator[Entry]:
        """The entries that are there, the newest first."""
        number = self.state.head
        while number and (entry := self.workspace.log.read(number)) is not None:
            yield entry
            number -= 1

    def _settled(self, path: str, committed: set[str]) -> bool:
        """Whether a file that does not count, and was not replaced of late, will not be named by
        anybody any more.
        """
        if (self.storage.modified_at(path) or 0) >= self.replaced_before:
            return False
        numbers = folder_numbers(path.split("/")[1]) if path.startswith(f"{DATA}/") else None
        if numbers is None:
            # of a merge, which looks for its files before it names them
            return not path.startswith(f"{DATA}/")
        if os.path.dirname(path) in committed or self._dead(path):
            return True
        # of a claim that holds: only what is known to be replaced
        return self._replaced_by(path) != self._oldest

    def _applied(self, path: str) -> bool:
        """Whether the owners of all partitions with rows in a replaced `found` file have applied
        these.
        """
        rows = pl.scan_parquet(self.storage.local(path), glob=False, hive_partitioning=False)
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
        """The entry that replaced a file, or a later one where it is deleted: its rows came with
        earlier ones.
        """
        if self._replacements is None:
            entries = list(self._entries_back())
            self._replacements = {
                path: entry.number for entry in entries for path in entry.replaces
            }
            self._oldest = entries[-1].number if entries else self.state.head
        return self._replacements.get(path, self._oldest)

    def _outlived(self, claim: int) -> bool:
        """Whether every partition of a claim was claimed again, long enough ago."""
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

    def _dead(self, path: str) -> bool:
        """Whether a file of `data` came from a claim that holds no more."""
        numbers = folder_numbers(path.split("/")[1])
        if numbers is None:
            return False
        return self.state.is_forgotten(numbers[0]) or (
            numbers[0] in self.state.claims and not self.state.holds(numbers[0])
        )

    def _replayed(self, warc: str, claim: int) -> bool:
        """Whether no exchange waits in a WARC that was never committed."""
        if self.state.is_forgotten(claim) or not self.storage.draft_size(warc):
            return True
        return self.state.claims[claim].partitions <= self.state.orphans_used.get(warc, set())

    def _is_whole(self, number: int) -> bool:
        try:
            return read_snapshot(self.storage, number) is not None
        except WorkspaceError:
            return False

    def _remove_asides(self) -> None:
        """What was begun and not linked: gone before the entries are, so that nobody puts one into
        a hole.
        """
        for path in self.storage.files_below(FOLDER):
            if (
                path.endswith(ASIDE_SUFFIX)
                and (self.storage.modified_at(path) or 0) < self.replaced_before
            ):
                self._remove(path)

    def _remove(self, path: str) -> None:
        size = self.storage.size(path) or 0
        self.storage.remove(path)
        self._removed_in.add(os.path.dirname(path))
        self.report.files += 1
        self.report.bytes += size

    def _remove_folder(self, path: str) -> None:
        self.report.folders += self.storage.remove_folder(path)
