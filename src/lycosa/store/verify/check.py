"""Verify a workspace: the log, its files, and the consistency of the tables.

Reports problems and remedies; changes nothing. `lycosa.store.verify.table_checks` compares the
contents of the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from lycosa.archive.warc.members import Damage
from lycosa.archive.warc.reader import read_exchanges
from lycosa.core.errors import ArchiveError, WorkspaceError
from lycosa.store.compaction.plan import BASE, DELTA
from lycosa.store.log.archive_files import WARC_NAME, folder_numbers
from lycosa.store.log.claim import DATA
from lycosa.store.log.entry import entry_path
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile
from lycosa.store.storage.storage import Storage
from lycosa.store.tables.files import ENTRY, polars_schema, scan_file
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import SORT, TABLES
from lycosa.store.tables.visible import is_excluded
from lycosa.store.verify.findings import CDXJ, ERROR, NOTE, VACUUM, WARNING, CheckReport, Finding
from lycosa.store.verify.log_checks import check_counters, check_log
from lycosa.store.verify.table_checks import check_tables
from lycosa.store.workspace import Workspace
from lycosa.url.scope import hostname

_SLICE_ROWS = 500_000
KEY_SAMPLE = 100_000
"""URLs per table whose keys and partitions are recomputed; larger tables are sampled."""


def verify(
    workspace: Workspace, *, deep: bool = False, key_sample: int | None = KEY_SAMPLE
) -> CheckReport:
    """Check everything. `deep` also reads every archived record; `key_sample` None recomputes all
    keys.

    A workspace can be checked during a crawl; later commits are ignored.
    """
    report = CheckReport()
    state, entries = check_log(workspace, report)
    complete = _check_table_files(workspace.storage, state, report)
    _check_archives(workspace.storage, state, report, deep=deep)
    _check_leftovers(workspace.storage, state, report)
    check_counters(entries, report)
    if complete:
        live = LiveTables(workspace, state)
        _check_exclusions(workspace.storage, state, report)
        report.findings.extend(check_tables(live, workspace, key_sample))
        if deep:
            report.findings.extend(_check_records(live, workspace.storage, state))
    else:
        report.add(
            ERROR,
            "tables",
            "the contents of the tables were not checked",
            "repair the files above first, then check again",
        )
    return report.with_findings()


def _check_table_files(storage: Storage, state: LogState, report: CheckReport) -> bool:
    """Check that each live table file exists, is unchanged, and has its rows, columns and order.
    Return True if no problem was found.
    """
    valid = True
    references: Counter[str] = Counter()
    for table, files in state.files.items():
        if table not in TABLES:
            valid = False
            report.add(
                WARNING,
                entry_path(files[0].entry),
                f"it contains a table {table!r} that this version does not know",
                "upgrade Lycosa",
            )
            continue
        for file in files:
            references[file.path] += 1
            report.counts["table files"] += 1
            report.counts[f"{table} rows"] += file.rows
            problem = _file_problem(storage, file) or _table_problem(
                storage.files.local_path(file.path), table, file
            )
            if problem:
                valid = False
                report.add(ERROR, file.path, problem, _RESTORE)
    for path, times in references.items():
        if times > 1:
            valid = False
            report.add(
                ERROR,
                path,
                f"{times} log entries refer to it",
                "its rows count more than once; restore the log from a backup",
            )
    return valid


_RESTORE = (
    "restore it from a backup; without a backup, `lycosa import` the archives in data/ "
    "into a new workspace and continue there"
)
_RESTORE_ARCHIVE = (
    "restore it from a backup; without a backup only its captures are lost: their "
    "pages stay in the tables and in the index"
)


def _file_problem(storage: Storage, file: DataFile, *, content: bool = True) -> str:
    try:
        size = storage.size(file.path)
        if size is None:
            return f"it is missing ({file.bytes} bytes according to the log)"
        if size != file.bytes:
            return f"it has {size} bytes, but {file.bytes} according to the log"
        if content and storage.files.digest(file.path) != file.digest:
            return "its bytes have changed since it was committed"
    except WorkspaceError as error:
        return str(error)  # a path outside the workspace
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return ""


def _table_problem(path: str, table: str, file: DataFile) -> str:
    try:
        frame = pl.scan_parquet(path, glob=False)
        schema = frame.collect_schema()
        expected = polars_schema(TABLES[table])
        for name, kind in expected.items():
            if name in schema and schema[name] != kind:
                return f"its column {name} has the type {schema[name]}, not {kind}"
        if tuple(schema.names()[: len(SORT)]) != SORT:
            return f"it does not start with the columns {', '.join(SORT)}"
        if file.merged and schema.get(ENTRY) != pl.Int64():
            return f"it was compacted, but has no column {ENTRY}"
        return _rows_problem(frame, file)
    except (pl.exceptions.PolarsError, OSError) as error:
        return f"it cannot be read: {str(error).partition(chr(10))[0]}"


def _rows_problem(frame: pl.LazyFrame, file: DataFile) -> str:
    rows = frame.select(pl.len()).collect().item()
    if rows != file.rows:
        return f"it has {rows} rows, but {file.rows} according to the log"
    last = pl.DataFrame()
    for start in range(0, rows, _SLICE_ROWS):
        part = (
            frame.slice(start, _SLICE_ROWS)
            .select(*SORT, *([ENTRY] if file.merged else []))
            .collect()
        )
        if file.merged and not part[ENTRY].is_between(1, file.entry).all():
            return (
                f"it contains rows of entries after {file.entry}, the last entry that it replaces"
            )
        if not pl.concat([last, part.select(SORT)]).to_struct().is_sorted():
            return f"its rows are not sorted by {', '.join(SORT)}"
        last = part.select(SORT).tail(1)
    return ""


def _check_archives(storage: Storage, state: LogState, report: CheckReport, *, deep: bool) -> None:
    for path, file in state.warcs.items():
        report.counts["archive files"] += 1
        problem = _file_problem(storage, file, content=deep)
        if problem:
            report.add(ERROR, path, problem, _RESTORE_ARCHIVE)
    for path, file in state.indexes.items():
        report.counts["archive files"] += 1
        problem = _file_problem(storage, file)
        if problem:
            report.add(
                ERROR,
                path,
                problem,
                "`lycosa check --repair` writes it again from its WARC file",
                CDXJ,
            )


def _check_leftovers(storage: Storage, state: LogState, report: CheckReport) -> None:
    """Report folders and files that no entry names: obsolete, or to be replayed."""
    named = state.live_paths() | set(state.warcs)
    for top in (BASE, DELTA):
        report.counts["unreferenced files"] += sum(
            path not in named for path in storage.files_below(top)
        )
    for path in sorted(state.retired):
        if storage.size(path) is not None:
            what = "replaced by a purge that was interrupted before it deleted the file"
            report.add(
                NOTE,
                path,
                what,
                "purge again, or wait for the next vacuum; `lycosa check --repair` deletes it",
                VACUUM,
            )
    for name in sorted({*storage.names(DATA), *storage.files.draft_names(DATA)}):
        numbers = folder_numbers(name)
        if numbers is not None and state.is_forgotten(numbers[0]):
            continue
        if numbers is None or numbers[0] not in state.claims:
            report.add(
                WARNING,
                f"{DATA}/{name}",
                "it does not belong to a claim of the log",
                "it is ignored; delete it if you know where it came from",
            )
            continue
        path = f"{DATA}/{name}/{WARC_NAME}"
        if path in named or path in state.retired or not storage.files.draft_size(path):
            continue
        claim = state.claims[numbers[0]]
        if state.holds(numbers[0]):
            report.add(
                NOTE,
                path,
                f"worker {claim.worker!r} has not committed it yet",
                "if that worker is no longer running, the next crawl replays the file",
            )
        elif claim.partitions - state.orphans_used.get(path, set()):
            report.add(
                NOTE, path, "it was never committed", "nothing to do: the next crawl replays it"
            )
        else:
            report.counts["replayed archives"] += 1


def _check_exclusions(storage: Storage, state: LogState, report: CheckReport) -> None:
    """Report excluded rows that are hidden but still stored."""
    for name, table in TABLES.items():
        hidden = is_excluded(state.exclusions, name)
        files = state.files.get(name, []) if hidden is not None else []
        rows = sum(
            scan_file(storage, table, file).select(hidden.sum()).collect().item()
            for file in files
            if hidden is not None
        )
        if rows:
            report.add(
                NOTE,
                name,
                f"rows of excluded URLs, stored but hidden: {rows:,}",
                "purge to delete them from the disk",
            )


def _check_records(live: LiveTables, storage: Storage, state: LogState) -> Iterator[Finding]:
    """Read every committed WARC file and compare it with the rows of `visits`."""
    places = (
        live.scan("visits")
        .select("warc_file", "record_id", "warc_offset", "warc_length")
        .unique()
        .collect()
    )
    by_file = places.partition_by("warc_file", as_dict=True)
    for path in state.warcs:
        damages: list[Damage] = []
        positions = {}
        try:
            for stored in read_exchanges(
                storage.files.local_path(path), relative_path=path, on_damage=damages.append
            ):
                if not state.excluded(stored.exchange.url, hostname(stored.exchange.url)):
                    positions[stored.visit.record_id] = (
                        stored.visit.warc_offset,
                        stored.visit.warc_length,
                    )
        except (ArchiveError, OSError) as error:
            yield Finding(ERROR, path, f"it cannot be read: {error}", _RESTORE_ARCHIVE)
            continue
        for damage in damages:
            yield Finding(
                ERROR,
                path,
                f"bytes {damage.offset} to {damage.end} are not a valid record: {damage.reason}",
                _RESTORE_ARCHIVE,
            )
        rows = by_file.get((path,), places.clear())
        wrong = [
            (record, offset)
            for _, record, offset, length in rows.iter_rows()
            if positions.get(record) != (offset, length)
        ]
        if wrong:
            yield Finding(
                ERROR,
                path,
                f"visits with a wrong record position: {len(wrong):,}, for example {wrong[0][0]} "
                f"at {wrong[0][1]}",
                _RESTORE,
            )
        unread = len(positions.keys() - set(rows["record_id"]))
        if unread:
            yield Finding(
                ERROR,
                path,
                f"exchanges without a row in visits: {unread:,}",
                "report this as a defect of Lycosa: a commit must contain exactly its exchanges",
            )
