"""Check the log: its entries, its snapshots, and that both agree."""

from __future__ import annotations

from lycosa.core.errors import NewerError, WorkspaceError
from lycosa.store.log.entry import FOLDER, Entry, entry_path
from lycosa.store.log.snapshot import (
    INTERVAL,
    Snapshot,
    brief,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from lycosa.store.log.state import LogState
from lycosa.store.tables.schema import TABLES
from lycosa.store.verify.findings import ENTRIES, ERROR, NOTE, REMOVE, WARNING, CheckReport
from lycosa.store.workspace import Workspace

_RESTORE = "restore it from a backup"
_RESTORE_LAST = (
    f"{_RESTORE}; it is the last entry: without a backup, delete it, and the next crawl replays "
    "its commit (an exclusion in it is lost: "
    "exclude again)"
)


def check_log(workspace: Workspace, report: CheckReport) -> tuple[LogState, list[Entry]]:
    """Apply the log from its first entry, or the oldest necessary snapshot, up to the first error.

    Return the resulting state and the entries that were read.
    """
    check = _LogCheck(workspace, report)
    check.read_entries()
    check.report_damaged_snapshots()
    check.report_gap()
    check.report_unknown_files()
    report.counts["log entries"] = len(check.entries)
    if check.first > 1:
        report.counts["older log entries in a snapshot"] = check.first - 1
    return check.state, check.entries


def check_counters(entries: list[Entry], report: CheckReport) -> None:
    """Check that counters named after tables equal the rows that their commits added."""
    for entry in entries:
        for table in TABLES.keys() & entry.counters.keys():
            counted, rows = (
                entry.counters[table],
                sum(file.rows for file in entry.files.get(table, ())),
            )
            if counted != rows:
                what = f"its counter of {table} is {counted}, but its files have {rows} rows"
                report.add(
                    ERROR,
                    entry_path(entry.number),
                    what,
                    "report this as a defect of Lycosa: the counts must add up",
                )


class _LogCheck:
    def __init__(self, workspace: Workspace, report: CheckReport) -> None:
        self._workspace, self._report = workspace, report
        self._numbers = workspace.log.numbers()
        self._snapshots, self._damaged = _read_snapshots(workspace)
        self._failed: int | None = None  # number of the entry that could not be read
        self.state = self._initial_state()
        self.first = self.state.head + 1
        self.entries: list[Entry] = []

    def read_entries(self) -> None:
        """Apply the entries in order, and compare the snapshots with them."""
        while True:
            number = self.state.head + 1
            try:
                entry = self._workspace.log.read(number)
                if entry is None:
                    return
                self.state.apply(entry)
            except NewerError as error:
                self._fail(number, str(error), "upgrade Lycosa: nothing is damaged")
                return
            except (WorkspaceError, OSError) as error:
                if self._skip_covered(number, str(error)):
                    continue
                unread = sum(other > number for other in self._numbers)
                remedy = (
                    f"{_RESTORE}; {unread} later entries were not read" if unread else _RESTORE_LAST
                )
                self._fail(number, str(error), remedy)
                return
            self.entries.append(entry)
            self._check_partitions(entry)
            snapshot = self._snapshots.get(number)
            if snapshot is not None and not _equals(snapshot, self.state):
                self._remove_snapshot(number, "it differs from the log entries")

    def report_damaged_snapshots(self) -> None:
        for number, problem in self._damaged.items():
            if self.first <= number - INTERVAL + 1 and number <= self.state.head:
                self._remove_snapshot(number, problem)
            else:
                self._report.add(ERROR, snapshot_path(number), problem, _RESTORE)

    def report_gap(self) -> None:
        """Report entries after a missing number. Before a snapshot entries may be deleted."""
        following = self.state.head + 1
        later = [number for number in self._numbers if number > following]
        covered = -(-following // INTERVAL) * INTERVAL
        if later and following != self._failed:
            what = f"it is missing, but entry {later[0]} exists"
            remedy = f"{_RESTORE}: later entries are ignored without it"
            self._report.add(ERROR, entry_path(following), what, remedy)
        if not later and covered in snapshot_numbers(self._workspace.storage):
            what = f"it is missing, but {snapshot_path(covered)} was written after it"
            self._report.add(ERROR, entry_path(following), what, _RESTORE)

    def report_unknown_files(self) -> None:
        storage = self._workspace.storage
        expected = set(map(entry_path, self._numbers)) | set(
            map(snapshot_path, snapshot_numbers(storage))
        )
        for path in {f"{FOLDER}/{name}" for name in storage.names(FOLDER)} - expected:
            self._report.add(
                NOTE, path, "it is not a log entry and is ignored", "it can be deleted"
            )

    def _initial_state(self) -> LogState:
        """Return the earliest state from which the existing entries can be applied."""
        present, log = set(self._numbers), self._workspace.log
        newest = max(self._snapshots, default=0)
        if any(number not in present for number in range(min(present, default=newest), newest)):
            state = self._snapshot_state(newest)
            if state is not None:
                what = (
                    f"entries before {snapshot_path(newest)} are missing between others: their "
                    "deletion was interrupted"
                )
                remedy = (
                    "nothing to do: the snapshot has the same content; the next vacuum, or "
                    "`lycosa check --repair`, deletes the rest"
                )
                self._report.add(WARNING, FOLDER, what, remedy, ENTRIES)
                return state
        if 1 in present or not self._snapshots:
            return LogState(log)
        last = max(self._numbers, default=0)
        for number in sorted(self._snapshots):
            if last <= number or number + 1 in present:
                try:
                    return LogState.from_snapshot(log, self._snapshots[number])
                except WorkspaceError as error:
                    self._report.add(ERROR, snapshot_path(number), str(error), _RESTORE)
        return LogState(log)

    def _snapshot_state(self, number: int) -> LogState | None:
        try:
            return LogState.from_snapshot(self._workspace.log, self._snapshots[number])
        except WorkspaceError:
            return None

    def _skip_covered(self, number: int, problem: str) -> bool:
        """Continue after a snapshot that covers a damaged entry; False if there is none."""
        covered = max((other for other in self._snapshots if other >= number), default=0)
        state = self._snapshot_state(covered) if covered else None
        if state is None:
            return False
        self._report.add(
            ERROR,
            entry_path(number),
            f"{problem} ({snapshot_path(covered)} has the same content)",
            "`lycosa check --repair` deletes the entries that this snapshot replaces",
            ENTRIES,
        )
        self.state = state
        return True

    def _fail(self, number: int, problem: str, remedy: str) -> None:
        self._failed = number
        self._report.add(ERROR, entry_path(number), problem, remedy)

    def _remove_snapshot(self, number: int, problem: str) -> None:
        remedy = "`lycosa check --repair` deletes it: the entries exist"
        self._report.add(ERROR, snapshot_path(number), problem, remedy, REMOVE)

    def _check_partitions(self, entry: Entry) -> None:
        for partition in entry.partitions:
            if not 0 <= partition < self._workspace.partitions:
                what = f"it claims partition {partition}, which does not exist"
                self._report.add(ERROR, entry_path(entry.number), what, _RESTORE)


def _read_snapshots(workspace: Workspace) -> tuple[dict[int, Snapshot], dict[int, str]]:
    """Return the valid snapshots, and the problems of the others."""
    snapshots, damaged = {}, {}
    for number in snapshot_numbers(workspace.storage):
        try:
            snapshot = read_snapshot(workspace.storage, number)
        except (WorkspaceError, OSError) as error:
            damaged[number] = str(error)
            continue
        if snapshot is not None:
            snapshots[number] = snapshot
    return snapshots, damaged


def _equals(snapshot: Snapshot, state: LogState) -> bool:
    if snapshot.attempts != list(map(brief, state.attempts)):
        return False
    return snapshot.document == state.document()
