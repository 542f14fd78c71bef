"""Compaction: replace small table files by larger ones with the same live rows.

It needs no claim and runs in any process while workers run. It writes files into folders of its
own, then one log entry per table, which makes them live in place of their inputs. Later commits are
not affected. If another process replaced an input first, or this one is killed, only its work is
lost; vacuum removes its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import polars as pl

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import WorkspaceError
from lycosa.core.units import format_time
from lycosa.store.compaction.plan import (
    SHARED,
    CompactionPlan,
    CompactionSettings,
    base_path,
    base_place,
    delta_path,
    plan,
)
from lycosa.store.coordination.owner import BUSY, maintenance
from lycosa.store.log.entry import MERGE
from lycosa.store.log.state import LogState
from lycosa.store.log.transaction import NotLive, Transaction
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.files import by_partition, scan_file, write_rows
from lycosa.store.tables.ordered import SortedFiles, in_key_order
from lycosa.store.tables.precedence import without_superseded
from lycosa.store.tables.schema import TABLES, Table
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class CompactionReport:
    """Result of a compaction. `entries` are its log entries, `gave_up` is why it ended early."""

    entries: tuple[int, ...] = ()
    files_before: int = 0
    files_after: int = 0
    rows_dropped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    gave_up: str = ""

    def __add__(self, other: CompactionReport) -> CompactionReport:
        """Combine the reports of different tables, or of consecutive steps."""
        return CompactionReport(
            (*self.entries, *other.entries),
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.rows_dropped + other.rows_dropped,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            "; ".join(reason for reason in (self.gave_up, other.gave_up) if reason),
        )


def compact(
    workspace: Workspace,
    settings: CompactionSettings | None = None,
    *,
    whole: bool = False,
    clock: Clock | None = None,
) -> CompactionReport:
    """Compact all tables until nothing is due. `whole` compacts everything into the base.

    Returns at once if another process on this machine compacts, vacuums or purges.

    Raises:
        WorkspaceError: the log is damaged, or a file that it names cannot be read.
        OSError: storage failed; unfinished work changed nothing.
    """
    chosen = settings or CompactionSettings()
    report = CompactionReport()
    with maintenance(workspace.storage) as locked:
        if not locked:
            return CompactionReport(gave_up=BUSY)
        state = workspace.state()
        before = count_files(state)
        for name in TABLES:
            report += _compact(workspace, state, name, chosen, whole, clock)
            if report.gave_up:
                break
    return replace(report, files_before=before, files_after=count_files(state))


def compact_table(
    workspace: Workspace,
    name: str,
    settings: CompactionSettings,
    *,
    whole: bool = False,
) -> CompactionReport:
    """Compact one table. The caller holds the `maintenance` lock; different tables may be compacted
    concurrently, in any processes.
    """
    state = workspace.state()
    before = len(state.files.get(name, ()))
    report = _compact(workspace, state, name, settings, whole)
    return replace(report, files_before=before, files_after=len(state.files.get(name, ())))


def compaction_is_due(state: LogState, settings: CompactionSettings | None = None) -> bool:
    """Return whether `compact` would do anything. Cheap enough to call after every commit."""
    chosen = settings or CompactionSettings()
    return any(plan(state.files.get(name, []), chosen, name) is not None for name in TABLES)


def count_files(state: LogState) -> int:
    """Return the number of live table files."""
    return sum(map(len, state.files.values()))


def _compact(
    workspace: Workspace,
    state: LogState,
    name: str,
    settings: CompactionSettings,
    whole: bool,
    clock: Clock | None = None,
) -> CompactionReport:
    """Compact a table until nothing is due, or another process replaced an input."""
    table, at = TABLES[name], clock or SystemClock()
    report = CompactionReport()
    try:
        while due := plan(state.files.get(name, []), settings, name, whole=whole):
            with Transaction(state) as transaction:
                rewriting = _Rewriting(workspace, table, due, settings, transaction)
                report += rewriting.run(format_time(at.now_ms()))
    except NotLive as error:
        return replace(report, gave_up=str(error))
    except FileNotFoundError as error:
        raise WorkspaceError(f"a table file is missing: {error}; run `lycosa check`") from None
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(
            f"a file of {name} cannot be read: {error}; run `lycosa check`"
        ) from None
    return report


class _Rewriting:
    """Writes the files of one plan as one delta file, or as base files."""

    def __init__(
        self,
        workspace: Workspace,
        table: Table,
        due: CompactionPlan,
        settings: CompactionSettings,
        transaction: Transaction,
    ) -> None:
        self._storage = workspace.storage
        self._table = table
        self._plan = due
        self._settings = settings
        self._transaction = transaction
        self._replaced: list[DataFile] = []

    def run(self, at: str) -> CompactionReport:
        """Write the files, then the entry. Raises NotLive or WorkspaceError."""
        if self._plan.into_base:
            self._write_base()
        else:
            self._replaced = list(self._plan.files)
            self._write(
                delta_path(self._plan.as_of, self._transaction.attempt, self._table.name),
                self._rows([SortedFiles((file,)) for file in self._replaced]),
            )
        written = tuple(self._transaction.files.values())
        self._transaction.require_files()
        entry = self._transaction.commit(
            MERGE,
            at,
            files={self._table.name: written} if written else {},
            replaces=tuple(file.path for file in self._replaced),
        )
        rows = sum(file.rows for file in self._replaced) - sum(file.rows for file in written)
        return CompactionReport(
            (entry.number,),
            rows_dropped=rows,
            bytes_read=sum(file.bytes for file in self._replaced),
            bytes_written=sum(file.bytes for file in written),
        )

    def _write_base(self) -> None:
        loose = [file for file in self._plan.files if not base_place(file.path)]
        base: dict[str, list[DataFile]] = {}
        for file in self._plan.files:
            place = base_place(file.path)
            if place is not None:
                base.setdefault(place[0], []).append(file)
        self._replaced = list(loose)
        for collection in self._collections(loose):
            old = sorted(
                base.get(collection, []), key=lambda file: base_place(file.path) or ("", 0)
            )
            self._replaced.extend(old)
            # A file with rows of several collections is read once for each of them.
            only = None if collection == SHARED else pl.col("collection") == collection
            self._write_split(
                collection,
                [
                    *([SortedFiles(tuple(old))] if old else []),
                    *(SortedFiles((file,), only) for file in loose),
                ],
            )

    def _write_split(self, collection: str, inputs: list[SortedFiles]) -> None:
        """Write the base files of a collection, each of about `split_bytes`."""
        expected = [file for source in inputs for file in source.files]
        written: list[DataFile] = []

        def max_rows() -> int:
            measured = written or expected
            row_bytes = sum(f.bytes for f in measured) / max(1, sum(f.rows for f in measured))
            return max(1, int(self._settings.split_bytes / max(1.0, row_bytes)))

        for part in by_partition(self._rows(inputs), max_rows):
            first = next(part)
            path = base_path(
                collection,
                first.item(0, "partition"),
                self._plan.as_of,
                self._transaction.attempt,
                self._table.name,
            )
            written += self._write(path, chain([first], part))

    def _collections(self, files: list[DataFile]) -> list[str]:
        if "collection" not in self._table.names:
            return [SHARED]
        collections: set[str] = set()
        for file in files:
            rows = scan_file(self._storage, self._table, file)
            collections.update(rows.select(pl.col("collection").unique()).collect()["collection"])
        return sorted(collections)

    def _rows(self, inputs: list[SortedFiles]) -> Iterator[pl.DataFrame]:
        for frame in in_key_order(self._storage, self._table, inputs, self._settings.memory_bytes):
            rows = without_superseded(self._table, frame, self._transaction.state.applied)
            if rows.height:
                yield rows

    def _write(self, path: str, frames: Iterator[pl.DataFrame]) -> list[DataFile]:
        rows = write_rows(
            self._transaction.start(path), frames, self._table, passing=not self._plan.into_base
        )
        return self._transaction.publish({path: rows}, as_of=self._plan.as_of) if rows else []
