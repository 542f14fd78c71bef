"""Verify a workspace: the log, the files it names, and what the tables say about each other.

Finds faults and says what to do; changes nothing. What the tables say is checked in `lycosa.store.check_tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from lycosa.archive.members import Damage
from lycosa.archive.reader import read_exchanges
from lycosa.core.errors import ArchiveError, WorkspaceError
from lycosa.store.check_tables import check_tables
from lycosa.store.claim import DATA, WARC_NAME, folder_numbers
from lycosa.store.findings import ERROR, NOTE, WARNING, Finding, Report
from lycosa.store.live import LiveTables
from lycosa.store.log import FOLDER, DataFile, Entry, entry_path
from lycosa.store.schema import SORT, TABLES
from lycosa.store.state import LogState
from lycosa.store.storage import LocalStorage
from lycosa.store.tables import polars_schema
from lycosa.store.workspace import Workspace

KEY_SAMPLE = 100_000
"""URLs a table whose keys and partition are computed again; more are sampled evenly."""


def verify(workspace: Workspace, *, deep: bool = False, key_sample: int | None = KEY_SAMPLE) -> Report:
    """Check everything that can be checked. `deep` also reads every archived record; `key_sample` None recomputes all keys.

    A workspace that is being crawled can be checked: what is appended meanwhile is not looked at.
    """
    report = Report()
    state, entries = _check_log(workspace, report)
    whole = _check_table_files(workspace.storage, state, report)
    _check_archives(workspace.storage, entries, report, deep=deep)
    _check_leftovers(workspace.storage, state, report)
    _check_counters(entries, report)
    if whole:
        live = LiveTables(workspace, state)
        report.findings.extend(check_tables(live, workspace, key_sample))
        if deep:
            report.findings.extend(_check_records(live, workspace.storage, state))
    else:
        report.add(ERROR, "tables", "what the tables say was not checked", "mend the files above first, then check again")
    report.findings.sort(key=lambda finding: (ERROR, WARNING, NOTE).index(finding.severity))
    return report


def _check_log(workspace: Workspace, report: Report) -> tuple[LogState, list[Entry]]:
    """Fold as much of the log as is whole; what follows a fault cannot be trusted and is not looked at."""
    state, entries = LogState(workspace.log), []
    numbers = workspace.log.numbers()
    while True:
        number = state.head + 1
        try:
            entry = workspace.log.read(number)
            if entry is None:
                break
            state.fold(entry)
        except WorkspaceError as error:
            unread = sum(other > number for other in numbers)
            report.add(ERROR, entry_path(number), str(error), f"restore it from a backup; {unread} later entries were not read")
            break
        entries.append(entry)
        for partition in entry.partitions:
            if not 0 <= partition < workspace.partitions:
                report.add(ERROR, entry_path(number), f"it claims partition {partition}, which does not exist", "restore it from a backup")
    later = [number for number in numbers if number > state.head + 1]
    if later and entry_path(state.head + 1) not in {finding.where for finding in report.findings}:
        missing = entry_path(state.head + 1)
        report.add(
            ERROR,
            missing,
            f"it is missing, but entry {later[0]} is there",
            "restore it from a backup: later entries do not count without it",
        )
    named = {f"{number:08d}.json" for number in numbers}
    for name in set(workspace.storage.names(FOLDER)) - named:
        report.add(NOTE, f"{FOLDER}/{name}", "it is not a log entry and is ignored", "remove it if you like")
    report.counts["log entries"] = state.head
    return state, entries


def _check_table_files(storage: LocalStorage, state: LogState, report: Report) -> bool:
    """Each live table file: there, unchanged, readable, with its rows, columns and order. True if all are."""
    before = len(report.findings)
    seen: Counter[str] = Counter()
    for table, files in state.files.items():
        if table not in TABLES:
            report.add(WARNING, entry_path(files[0].entry), f"it names a table {table!r} that this program does not know", "upgrade Lycosa")
            before += 1
            continue
        for file in files:
            seen[file.path] += 1
            report.counts["table files"] += 1
            report.counts[f"{table} rows"] += file.rows
            problem = _file_problem(storage, DataFile(file.path, file.rows, file.bytes, file.digest)) or _table_problem(
                storage.path(file.path), table, file.rows
            )
            if problem:
                report.add(ERROR, file.path, problem, _RESTORE)
    for path, times in seen.items():
        if times > 1:
            report.add(ERROR, path, f"{times} log entries name it", "its rows count more than once; restore the log from a backup")
    return len(report.findings) == before


_RESTORE = "restore it from a backup, or crawl into a new workspace and `lycosa import` the archives of this one"


def _file_problem(storage: LocalStorage, file: DataFile, *, content: bool = True) -> str:
    size = storage.size(file.path)
    if size is None:
        return f"it is missing (the log says {file.bytes} bytes)"
    if size != file.bytes:
        return f"it has {size} bytes, the log says {file.bytes}"
    if content and storage.digest(file.path) != file.digest:
        return "its bytes have changed since it was committed"
    return ""


def _table_problem(path: str, table: str, rows: int) -> str:
    try:
        frame = pl.scan_parquet(path, glob=False)
        schema = frame.collect_schema()
        expected = polars_schema(TABLES[table])
        for name, kind in expected.items():
            if name in schema and schema[name] != kind:
                return f"its column {name} has the type {schema[name]}, not {kind}"
        if tuple(schema.names()[: len(SORT)]) != SORT:
            return f"it does not start with the columns {', '.join(SORT)}"
        keys = frame.select(pl.struct(SORT).alias("key")).collect()["key"]
    except (pl.exceptions.PolarsError, OSError) as error:
        return f"it cannot be read: {str(error).partition(chr(10))[0]}"
    if len(keys) != rows:
        return f"it has {len(keys)} rows, the log says {rows}"
    return "" if keys.is_sorted() else f"its rows are not sorted by {', '.join(SORT)}"


def _check_archives(storage: LocalStorage, entries: list[Entry], report: Report, *, deep: bool) -> None:
    for entry in entries:
        for file in (*entry.warcs, *entry.indexes):
            report.counts["archive files"] += 1
            problem = _file_problem(storage, file, content=deep)
            if problem:
                report.add(ERROR, file.path, problem, _RESTORE)


def _check_leftovers(storage: LocalStorage, state: LogState, report: Report) -> None:
    """Folders and files that no entry names: harmless, or waiting for replay."""
    named = {file.path for files in state.files.values() for file in files} | set(state.warcs)
    for name in storage.names(DATA):
        numbers = folder_numbers(name)
        if numbers is None or numbers[0] not in state.claims:
            report.add(WARNING, f"{DATA}/{name}", "no claim of the log made it", "it is ignored; remove it if you know where it came from")
            continue
        path = f"{DATA}/{name}/{WARC_NAME}"
        if path in named or not storage.size(path):
            continue
        claim = state.claims[numbers[0]]
        if state.holds(numbers[0]):
            report.add(
                NOTE, path, f"worker {claim.worker!r} has not committed it yet", "if it does not run any more, the next crawl replays it"
            )
        elif claim.partitions - state.orphans_used.get(path, set()):
            report.add(NOTE, path, "it was never committed", "nothing to do: the next crawl replays it")
        else:
            report.counts["replayed archives"] += 1


def _check_counters(entries: list[Entry], report: Report) -> None:
    """A counter that bears a table's name counts the rows that its commit added to that table."""
    for entry in entries:
        for table in TABLES.keys() & entry.counters.keys():
            counted, rows = entry.counters[table], sum(file.rows for file in entry.files.get(table, ()))
            if counted != rows:
                what = f"it counts {counted} {table}, its files hold {rows} rows"
                report.add(ERROR, entry_path(entry.number), what, "report this: the counts must add up")


