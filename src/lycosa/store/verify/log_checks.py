"""Checks of the log: its entries, the snapshots beside them, and that both say the same."""

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
from lycosa.store.verify.findings import ENTRIES, ERROR, NOTE, REMOVE, WARNING, Report
from lycosa.store.workspace import Workspace

_RESTORE = "restore it from a backup"
_RESTORE_LAST = (
    f"{_RESTORE}; it is the last entry: without a backup, delete it, and the next crawl replays "
    "its commit (an exclusion in it is lost: "
    "exclude again)"
)


def check_log(workspace: Workspace, report: Report) -> tuple[LogState, list[Entry]]:
    """Fold as much of the log as is whole, from its first entry or the oldest snapshot that is
    needed; what follows a fault cannot be trusted and is not looked at. Returns the state and the
    entries that are there.
    """
    numbers = workspace.log.numbers()
    snapshots, damaged = _snapshots(workspace)
    state = _start(workspace, numbers, snapshots, report)
    first, entries = state.head + 1, []
    while True:
        number = state.head + 1
        try:
            entry = workspace.log.read(number)
            if entry is None:
                break
            state.fold(entry)
        except NewerError as error:
            report.add(ERROR, entry_path(number), str(error), "upgrade Lycosa: nothing is damaged")
            break
        except (WorkspaceError, OSError) as error:
            covered = max((other for other in snapshots if other >= number), default=0)
            if covered and _say_covered(workspace, number, covered, snapshots, str(error), report):
                state = LogState.from_snapshot(workspace.log, snapshots[covered])
                continue
            unread = sum(other > number for other in numbers)
            remedy = (
                f"{_RESTORE}; {unread} later entries were not read" if unread else _RESTORE_LAST
            )
            report.add(ERROR, entry_path(number), str(error), remedy)
            break
        entries.append(entry)
        _check_partitions(workspace, entry, report)
        snapshot = snapshots.get(number)
        if snapshot is not None and not _says_the_same(snapshot, state):
            what, remedy = (
                "it differs from the log entries",
                "`lycosa check --repair` deletes it: the entries exist",
            )
            report.add(ERROR, snapshot_path(number), what, remedy, REMOVE)
    for number, problem in damaged.items():
        if first <= number - INTERVAL + 1 and number <= state.head:
            report.add(
                ERROR,
                snapshot_path(number),
                problem,
                "`lycosa check --repair` deletes it: the entries exist",
                REMOVE,
            )
        else:
            report.add(ERROR, snapshot_path(number), problem, _RESTORE)
    _check_gap(state, numbers, report)
    known = {f"{number:08d}.json" for number in numbers} | {
        snapshot_path(number).split("/")[1] for number in snapshot_numbers(workspace.storage)
    }
    for name in set(workspace.storage.names(FOLDER)) - known:
        report.add(
            NOTE, f"{FOLDER}/{name}", "it is not a log entry and is ignored", "it can be deleted"
        )
    report.counts["log entries"] = len(entries)
    if first > 1:
        report.counts["older log entries in a snapshot"] = first - 1
    return state, entries


def check_counters(entries: list[Entry], report: Report) -> None:
    """A counter that bears a table's name counts the rows that its commit added to that table."""
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


def _snapshots(workspace: Workspace) -> tuple[dict[int, Snapshot], dict[int, str]]:
    """Those that are sound, and what is wrong with the others."""
    found, damaged = {}, {}
    for number in snapshot_numbers(workspace.storage):
        try:
            snapshot = read_snapshot(workspace.storage, number)
        except (WorkspaceError, OSError) as error:
            damaged[number] = str(error)
            continue
        if snapshot is not None:
            found[number] = snapshot
    return found, damaged


def _says_the_same(snapshot: Snapshot, state: LogState) -> bool:
    if snapshot.attempts != list(map(brief, state.attempts)):
        return False
    return snapshot.document == state.document()


def _say_covered(
    workspace: Workspace,
    number: int,
    covered: int,
    snapshots: dict[int, Snapshot],
    problem: str,
    report: Report,
) -> bool:
    """A damaged entry that a sound snapshot stands for is needed by nobody. False if the snapshot
    cannot be folded.
    """
    try:
        LogState.from_snapshot(workspace.log, snapshots[covered])
    except WorkspaceError:
        return False
    what = f"{problem} ({snapshot_path(covered)} has the same content)"
    report.add(
        ERROR,
        entry_path(number),
        what,
        "`lycosa check --repair` deletes the entries that this snapshot replaces",
        ENTRIES,
    )
    return True


def _start(
    workspace: Workspace, numbers: list[int], snapshots: dict[int, Snapshot], report: Report
) -> LogState:
    """The state from which the entries that are there can be folded: the earliest, so that most is
    compared.
    """
    present = set(numbers)
    newest = max(snapshots, default=0)
    if any(number not in present for number in range(min(present, default=newest), newest)):
        try:
            state = LogState.from_snapshot(workspace.log, snapshots[newest])
            what = (
                f"entries before {snapshot_path(newest)} are missing between others: their "
                "deletion was interrupted"
            )
            remedy = (
                "nothing to do: the snapshot has the same content; the next vacuum, or "
                "`lycosa check --repair`, deletes the rest"
            )
            report.add(WARNING, FOLDER, what, remedy, ENTRIES)
            return state
        except WorkspaceError:
            pass  # said below
    if 1 in present or not snapshots:
        return LogState(workspace.log)
    last = max(numbers, default=0)
    for number in sorted(snapshots):
        if last <= number or number + 1 in present:
            try:
                return LogState.from_snapshot(workspace.log, snapshots[number])
            except WorkspaceError as error:
                report.add(ERROR, snapshot_path(number), str(error), _RESTORE)
    return LogState(workspace.log)


def _check_partitions(workspace: Workspace, entry: Entry, report: Report) -> None:
    for partition in entry.partitions:
        if not 0 <= partition < workspace.partitions:
            report.add(
                ERROR,
                entry_path(entry.number),
                f"it claims partition {partition}, which does not exist",
                _RESTORE,
            )


def _check_gap(state: LogState, numbers: list[int], report: Report) -> None:
    """Entries behind a number that is missing. Before a snapshot numbers may be missing: that is
    how entries are deleted.
    """
    following = state.head + 1
    later = [number for number in numbers if number > following]
    if later and entry_path(following) not in {finding.where for finding in report.findings}:
        what = f"it is missing, but entry {later[0]} exists"
        report.add(
            ERROR, entry_path(following), what, f"{_RESTORE}: later entries are ignored without it"
        )
    covered = -(-following // INTERVAL) * INTERVAL
    if not later and covered in {
        number for number in snapshot_numbers(state.log.storage) if number >= following
    }:
        report.add(
            ERROR,
            entry_path(following),
            f"it is missing, but {snapshot_path(covered)} was written after it",
            _RESTORE,
        )