def _check_records(live: LiveTables, storage: LocalStorage, state: LogState) -> Iterator[Finding]:
    """Every committed WARC read from end to end, and compared with the visits that point into it."""
    places = live.scan("visits").select("warc_file", "record_id", "warc_offset", "warc_length").unique().collect()
    by_file = places.partition_by("warc_file", as_dict=True)
    for path in state.warcs:
        damages: list[Damage] = []
        found = {}
        try:
            for stored in read_exchanges(storage.path(path), relative_path=path, on_damage=damages.append):
                found[stored.visit.record_id] = (stored.visit.warc_offset, stored.visit.warc_length)
        except (ArchiveError, OSError) as error:
            yield Finding(ERROR, path, f"it cannot be read: {error}", _RESTORE)
            continue
        for damage in damages:
            yield Finding(ERROR, path, f"bytes {damage.offset} to {damage.end} are no record: {damage.reason}", _RESTORE)
        rows = by_file.get((path,), places.clear())
        wrong = [(record, offset) for _, record, offset, length in rows.iter_rows() if found.get(record) != (offset, length)]
        if wrong:
            yield Finding(
                ERROR,
                path,
                f"visits that point to where their record is not: {len(wrong):,}, e.g. {wrong[0][0]} at {wrong[0][1]}",
                _RESTORE,
            )
        unread = len(found.keys() - set(rows["record_id"]))
        if unread:
            yield Finding(
                ERROR, path, f"exchanges without a row in visits: {unread:,}", "report this: a commit holds exactly its exchanges"
            )
